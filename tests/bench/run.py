"""Measures what Harvest costs, beside its peers: ``make bench``. The table of benches is in suite.py."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # started as a file this folder is on the path; the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    runpy.run_module("bench.suite", run_name="__main__", alter_sys=True)
