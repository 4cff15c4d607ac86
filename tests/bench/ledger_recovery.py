"""A program: recovers a ledger and says how long it took."""

import json
import sys
from pathlib import Path
from time import monotonic_ns, process_time_ns

from bench.ledger_sweeps import SITE
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.ledger import Ledger
from harvest_site.loading import load


def main() -> None:
    """Open, check, load and apply, once."""
    sys.stdin.readline()
    begin, cpu = monotonic_ns(), process_time_ns()
    ledger = Ledger(Path(sys.argv[1]))
    ledger.open()
    accounts = Accounts(ledger, load(SITE))
    accounts.load(0)
    said = {
        "elapsed_ns": monotonic_ns() - begin,
        "cost_ns": process_time_ns() - cpu,
        "targets": len(accounts.statuses(0)),
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
