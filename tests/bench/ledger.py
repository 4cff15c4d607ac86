"""What it costs the aggregator to keep a million moved records: durable, applied, closed, folded; and to come back."""

from pathlib import Path
from statistics import median

from bench.accounting_sweeps import JOBS, OPS, TARGETS
from bench.report import Budget, Measured, say, table
from bench.workers import Worker

_FIRST, _ROUNDS = 12, 12
"""Targets are folded after 20 reads at most: by then as much is dropped as comes in."""
_RECORDS = TARGETS * JOBS


def measure(folder: Path) -> Measured:
    """Measure sweeps, then kill the aggregator and measure its next start."""
    path = folder / "ledger.db"
    say(f"ledger: {_RECORDS} records, {_FIRST + _ROUNDS} sweeps")
    with Worker.python("bench.ledger_sweeps", path) as worker:
        for _ in range(_FIRST):
            worker.work(jobs=JOBS)
        answers = [worker.work(jobs=JOBS).said for _ in range(_ROUNDS)]
    with Worker.python("bench.ledger_recovery", path) as worker:
        recovery = worker.work(targets=TARGETS).said
    seconds, folding, ledger = (
        median(answer[name] for answer in answers) / 1e9 for name in ("cost_ns", "fold_ns", "ledger_ns")
    )
    size, file_size = answers[-1]["bytes"] / 1e6, max(answer["file_bytes"] for answer in answers) / 1e6
    recovered = recovery["elapsed_ns"] / 1e9
    row = (
        *(f"{seconds:.2f}", f"{folding:.2f}", f"{ledger:.2f}", f"{size:.0f}", f"{file_size:.0f}"),
        *(f"{recovered:.1f}", f"{recovery['cost_ns'] / 1e9:.1f}"),
    )
    head = (
        *("a sweep, CPU s", "of it folding", "of it SQLite", "MB on the wire", "MB of files"),
        *("recovery, s", "recovery, CPU s"),
    )
    text = f"## Ledger: {_RECORDS} moved records of {len(OPS)} counters a sweep\n\n" + table(head, [row])
    return Measured(
        markdown=text,
        budgets=[
            Budget(what="ledger: CPU of a sweep, without its way through gRPC", limit=1, measured=seconds, unit=" s"),
            Budget(what="ledger: CPU of a sweep, SQLite's part", limit=0.3, measured=ledger, unit=" s"),
            Budget(what="ledger: recovery", limit=60, measured=recovered, unit=" s"),
        ],
    )
