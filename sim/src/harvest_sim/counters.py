"""One counter of Lustre: samples, min, max, sum, squares and histogram."""

from collections.abc import Iterable
from typing import Self

_LAST_BUCKET = 31


def bucket(amount: int) -> int:
    """Return j so that ``amount`` is in (2^(j-1), 2^j]; 0 counts in the bucket labelled 1 (§1.4)."""
    return min((amount - 1).bit_length(), _LAST_BUCKET) if amount > 1 else 0


class Counter:
    """What one operation of one record, export or target has counted."""

    __slots__ = ("hist", "maximum", "minimum", "samples", "sumsq", "total")

    def __init__(self) -> None:
        self.samples = 0
        self.minimum = 0
        self.maximum = 0
        self.total = 0
        self.sumsq = 0
        self.hist: dict[int, int] = {}

    @classmethod
    def of(cls, amounts: Iterable[int]) -> Self:
        """Return a counter that has seen ``amounts``, histogram included."""
        counter = cls()
        for amount in amounts:
            counter.add(amount, count=1, with_hist=True)
        return counter

    def add(self, amount: int, *, count: int, with_hist: bool) -> None:
        """Count ``count`` operations of ``amount`` each."""
        self.add_samples(amount, count=count, with_hist=with_hist)
        self.add_sums(amount, count=count)

    def add_sums(self, amount: int, *, count: int) -> None:
        """Count the amounts alone."""
        self.total += amount * count
        self.sumsq += amount * amount * count

    def add_samples(self, amount: int, *, count: int, with_hist: bool) -> None:
        """Count the operations alone: a reader may come before their sums (§1.6)."""
        if self.samples == 0:
            self.minimum = self.maximum = amount
        elif amount < self.minimum:
            self.minimum = amount
        elif amount > self.maximum:
            self.maximum = amount
        self.samples += count
        if with_hist:
            place = bucket(amount)
            self.hist[place] = self.hist.get(place, 0) + count
