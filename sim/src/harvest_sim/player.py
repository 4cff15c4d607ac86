"""Plays operations on a site in virtual time."""

import heapq
from collections.abc import Callable, Iterator

from harvest_sim.site import Site
from harvest_sim.workloads import Operation

MayWork = Callable[[str, bytes], bool]
"""Whether a job may do something on a target now."""


class Player:
    """The clients of a site: one whose target is away, or that may not work now, does its work later."""

    def __init__(
        self, site: Site, *workloads: Iterator[Operation], may_work: MayWork = lambda _target, _job: True
    ) -> None:
        self._site = site
        self._may_work = may_work
        self._operations = heapq.merge(*workloads, key=lambda operation: operation.at_ns)
        self._next = next(self._operations, None)
        self._waiting: list[Operation] = []
        self._held: set[tuple[str, bytes]] = set()
        """Who has operations that wait: the later ones wait behind them."""
        self._rested_ns = 0
        """So much later is everything done."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self._next is None and not self._waiting

    def play_until(self, until_ns: int) -> None:
        """Do everything that is due, and move the site's time to ``until_ns``."""
        self._resume()
        while self._next is not None and (due_ns := self._next.at_ns + self._rested_ns) <= until_ns:
            self._site.time.advance_to(due_ns)
            self._perform_or_wait(self._next)
            self._next = next(self._operations, None)
        self._site.time.advance_to(until_ns)

    def rest_until(self, until_ns: int) -> None:
        """Do nothing while the site's time moves on: servers' clocks never stand still, and idle records grow old."""
        self._rested_ns += max(until_ns - self._site.now_ns, 0)
        self._site.time.advance_to(until_ns)

    def stop(self) -> None:
        """Start nothing new; only what waits is still to be done."""
        self._next = None

    def _resume(self) -> None:
        waiting, self._waiting, self._held = self._waiting, [], set()
        for operation in waiting:
            self._perform_or_wait(operation)

    def _perform_or_wait(self, operation: Operation) -> None:
        who = (operation.target, operation.job_id)
        if self._site.is_ready(operation.target) and who not in self._held and self._may_work(*who):
            self._perform(operation)
        else:
            self._waiting.append(operation)
            self._held.add(who)

    def _perform(self, operation: Operation) -> None:
        target = self._site.mounted(operation.target)
        nid = operation.nid
        if not target.exports.uuids.get(nid):
            self._site.connect(target.scope.fs, nid)  # who does I/O is connected
        if operation.op in {"read", "write"}:
            target.bulk(
                operation.job_id,
                operation.op,
                operation.size_bytes,
                usecs=operation.usecs,
                count=operation.times,
                nid=nid,
            )
        elif target.counts(operation.op):
            target.do(operation.job_id, operation.op, operation.usecs, count=operation.times, nid=nid)
