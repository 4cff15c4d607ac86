"""Every row of DESIGN §5's two tables has a mutant, and every mutant still fits the code; `make mutants` runs them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted(Path(__file__).parent.glob("*.patch"))
ROWS = {
    "seen-01": "other mount",
    "seen-02": "one id several times in one read",
    "seen-03": "both start_time known",
    "seen-04": "a samples, or a sum in bytes, is lower",
    "seen-05": "order says re-created",
    "seen-06": "order says kept",
    "seen-07": "absent from a complete read where reads cannot skip, or the directory was seen gone",
    "seen-08": "order open, and idle, absent, or a clear",
    "seen-09": "anything else",
    "seen-10": "read cut short",
    "happens-01": "idle past job_cleanup_interval, vanishes, returns from zero",
    "happens-02": "remount, reboot, failover",
    "happens-03": "clear",
    "happens-04": "agent restarted, late, silent; batch delivered twice or merged and resent; aggregator killed",
    "happens-05": "agent's state folder lost",
    "happens-06": "never shown by Lustre at all",
    "happens-07": "ledger restored from an old backup",
    "happens-08": "one bad line, a negative value, a foreign op, a strange id",
    "happens-09": "clocks that step; times that count from boot",
}
BEYOND = "beyond-"
"""Of what the accounting does beyond the tables (ADR 0003)."""
CLIENTS = "clients-"
"""Of what is different about clients' counters."""
PARKING = "parking-"
"""Of rows that leave (ADR 0011)."""
RELAYS = "relays-"
"""Of what heads take in (ADR 0022)."""
DEMO = "demo-"
"""Of what a person would see who runs `make demo`."""


def named_tests(patch: Path) -> list[str]:
    head = patch.read_text().partition("\ndiff --git ")[0]
    return re.findall(r"^# test: (\S+)$", head, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row} {ROWS[row]}")
def test_every_row_has_a_mutant(row: str) -> None:
    assert [patch for patch in PATCHES if patch.name.startswith(f"{row}-")]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_every_mutant_applies_belongs_to_a_row_and_names_a_test_that_is_there(patch: Path) -> None:
    checked = subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stderr
    assert patch.name.startswith((BEYOND, CLIENTS, PARKING, RELAYS, DEMO, *(f"{row}-" for row in ROWS)))
    assert named_tests(patch)
    for test in named_tests(patch):
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text()
