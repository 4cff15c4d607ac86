"""How a job lives: running, quiet, ended, settled. Pure, with the time as an argument."""

from enum import StrEnum
from typing import Final, NamedTuple

BUSY_SECONDS: Final = 60
"""Who did something so lately is not quiet."""
FORGOTTEN_SECONDS: Final = 1800
"""Whom nobody follows, and who did nothing for so long, has ended."""
SETTLED_SECONDS: Final = 900
"""Nodes write back after a job's end, and servers tell for some time: then nothing more is to come."""
WAITED_SECONDS: Final = 6 * 3600
"""So long after its end a job is over even if something still comes."""

ACTIVE: Final = frozenset(
    ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
)
WAITING: Final = frozenset(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
"""Slurm's words for jobs that may still run; all others are of those that never will again."""


class Life(StrEnum):
    """What a job is doing."""

    RUNNING = "running"
    QUIET = "quiet"
    """It does nothing on Lustre, and has not ended as far as anybody knows."""
    ENDED = "ended"
    FINAL = "final"
    """Its record is written; what still comes is added, and marked."""


class Sign(NamedTuple):
    """What is known of a job's life."""

    state: str | None
    """Slurm's word; nothing if nobody follows it, or Slurm does not know it."""
    ended_seconds: int | None
    """When Slurm says it ended."""
    worked_seconds: int | None
    """When it last did anything."""


def life(sign: Sign, now_seconds: float) -> Life:
    """Return what a job is doing that is not settled."""
    idle = now_seconds - (sign.worked_seconds or 0)
    if sign.state is None:
        if idle >= FORGOTTEN_SECONDS:
            return Life.ENDED
    elif sign.state not in ACTIVE and sign.state not in WAITING:
        return Life.ENDED
    return Life.RUNNING if idle < BUSY_SECONDS else Life.QUIET


def is_settled(sign: Sign, now_seconds: float) -> bool:
    """Tell whether a job's final record can be written."""
    if life(sign, now_seconds) is not Life.ENDED:
        return False
    if sign.ended_seconds is None or sign.ended_seconds > now_seconds:  # a clock may be wrong, for ever
        return now_seconds - (sign.worked_seconds or 0) >= FORGOTTEN_SECONDS
    last = max(sign.ended_seconds, sign.worked_seconds or 0)
    return now_seconds - last >= SETTLED_SECONDS or now_seconds - sign.ended_seconds >= WAITED_SECONDS
