"""A program: the agent's own sweeps below a root, one for each line on its input."""

import json
import sys
from contextlib import nullcontext
from unittest.mock import patch

from harvest_agent.native import Native
from harvest_agent.reading import Reader
from harvest_agent.scan import JobScanner, Pure
from harvest_agent.tree import TargetFiles, Tree
from harvest_core.lustre.columns import JobColumns


def main() -> None:
    """Sweep with the compiled engine, or with the one in Python if a second argument says ``pure``."""
    root, *engine = sys.argv[1:]
    if engine != ["pure"] and Native.load(seed=0) is None:
        sys.exit("the agent's scanner is not compiled: run `make ready`")
    with patch("harvest_agent.reading.best_engine", Pure) if engine == ["pure"] else nullcontext():
        reader = Reader(Tree(root))
    moved = counters = 0

    def consume(_target: TargetFiles, _scanner: JobScanner, columns: JobColumns) -> None:
        nonlocal moved, counters
        moved += len(columns.slot)
        counters += len(columns.code)

    for _ in sys.stdin:
        moved = counters = 0
        reads = reader.sweep(consume)
        said = {
            "records": sum(len(read.scanner.order) for read in reads),
            "moved": moved,
            "counters": counters,
            "unread": sum(read.unread.count for read in reads),
            "incomplete": sum(not read.complete for read in reads),
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
