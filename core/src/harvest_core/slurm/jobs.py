"""One job of Slurm as a value, the same whoever told it and in whichever form."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Protocol, Self

UNKNOWN: Final = "UNKNOWN"
SHARED: Final = ("user", "group", "account", "partition")
"""Of a hundred thousand jobs these are few words, each kept once."""
_FLAGS: Final = frozenset(
    {
        "COMPLETING",
        "CONFIGURING",
        "EXPEDITING",
        "LAUNCH_FAILED",
        "POWER_UP_NODE",
        "RECONFIG_FAIL",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESIZING",
        "RESV_DEL_HOLD",
        "REVOKED",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "UPDATE_DB",
    }
)
"""Words that newer versions print beside the state, and older ones in its place."""
_STATE_BEHIND: Final = {
    "CONFIGURING": "RUNNING",
    "RESIZING": "RUNNING",
    "SIGNALING": "RUNNING",
    "STOPPED": "RUNNING",
    "REQUEUE_FED": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "RESV_DEL_HOLD": "PENDING",
    "SPECIAL_EXIT": "PENDING",
}
"""Which state a flag in its place hides, where that is certain. COMPLETING may hide any that is an end."""
_UNENDED: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_ID_MOST: Final = (1 << 32) - 17
"""Above it are Slurm's words for none, unknown and infinite."""
_TIME_MOST: Final = 1 << 40
_TEXT_MOST: Final = 1024


class Names(Protocol):
    """Who knows names of numbers; an empty one where it is not known, or not yet."""

    def user(self, uid: int) -> str:
        """Return a user's name."""

    def group(self, gid: int) -> str:
        """Return a group's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job, one task of an array or one component of a het job; the wire's message of this name has the same fields.

    The tasks of an array that have not started share one record, which is in no array: none of them has a number yet.
    The uid is 0 also where nobody says it, as in the accounting database's JSON: root is only who is called so.
    """

    id: int
    array_id: int = 0
    array_task: int = 0
    het_leader: int = 0
    het_offset: int = 0
    name: str = ""
    user: str = ""
    uid: int = 0
    group: str = ""
    account: str = ""
    partition: str = ""
    state: str = UNKNOWN
    flags: tuple[str, ...] = ()
    submit_seconds: int = 0
    start_seconds: int = 0
    end_seconds: int = 0
    restarts: int = 0
    nodes: int = 0
    exit_code: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will become of this run; one that completes has ended, but not said how."""
        return self.state not in _UNENDED and self.state not in {UNKNOWN, "COMPLETING"}

    @property
    def run(self) -> tuple[int, int]:
        """What tells this run from others under the same number."""
        return self.id, self.start_seconds

    def write(self, message: Any) -> None:  # noqa: ANN401 - core knows its shape, not its code
        """Put it into an empty message."""
        for name in _FIELDS:
            if name == "flags":
                message.flags.extend(self.flags)
            else:
                setattr(message, name, getattr(self, name))

    @classmethod
    def read(cls, message: Any) -> Self:  # noqa: ANN401
        """Take it out of a message."""
        said = {name: getattr(message, name) for name in _FIELDS}
        return cls(**said | {"flags": tuple(message.flags)})


_FIELDS: Final = tuple(field.name for field in fields(SlurmJob))


def job_of(said: Mapping[str, object], names: Names) -> SlurmJob | None:
    """Make sense of what was said under the wire's names (and ``gid``) in any form; None if it is no job.

    What Slurm only expects is left out: the start of a job that waits, the end of one that runs.
    """
    number = count(said.get("id"))
    if not is_job_number(number):
        return None
    state, flags = states(said.get("state"))
    has_task = is_set(said.get("array_task"))
    leader = _small(said.get("het_leader"))
    uid = _small(said.get("uid"))
    return SlurmJob(
        id=number,
        array_id=_small(said.get("array_id")) if has_task else 0,
        array_task=_small(said.get("array_task")) if has_task and _small(said.get("array_id")) else 0,
        het_leader=leader,
        het_offset=_small(said.get("het_offset")) if leader else 0,
        name=text(said.get("name")),
        user=text(said.get("user")) or (names.user(uid) if is_set(said.get("uid")) else ""),
        uid=uid,
        group=text(said.get("group")) or (names.group(_small(said.get("gid"))) if is_set(said.get("gid")) else ""),
        account=text(said.get("account")),
        partition=text(said.get("partition")),
        state=state,
        flags=flags,
        submit_seconds=_time(said.get("submit_seconds")),
        start_seconds=0 if state == "PENDING" else _time(said.get("start_seconds")),
        end_seconds=0 if state in _UNENDED else _time(said.get("end_seconds")),
        restarts=_small(said.get("restarts")),
        nodes=_small(said.get("nodes")),
        exit_code="" if state in _UNENDED else _exit_code(said.get("exit_code")),
    )


def is_job_number(number: int) -> bool:
    """Tell a job's number from what Slurm cannot have meant."""
    return 0 < number <= _ID_MOST


def count(value: Any) -> int:  # noqa: ANN401 - whatever JSON holds
    """Return a number that came as one, as text, or as newer versions' set, infinite and number; -1: none."""
    match value:
        case bool() | None:
            return -1
        case int():
            return value
        case float() if abs(value) < 1 << 53:  # and is a number at all
            return int(value)
        case str() if value.isascii() and value.isdigit() and len(value) <= 20:
            return int(value)
        case {"number": number} if value.get("set", True) is not False and not value.get("infinite"):
            return count(number) if not isinstance(number, dict) else -1
        case _:
            return -1


def is_set(value: object) -> bool:
    """Tell a number, also 0, from Slurm's words for none."""
    return 0 <= count(value) <= _ID_MOST


def _small(value: object) -> int:
    number = count(value)
    return number if 0 <= number <= _ID_MOST else 0


def _time(value: object) -> int:
    number = count(value)
    return number if 0 < number < _TIME_MOST and number not in {0xFFFFFFFE, 0xFFFFFFFF} else 0


def text(value: object) -> str:
    """Return text that can be sent, whatever bytes a name was made of; Slurm's words for none are empty."""
    if not isinstance(value, str) or value in {"(null)", "N/A"}:
        return ""
    if len(value) <= _TEXT_MOST and value.isascii():  # the same object: a table has many equal ones
        return value
    return value[:_TEXT_MOST].encode("utf-8", "replace").decode("utf-8", "replace")


def states(value: object) -> tuple[str, tuple[str, ...]]:
    """Return the state's word and the flags beside it: RUNNING, `CANCELLED by 1000`, or a list of both."""
    return _state(tuple(text(each) for each in (value if isinstance(value, list) else [value])))


@lru_cache(maxsize=256)
def _state(said: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    words = [word for each in said for word in each.upper().split(maxsplit=1)[:1]]
    flags = tuple(word for word in words if word in _FLAGS)
    state = next((word for word in words if word not in _FLAGS), "")
    return state or (_STATE_BEHIND.get(flags[0], flags[0]) if flags else UNKNOWN), flags


def _exit_code(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return an exit code as sacct prints it: the code, and the signal that ended it."""
    match value:
        case str() if ":" in value:
            return value if all(part.isdigit() for part in value.split(":")) and len(value) < 16 else ""
        case {"return_code": code, "signal": {"id": signal} | {"signal_id": signal}}:
            return f"{_small(code)}:{_small(signal)}"
        case {"return_code": code}:
            return f"{_small(code)}:0"
        case _:
            status = count(value)  # as wait() gives it
            return f"{status >> 8 & 0xFF}:{status & 0x7F}" if 0 <= status <= 0xFFFF else ""
