"""docs/reference/cli.md says what there is."""

import re
from dataclasses import fields
from pathlib import Path

from harvest_cli.arguments import ASKING, COMMANDS, SHELLS, parser
from harvest_cli.config import Aggregator
from harvest_cli.top import BYS, KEYS, SORTS, Row, Shown, View, sheet

TEXT = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text()


def test_every_command_is_there_with_its_options_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)([^`]*)` \| ((?:`--.*?)?) ?\| .+ \|$", TEXT.partition("## Top")[0], re.MULTILINE)
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


def test_captures_are_of_commands_and_columns_that_there_are() -> None:
    captures = re.findall(r"<!-- captured: harvest (.+?) -->\n\n```text\n(.*?)\n```\n", TEXT, re.DOTALL)
    assert {words.split()[0] for words, _ in captures} >= {"top", "job"}
    for words, block in captures:
        options = parser().parse_args(words.split())
        if options.command == "top":
            title, head, *_, foot = block.splitlines()
            view = View(by=options.by, sort=options.sort, server=options.server)
            made = sheet(view, Shown(view=view, rows=[Row(("x",) * 9, {}, "op 1/s")]))
            assert title.startswith(made.title.rpartition(" · at ")[0])
            assert re.split(r" {2,}", head) == [column.head for column in made.columns]
            assert foot == KEYS
