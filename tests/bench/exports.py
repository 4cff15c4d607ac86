"""What it costs to read the counters of every client."""

from pathlib import Path
from statistics import median

from bench.report import Budget, Measured, say, table
from bench.trees import client_tree
from bench.workers import Worker

_CLIENTS = 1000
_ROUNDS = 7


def measure(folder: Path) -> Measured:
    """Measure the CPU time of each file."""
    say(f"exports: {_CLIENTS} clients on each OST")
    files = client_tree(folder, _CLIENTS)
    with Worker.python("bench.export_reads", folder) as worker:
        worker.work(files=files)
        answers = [worker.work(files=files) for _ in range(_ROUNDS)]
    costs = {
        step: median(answer.said[f"{step}_ns"] for answer in answers) / files / 1000
        for step in ("find", "read", "parse")
    }
    counters = answers[0].said["counters"] // files
    text = f"## Exports: {files} files of {counters} counters\n\n" + table(
        ("per file", "CPU µs"), [(step, f"{cost:.1f}") for step, cost in costs.items()]
    )
    cost = costs["read"] + costs["parse"]
    budget = Budget(what="exports: CPU per file read and parsed", limit=40, measured=cost, unit=" µs")
    return Measured(markdown=text, budgets=[budget])
