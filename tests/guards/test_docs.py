"""The documentation says what the code does."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def agent_help(*command: str) -> str:
    ran = subprocess.run([sys.executable, "-m", "harvest_agent", *command, "--help"], capture_output=True, check=True)
    return ran.stdout.decode()


def test_every_command_and_option_of_the_agent_is_documented() -> None:
    text = (ROOT / "docs/reference/agent.md").read_text()
    commands = re.findall(r"^    (\w+) ", agent_help(), re.MULTILINE)
    assert set(commands) == set(re.findall(r"^\| `(\w+)` \| (?:shows|says|writes|runs)", text, re.MULTILINE))
    options = {option for command in commands for option in re.findall(r"(--[a-z-]+)", agent_help(command))}
    documented = set(re.findall(r"^\| `(--[a-z-]+)[^`]*`", text, re.MULTILINE))
    assert options - {"--help"} == documented


def test_every_field_of_the_json_lines_is_documented() -> None:
    text = (ROOT / "docs/reference/agent.md").read_text()
    rows = dict(re.findall(r"^\| `(job|export|unread)` \| (.*?) \|$", text, re.MULTILINE))
    source = (ROOT / "agent/src/harvest_agent/sampling.py").read_text()
    for field in set(re.findall(r'^\s+"([a-z_]+)": ', source, re.MULTILINE)) - {"kind"}:
        assert any(f"`{field}`" in fields for fields in rows.values()), field


def test_every_page_is_linked_from_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    for folder in ("reference", "how-to", "explanation", "adr"):
        for page in (ROOT / "docs" / folder).glob("*.md"):
            assert f"({folder}/{page.name})" in index


def test_every_test_that_a_page_names_is_there() -> None:
    named = [
        (page.name, *reference)
        for page in (ROOT / "docs").rglob("*.md")
        for reference in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page.read_text())
    ]
    assert len(named) > 20
    for page, file, test in named:
        assert re.search(rf"^(?:async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), (
            f"{page}: {file}::{test}"
        )
