"""Plays operations on a site in virtual time."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator

from harvest_sim.site import Site
from harvest_sim.workloads import Operation


class Player:
    """The clients of a site: one whose target is away waits, and does its work when it is back."""

    def __init__(self, site: Site, *workloads: Iterator[Operation]) -> None:
        self._site = site
        self._operations = heapq.merge(*workloads, key=lambda operation: operation.at_ns)
        self._next = next(self._operations, None)
        self._waiting: defaultdict[str, deque[Operation]] = defaultdict(deque)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self._next is None and not any(self._waiting.values())

    def play_until(self, until_ns: int) -> None:
        """Do everything that is due, and move the site's time to ``until_ns``."""
        self._resume()
        while self._next is not None and self._next.at_ns <= until_ns:
            operation = self._next
            self._site.time.advance_to(operation.at_ns)
            if self._site.is_ready(operation.target) and not self._waiting[operation.target]:
                self._perform(operation)
            else:
                self._waiting[operation.target].append(operation)
            self._next = next(self._operations, None)
        self._site.time.advance_to(until_ns)

    def stop(self) -> None:
        """Start nothing new; only what waits is still to be done."""
        self._next = None

    def _resume(self) -> None:
        for target, waiting in self._waiting.items():
            while waiting and self._site.is_ready(target):
                self._perform(waiting.popleft())

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
