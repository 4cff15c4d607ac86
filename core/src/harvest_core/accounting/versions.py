"""What a Lustre version promises about its job_stats files; unknown versions promise nothing."""

Version = tuple[int, ...]


def in_creation_order(version: Version) -> bool:
    """Tell whether records stand in the order in which they were created (2.5.3 to 2.16.1)."""
    return (2, 5, 3) <= version < (2, 16, 51)


def can_skip(version: Version) -> bool:
    """Tell whether a read may miss a record that is there, because another was removed meanwhile (to 2.15.55)."""
    return not version >= (2, 15, 56)


def never_cleans(version: Version, interval_seconds: int) -> bool:
    """Tell whether this cleanup interval means that records stay for ever: 0, and since 2.14.56 also 1."""
    return interval_seconds == 0 or (interval_seconds == 1 and version >= (2, 14, 56))


def counts_from_boot(version: Version) -> bool:
    """Tell whether the times of records count from the server's boot (2.14.56 to 2.15.1, and 2.15.50 to 2.15.52)."""
    return (2, 14, 56) <= version < (2, 15, 2) or (2, 15, 50) <= version < (2, 15, 53)
