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
    for page in (ROOT / "docs/reference").glob("*.md"):
        assert f"reference/{page.name}" in index
