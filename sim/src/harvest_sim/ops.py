"""Which operations a target counts, by kind and version (§1.3)."""

from dataclasses import dataclass
from enum import Enum
from functools import cache

from harvest_sim.versions import Traits, Version, traits


class Kind(Enum):
    """The two kinds of target; the value is the name that Harvest's API gives them."""

    OST = "ost"
    MDT = "mdt"

    @property
    def module(self) -> str:
        """Lustre's name for the directory of such targets."""
        return "obdfilter" if self is Kind.OST else "mdt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One counted operation."""

    name: str
    unit: str
    has_values: bool
    """Whether min, max and sum are kept beside the number of samples."""
    has_hist: bool = False


_OST_FIRST = "read write setattr punch sync"
_OST_REST = "getattr setattr punch sync destroy create statfs get_info set_info quotactl"
_MDT_FIRST = (
    "open close mknod link unlink mkdir rmdir rename getattr setattr getxattr setxattr statfs sync "
    "samedir_rename crossdir_rename"
)


@cache
def op_list(version: Version, kind: Kind) -> tuple[Op, ...]:
    """Return the operations in the order of the file."""
    at = version.behaves_as
    names = _ost_names(at) if kind is Kind.OST else _mdt_names(at, ddn=version.ddn)
    return tuple(_op(traits(version), kind, name) for name in names.split())


@cache
def op_indexes(version: Version, kind: Kind) -> dict[str, int]:
    """Return where each operation stands in ``op_list``."""
    return {op.name: index for index, op in enumerate(op_list(version, kind))}


@cache
def bulk_ops(version: Version, kind: Kind, direction: str) -> tuple[str, ...]:
    """Return the counters that one read or write RPC moves: that of its bytes, then that of its time."""
    indexes = op_indexes(version, kind)
    if kind is Kind.MDT and not traits(version).counts_mdt_data:
        return ()
    return tuple(name for name in (f"{direction}_bytes", direction) if name in indexes)


def _ost_names(at: tuple[int, int, int]) -> str:
    if at <= (2, 5, 51):
        return _OST_FIRST
    if at < (2, 13, 55):
        return f"read_bytes write_bytes {_OST_REST}"
    return f"read_bytes write_bytes read write {_OST_REST} prealloc"


def _mdt_names(at: tuple[int, int, int], *, ddn: int) -> str:
    if at < (2, 11, 0):
        return _MDT_FIRST
    if at < (2, 13, 55):
        return f"{_MDT_FIRST} read_bytes write_bytes punch"
    if at < (2, 14, 56):
        return f"{_MDT_FIRST} read_bytes write_bytes punch migrate"
    # The text names the releases only; the dates of `read write fallocate` within 2.14.5x are open.
    renames = "samedir_rename parallel_rename_file parallel_rename_dir crossdir_rename"
    first = _MDT_FIRST if at < (2, 15, 51) else _MDT_FIRST.replace("samedir_rename crossdir_rename", renames)
    names = f"{first} read write read_bytes write_bytes punch migrate"
    if ddn < 0:
        names += " fallocate"  # §1.3: DDN ddn164 has none
    if at >= (2, 16, 55) or ddn >= 259:
        names += " rename_trylocks"
    if at >= (2, 17, 57):
        names += " readpage"
    return names


def _op(features: Traits, kind: Kind, name: str) -> Op:
    is_bytes = name in {"read_bytes", "write_bytes"}
    if features.has_sumsq:
        unit = "bytes" if is_bytes else "usecs"
        return Op(name=name, unit=unit, has_values=True, has_hist=is_bytes and features.has_hist)
    if is_bytes:
        # §1.3: unit reqs on the MDTs of 2.11-2.13, but with min/max/sum
        return Op(name=name, unit="bytes" if kind is Kind.OST else "reqs", has_values=True)
    if name in {"read", "write"}:
        return Op(name=name, unit="bytes", has_values=True)  # §1.3: OST 2.3-2.5.51
    return Op(name=name, unit="reqs", has_values=False)
