"""What the simulator knows of the nodes of clusters: what of their work was shown."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import product

from harvest_aggregator.relays.pictures import KINDS, MEASURES
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_sim.lives import Life, Shown, Subject
from harvest_sim.ops import Op
from harvest_sim.truth import Truth

NUMBERS = tuple(product(KINDS, MEASURES))
"""Of each node, in the order in which they cross the wire."""
NOTHING = (0,) * len(NUMBERS)
Totals = dict[str, tuple[int, ...]]
"""By NID."""


def measure(op: Op) -> str | None:
    """Return what an operation counts for."""
    counter = (op.name, op.unit)
    if counts_read_bytes(counter):
        return "read_bytes"
    if counts_written_bytes(counter):
        return "write_bytes"
    return "operations" if counts_operations(counter) and op.name != "ping" else None


def numbers(life: Life, shown: Shown | None) -> Counter[tuple[str, str]]:
    """Return what a life had done when it was shown so."""
    found: Counter[tuple[str, str]] = Counter()
    for index, samples, total in shown.values if shown is not None else ():
        if (of := measure(life.ops[index])) is not None:
            found[life.scope.kind.name, of] += samples if of == "operations" else total
    return found


def shown(truth: Truth, filesystem: str, ever: Mapping[int, Shown] | None = None) -> Totals:
    """Return what was shown of every node until now; or the most that ever was, by life."""
    found: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for life in truth.select(Subject.EXPORT, fs=filesystem):
        last = (life.shown[-1] if life.shown else None) if ever is None else ever.get(life.number)
        found[life.key.decode()].update(numbers(life, last))
    return {nid: tuple(one[number] for number in NUMBERS) for nid, one in found.items() if any(one.values())}


def covers(more: Totals, less: Totals) -> bool:
    """Tell whether no total is lower."""
    return all(
        number >= other
        for nid, totals in less.items()
        for number, other in zip(more.get(nid, NOTHING), totals, strict=True)
    )


def highest(one: Totals, other: Totals) -> Totals:
    """Return the higher one of each total."""
    return {nid: tuple(map(max, one.get(nid, NOTHING), other.get(nid, NOTHING))) for nid in one.keys() | other.keys()}
