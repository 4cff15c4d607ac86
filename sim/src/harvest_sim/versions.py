"""What each Lustre version does: one table, read from lustre-formats (its paragraphs are cited as §)."""

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Self

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:_ddn(\d+))?")


class IdRule(Enum):
    """How the bytes of a job id are written (§1.1, §1.2)."""

    RAW = "raw"
    QUESTION = "?"
    A = "A"
    B = "B"


class TimeStyle(Enum):
    """How the times of a job record are written (§1.1)."""

    INTEGER = "integer"
    ODD = "odd"
    NSECS = "nsecs"


class ReadPosition(Enum):
    """What a reader's place in job_stats is tied to between two read() calls (§1.6)."""

    INDEX = "index"
    FOLLOWS = "follows"
    CREATION = "creation"


class ScanRule(Enum):
    """When idle records are looked for (§2.1)."""

    ANY_OPERATION = "any operation"
    NEW_ID_OR_CLOSE = "new id or close"


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A Lustre version such as 2.15.0 or 2.14.0_ddn164."""

    major: int
    minor: int
    patch: int
    ddn: int = -1
    """DDN's build number; -1 means that this is no DDN build."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the version that starts ``text``; what follows (``_86_g2383a62``) is ignored."""
        found = _VERSION.match(text)
        if found is None:
            raise ValueError(f"not a Lustre version: {text!r}")
        major, minor, patch, ddn = found.groups(default="-1")
        return cls(int(major), int(minor), int(patch), int(ddn))

    @property
    def text(self) -> str:
        """The version as Lustre writes it."""
        base = f"{self.major}.{self.minor}.{self.patch}"
        return base if self.ddn < 0 else f"{base}_ddn{self.ddn}"

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The three numbers, without the vendor's build."""
        return self.major, self.minor, self.patch

    @property
    def behaves_as(self) -> tuple[int, int, int]:
        """The public version whose text this one prints: EXAScaler has no public source (§1.1, last rows)."""
        if self.ddn < 0 or self.numbers != (2, 14, 0):
            return self.numbers
        return (2, 16, 0) if self.ddn >= 162 else (2, 14, 55)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Everything in which versions differ, for one version."""

    version: Version
    id_rule: IdRule
    quotes_leading_at: bool
    accepts_quoted_id: bool
    time_style: TimeStyle
    has_start_time: bool
    has_stats_header_switch: bool
    has_blank_before_numbers: bool
    has_sumsq: bool
    saturates_sums: bool
    has_hist: bool
    header_needs_job: bool
    """No ``job_stats:`` line without a job, and the flag to print it belongs to the target (§1.1, §1.6)."""
    read_position: ReadPosition
    keeps_creation_order: bool
    clear_spares_busy: bool
    scan_rule: ScanRule
    halves_interval: bool
    uses_boot_clock: bool
    has_instance: bool
    stats_nsecs: bool
    stats_has_start: bool
    stats_name_width: int
    stats_has_generic_counters: bool
    md_stats_close_has_values: bool
    ldlm_stats_shows_stats: bool
    counts_mdt_data: bool


@cache
def traits(version: Version) -> Traits:
    """Return what ``version`` does."""
    at = version.behaves_as
    if at < (2, 3, 0):
        raise ValueError(f"{version.text} has no job_stats: the first is 2.3")
    # 2.15.2 and later of the maintenance branch sort below 2.15.50, where master went on from 2.15.0.
    branch_15 = (2, 15, 2) <= at < (2, 15, 50)
    # §1.1: 2.14.56-2.15.1, and master until 2.15.52.
    odd = (2, 14, 56) <= at < (2, 15, 53) and not branch_15
    return Traits(
        version=version,
        id_rule=_id_rule(at, branch_15=branch_15),
        quotes_leading_at=at >= (2, 15, 60),  # §1.2, rule B
        accepts_quoted_id=at >= (2, 15, 55),  # §1.2, last line
        time_style=_time_style(at, odd=odd),
        has_start_time=at >= (2, 14, 56),  # §1.1, §2.2
        has_stats_header_switch=at >= (2, 15, 58),  # §1.1: enable_stats_header
        has_blank_before_numbers=at >= (2, 14, 51),  # §1.1: LU-13857
        has_sumsq=at >= (2, 13, 55),  # §1.1
        saturates_sums=at >= (2, 16, 54) or (version.ddn >= 56 and version.numbers == (2, 16, 0)),  # §2.7
        has_hist=at >= (2, 15, 53),  # §1.1: not on the 2.15 branch
        header_needs_job=at >= (2, 16, 51),  # §1.1, §1.6
        read_position=_read_position(at),
        keeps_creation_order=at < (2, 16, 51),  # §2.4
        clear_spares_busy=_clear_spares_busy(at),
        scan_rule=ScanRule.NEW_ID_OR_CLOSE if at >= (2, 7, 57) else ScanRule.ANY_OPERATION,  # §2.1
        halves_interval=at >= (2, 14, 56),  # §2.1
        uses_boot_clock=odd,  # §1.5, §2.1
        has_instance=at >= (2, 5, 3),  # §2.4
        stats_nsecs=at >= (2, 9, 55),  # §3
        stats_has_start=at >= (2, 14, 56),  # §3
        stats_name_width=35 if at >= (2, 17, 54) else 25,  # §3
        stats_has_generic_counters=at <= (2, 11, 52),  # §3
        md_stats_close_has_values=at[:2] == (2, 12),  # §3: `close`, `mknod` may carry `1 1 <n>`
        ldlm_stats_shows_stats=(2, 16, 53) <= at <= (2, 17, 0),  # §3
        counts_mdt_data=at >= (2, 13, 55),  # §1.3: before, the counting function is an empty stub
    )


def _id_rule(at: tuple[int, int, int], *, branch_15: bool) -> IdRule:
    # §1.1, column job_id text
    if at <= (2, 7, 60):
        return IdRule.RAW
    if at >= (2, 15, 55):
        return IdRule.B
    return IdRule.A if branch_15 or at >= (2, 15, 51) else IdRule.QUESTION


def _time_style(at: tuple[int, int, int], *, odd: bool) -> TimeStyle:
    # §1.1, column snapshot_time
    if odd:
        return TimeStyle.ODD
    return TimeStyle.NSECS if at >= (2, 15, 2) else TimeStyle.INTEGER


def _read_position(at: tuple[int, int, int]) -> ReadPosition:
    # §1.6: an index up to 2.15.55, then the job, from 2.16.51 a creation number
    if at <= (2, 15, 55):
        return ReadPosition.INDEX
    return ReadPosition.CREATION if at >= (2, 16, 51) else ReadPosition.FOLLOWS


def _clear_spares_busy(at: tuple[int, int, int]) -> bool:
    # §2.3: 2.14.56-2.15.5 and master until 2.15.54 (LU-16639)
    return (2, 14, 56) <= at <= (2, 15, 5) or (2, 15, 50) <= at <= (2, 15, 54)
