"""What the simulator knows of the nodes of clusters: what was shown of them, and how fast they ever were."""

from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import product

from campaign.plan import PERIOD
from harvest_aggregator.relays.pictures import KINDS, MEASURES
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_sim.lives import Subject
from harvest_sim.ops import Op
from harvest_sim.truth import Truth

NUMBERS = tuple(product(KINDS, MEASURES))
"""Of each node, in the order in which they cross the wire."""
Totals = dict[str, tuple[int, ...]]
"""By NID."""
_NSECS = 10**9


def _measure(op: Op) -> str | None:
    counter = (op.name, op.unit)
    if counts_read_bytes(counter):
        return "read_bytes"
    if counts_written_bytes(counter):
        return "write_bytes"
    return "operations" if counts_operations(counter) and op.name != "ping" else None


def shown(truth: Truth) -> Totals:
    """Return what was shown of every node until now."""
    found: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for row in truth.rows(Subject.EXPORT):
        measure = _measure(row.op)
        if measure is not None:
            amount = row.shown_samples if measure == "operations" else row.shown_sum
            found[row.life.key.decode()][row.life.scope.kind.name, measure] += amount
    return {
        nid: tuple(numbers[number] for number in NUMBERS) for nid, numbers in found.items() if any(numbers.values())
    }


def highest_rates(truth: Truth, interval_seconds: int) -> dict[str, tuple[float, ...]]:
    """Return the fastest that every node ever was, as sweeps can tell.

    Work is divided by whole sweeps. What a sweep tells may have been read as much as a period of clients before it, so
    that the work of one sweep may be of so much more time. Each target has its own highest rate: those of a node may
    have come at the same time. In the order of ``Rates``.
    """
    journals: defaultdict[tuple[str, str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for life in truth.select(Subject.EXPORT):
        for work in life.journal:
            measure = _measure(life.ops[work.op_index])
            if measure is not None:
                amount = work.samples if measure == "operations" else work.total
                key = (life.key.decode(), life.scope.target, life.scope.kind.name, measure)
                journals[key].append((work.at_ns, amount))
    found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (nid, _, kind, measure), journal in journals.items():
        most = _most(journal, PERIOD + interval_seconds) / PERIOD
        found[nid][measure if measure != "operations" else kind] += most
    return {nid: tuple(rates[of] for of in ("read_bytes", "write_bytes", "OST", "MDT")) for nid, rates in found.items()}


def _most(journal: list[tuple[int, int]], seconds: int) -> int:
    """Return the most that was done in any time of this length."""
    journal.sort()
    times = [at for at, _ in journal]
    done = [0]
    for _, amount in journal:
        done.append(done[-1] + amount)
    return max(done[at + 1] - done[bisect_right(times, time - seconds * _NSECS)] for at, time in enumerate(times))
