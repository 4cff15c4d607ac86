"""Where a server's files are, by version (§3.2)."""

from dataclasses import dataclass

from harvest_sim.ops import Kind
from harvest_sim.versions import Version

PROC = "proc/fs/lustre"
SYS = "sys/fs/lustre"
DEBUG = "sys/kernel/debug/lustre"
BOOT_ID = "proc/sys/kernel/random/boot_id"
UPTIME = "proc/uptime"
STAT = "proc/stat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Directories relative to a server's root, without the target's part."""

    parameters: str
    """Of ``version``, ``jobid_var`` and ``jobid_name``."""
    job_stats: str
    stats: str
    exports: str
    target_parameters: str
    """Of ``job_cleanup_interval`` and ``instance``."""


def places(version: Version, kind: Kind) -> Places:
    """Return where ``version`` keeps the files of a target of this kind."""
    at = version.numbers
    stats_moved = kind is Kind.OST and at >= (2, 16, 51)
    return Places(
        parameters=PROC if at <= (2, 9, 51) else SYS,
        job_stats=PROC,
        stats=DEBUG if stats_moved else PROC,
        exports=DEBUG if at >= (2, 16, 53) else PROC,
        # §2.4 leaves 2.13 open for `instance`; here it moved together with job_cleanup_interval
        target_parameters=PROC if at < (2, 13, 0) else SYS,
    )


def version_text(version: Version) -> bytes:
    """Return the ``version`` file: three lines in /proc, the bare number in /sys."""
    if places(version, Kind.OST).parameters == PROC:
        return b"lustre: %(v)s\nkernel: patchless_client\nbuild:  %(v)s\n" % {b"v": version.text.encode()}
    return b"%s\n" % version.text.encode()
