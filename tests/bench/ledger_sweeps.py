"""A program: a million moved records a sweep made durable, applied, closed and folded, once for each line of input."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time_ns
from typing import Any

from bench.accounting_sweeps import TARGETS, message
from harvest.v1.stream_pb2 import Batch
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.ledger import Ledger
from harvest_site.loading import load

_AGENTS = 25
_AT_ONCE = 5
"""Deliveries in a transaction: what comes in 50 ms while a sweep takes some seconds to come in."""
SITE = f"filesystems: [{{name: bench, servers: ['oss[1-{_AGENTS}]']}}]"


class _Meter:
    """Adds up the CPU time of some calls."""

    def __init__(self, thing: object, *names: str) -> None:
        self.nanoseconds = 0
        for name in names:
            setattr(thing, name, self._metered(getattr(thing, name)))

    def _metered(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def metered(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            begin = process_time_ns()
            try:
                return call(*arguments, **options)
            finally:
                self.nanoseconds += process_time_ns() - begin

        return metered

    def read(self) -> int:
        """Return what came together since the last time."""
        found, self.nanoseconds = self.nanoseconds, 0
        return found


def deliveries(seq: int) -> list[Delivery]:
    """Return a sweep of all agents: the targets differ in their names alone."""
    batch = Batch.FromString(message(0, seq, starts=True))
    batch.last_of_sweep = False
    end = Batch(incarnation=batch.incarnation, seq=seq, tick_seconds=20 * seq, period_seconds=20, last_of_sweep=True)
    made = []
    for agent in range(_AGENTS):
        batches = []
        for target in range(agent, TARGETS, _AGENTS):
            batch.target.name = f"bench-OST{target:04x}"
            payload = batch.SerializeToString()
            batches.append((payload, Batch.FromString(payload)))
        batches.append((end.SerializeToString(), end))
        made.append(Delivery(agent=f"oss{agent + 1}", incarnation=batch.incarnation, seq=seq, batches=tuple(batches)))
    return made


def main() -> None:
    """Answer with what a sweep cost in all, and the ledger's part of it."""
    path = Path(sys.argv[1])
    ledger = Ledger(path)
    ledger.open()
    accounts = Accounts(ledger, load(SITE))
    accounts.load(0)
    meter = _Meter(ledger, "accept", "fold", "settle")
    for seq, _ in enumerate(sys.stdin, 1):
        sweep = deliveries(seq)
        now = 20 * seq + 1.0
        begin = process_time_ns()
        for first in range(0, len(sweep), _AT_ONCE):
            accounts.accept(sweep[first : first + _AT_ONCE], now)
            ledger.settle()
        (closed,) = accounts.close(now, frozenset())
        folding = process_time_ns()
        while accounts.fold_some(busy=False):
            ledger.settle()
        ended = process_time_ns()
        said = {
            "cost_ns": ended - begin,
            "fold_ns": ended - folding,
            "ledger_ns": meter.read(),
            "bytes": sum(len(payload) for delivery in sweep for payload, _ in delivery.batches),
            "jobs": len(closed.tables["bench", "OST"].jobs),
            "file_bytes": sum(file.stat().st_size for file in path.parent.iterdir()),
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
