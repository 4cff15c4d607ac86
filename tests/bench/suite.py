"""All benches in one run. A new one is a file with a ``measure`` function, and a line in BENCHES."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import accounting, exports, ledger, records, report, sizing, streams, sweeps
from bench.peers import PeerError
from bench.report import Measured
from bench.workers import WorkerError

BENCHES: Mapping[str, Callable[[Path], Measured]] = {
    "sweeps": sweeps.measure,
    "exports": exports.measure,
    "accounting": accounting.measure,
    "ledger": ledger.measure,
    "records": records.measure,
    "streams": streams.measure,
}
"""Each works in an empty folder of its own, which is removed afterwards."""


def main() -> int:
    """Measure, print Markdown, and return 1 if a budget is missed, 2 if a bench could not be run."""
    parser = argparse.ArgumentParser(prog="tests/bench/run.py", description="What Harvest costs, beside its peers.")
    parser.add_argument("bench", nargs="*", help=f"only these of: {', '.join(BENCHES)}")
    parser.add_argument("--write", action="store_true", help="put the result into docs/benchmarks.md")
    chosen = parser.parse_args()
    if unknown := set(chosen.bench) - BENCHES.keys():
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    if chosen.write and chosen.bench:
        parser.error("--write needs all benches, so that the page tells of one run")
    machine = report.machine()
    try:
        results = [_run(BENCHES[name]) for name in chosen.bench or BENCHES]
    except (PeerError, WorkerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    text = report.page(machine, results)
    print(text)
    if chosen.write:
        report.write(text)
        sizing.write()
    return 0 if all(budget.met for result in results for budget in result.budgets) else 1


def _run(measure: Callable[[Path], Measured]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="harvest-bench-") as folder:
        return measure(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
