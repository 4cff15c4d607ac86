"""What an incarnation's slots stand for: numbers in order, and the row of each, side by side.

Only those in use: an agent gives every record that comes another number, for as long as it runs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NOTHING: Integers = np.zeros((2, 0), np.int64)


def with_names(known: Integers, slots: Sequence[int], rows: Sequence[int]) -> Integers:
    """Return what is known with slots that are named; a slot may be another record's from now on."""
    named = np.array([slots, rows], np.int64)
    is_new = not known.size or named[0].min() > known[0, -1]
    if is_new and (np.diff(named[0]) > 0).all():
        return np.concatenate([known, named], axis=1)
    both = np.concatenate([named[:, ::-1], known], axis=1)  # the first of equals counts: what was named last
    return both[:, np.unique(both[0], return_index=True)[1]]


def places(known: Integers, slots: Integers) -> Integers:
    """Return where among those known these slots are; beyond the last where they are not."""
    numbers = known[0]
    count = len(numbers)
    if not count:
        return np.zeros(len(slots), np.int64)
    if numbers[-1] - numbers[0] == count - 1:  # none is missing: almost always, until records have left
        at = slots - numbers[0]
        return (
            at if not len(at) or (at.min() >= 0 and at.max() < count) else np.where((at >= 0) & (at < count), at, count)
        )
    at = np.searchsorted(numbers, slots)
    return np.where(numbers[np.minimum(at, count - 1)] == slots, at, count)


def without(known: Integers, new_row: Integers, never: int) -> Integers:
    """Return what is left where rows have other numbers now, and those of some are no more."""
    rows = new_row[known[1]]
    return np.stack([known[0], rows])[:, rows != never]
