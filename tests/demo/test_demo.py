"""``make demo FOR=30``, as a person runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EVENTS = (
    *("agent killed", "aggregator killed", "clear", "clear of one job", "clock step", "evicted"),
    *("failover", "failback", "job requeued", "reboot", "remount"),
    *(f"record came back from zero, first seen {how}" for how in ("lower", "equal", "higher")),
)


def test_the_demo_ends_with_every_total_equal_to_the_truth() -> None:
    paths = [str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, "-m", "demo", "--for", "30"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ":".join(filter(None, reversed(paths)))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert re.search(r"^\d+ jobs compared with the truth: 0 totals differ\.$", ran.stdout, re.MULTILINE)
    owners = re.search(r"^(\d+) users and (\d+) accounts likewise: 0 totals differ\.$", ran.stdout, re.MULTILINE)
    assert owners is not None, ran.stdout[-3000:]
    assert int(owners[1]) >= 6
    assert int(owners[2]) == 3
    assert re.search(r"^  export HARVEST_URL=http://127\.0\.0\.1:\d+$", ran.stdout, re.MULTILINE)
    assert "  .venv/bin/harvest top " in ran.stdout
    rows = re.findall(r"^ +([\d,]+)  (.+)$", ran.stdout, re.MULTILINE)
    happened = {name.strip(): int(count.replace(",", "")) for count, name in rows}
    assert [event for event in EVENTS if not happened.get(event)] == []
