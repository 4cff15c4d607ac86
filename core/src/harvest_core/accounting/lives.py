"""The rule of lives: whether a value of a record is a later one of the same life, or the first of another.

One table, the first row that applies decides. A life goes from a record's creation to its eviction, `clear`,
remount…; within it counters only grow, so the last value counts, and a job's total is the sum over its lives.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

SAME: Final = 0
NEW: Final = 1
SAME_FLAGGED: Final = 2
NEW_FLAGGED: Final = 3
"""Flagged: it could not be known. The two answers differ by the last value before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for which, per record. A fact that was not read is unknown, never "different"."""

    start_known: Flags
    """The server says when the record began, and that names the life."""
    lower: Flags
    """A number of samples, or a sum of bytes, is lower than before; never sums of times."""
    recreated: Flags
    """It stands behind a record that used to follow it or was created since, where files are in creation order."""
    kept: Flags
    """It still stands before a former follower that cannot have been evicted since."""
    ended: Flags
    """It was taken as ended, and flagged, when it vanished while its equals changed."""
    certain: Flags
    """The agent merged sweeps and saw the values between: one life."""
    surely_absent: Flags
    """A whole read that skipped nothing did not show it, or its target was seen unmounted."""
    twin: Flags
    """Records that print the same id changed together: told apart by rank only."""
    suspect: Flags
    """Idle long enough to be evicted, absent, displaced, cut short, or others of the target were cleared."""
    unwatched: Flags
    """It was absent, or not read, meanwhile."""


def verdicts(seen: Evidence) -> NDArray[np.int64]:
    """Decide for every record; the order of the rows is the rule."""
    rows = (
        (seen.start_known, SAME),
        (seen.ended, NEW),
        (seen.twin & seen.lower, NEW_FLAGGED),
        (seen.twin, SAME_FLAGGED),
        (seen.lower, NEW),
        (seen.certain, SAME),
        (seen.recreated, NEW),
        (seen.kept, SAME),
        (seen.surely_absent, NEW),
        (seen.suspect & seen.unwatched, NEW_FLAGGED),
        (seen.suspect, SAME_FLAGGED),
    )
    return np.select([condition for condition, _ in rows], [verdict for _, verdict in rows], SAME)
