"""What is written about the packages is what is in them."""

import re
from pathlib import Path

import pytest

from packing.rpm import RELEASES

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "agent/packaging/harvest-agent.service").read_text()
REFERENCE = (ROOT / "docs/reference/rpm.md").read_text()
TABLE = REFERENCE.partition("## The service")[2].partition("## Scriptlets")[0]
ROWS = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (`[^|]+`) \|", TABLE, re.MULTILINE)


@pytest.mark.parametrize(("names", "values"), ROWS)
def test_the_documented_settings_are_the_units(names: str, values: str) -> None:
    settings = re.findall("`([^`]+)`", names)
    told = re.findall("`([^`]+)`", values)
    for setting, value in zip(settings, told if len(told) > 1 else told * len(settings), strict=True):
        assert re.findall(rf"^{setting}=(.*)$", UNIT, re.MULTILINE) == [value]


def test_the_settings_that_matter_are_documented() -> None:
    documented = {name for names, _ in ROWS for name in re.findall(r"\w+", names)}
    assert documented >= {
        *("ConditionPathExists", "After", "WatchdogSec", "CapabilityBoundingSet", "AmbientCapabilities", "MemoryMax"),
        *("CPUQuota", "Nice", "NoNewPrivileges", "ProtectSystem", "StateDirectory"),
    }


def test_the_documented_releases_are_those_that_are_made() -> None:
    rows = re.findall(
        r"^\| `harvest-agent-VERSION-1\.el(\d+)\.MACHINE\.rpm` \| `(.+?)` \| ([0-9.]+) \|", REFERENCE, re.MULTILINE
    )
    made = [(str(one.number), one.interpreter, ".".join(map(str, one.glibc))) for one in RELEASES]
    assert rows == made
