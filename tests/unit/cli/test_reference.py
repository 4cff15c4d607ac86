"""docs/reference/cli.md says what there is."""

import re
from dataclasses import fields
from pathlib import Path

from harvest_cli.arguments import ASKING, COMMANDS, SHELLS
from harvest_cli.config import Aggregator
from harvest_cli.top import BYS, SORTS

TEXT = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text()


def test_every_command_is_there_with_its_options_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z]+)([^`]*)` \| ((?:`--.*?)?) ?\| .+ \|$", TEXT.partition("## Top")[0], re.MULTILINE)
    documented = {name: re.findall(r"--[a-z-]+", options) for name, _, options in rows}
    assert documented == {
        name: [option.name for option in command.options if option.name.startswith("--")]
        for name, command in COMMANDS.items()
    }
    arguments = {name: text.strip().replace("\\|", "|") for name, text, _ in rows}
    for name, command in COMMANDS.items():
        wanted = [option for option in command.options if not option.name.startswith("--")]
        shown = [option.metavar or "|".join(option.choices) for option in wanted]
        assert arguments[name].strip("[]") == " ".join(shown)
    assert arguments["completion"] == "|".join(SHELLS)


def test_every_option_is_explained() -> None:
    explained = re.findall(r"^\| (`--.*?) \|", TEXT, re.MULTILINE)
    options = {option for row in explained for option in re.findall(r"`(--[a-z-]+)", row)}
    there = {option.name for command in COMMANDS.values() for option in (*command.options, *ASKING)}
    assert options == {name for name in there if name.startswith("--")}


def test_every_key_of_the_screen_and_of_the_file_is_there() -> None:
    for sort in SORTS:
        assert f"`{sort[0]}`" in TEXT
    for by in BYS:
        assert f"`{by[0]}`" in TEXT
    for field in fields(Aggregator):
        assert f"`{field.name}`" in TEXT
        assert f"\n{field.name} = " in TEXT
