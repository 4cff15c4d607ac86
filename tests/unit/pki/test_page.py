"""The page that describes the commands."""

import argparse
import re
from pathlib import Path

from harvest_aggregator.__main__ import parser

PAGE = Path(__file__).parents[3] / "docs/reference/pki.md"


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command below `ca`."""
    return below(below(parser())["ca"])


def below(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (choices,) = (action.choices for action in whole._actions if isinstance(action.choices, dict))  # noqa: SLF001
    return choices


def words(command: argparse.ArgumentParser) -> set[str]:
    """Return the options and arguments of a command as the page writes them."""
    actions = [action for action in command._actions if action.dest != "help"]  # noqa: SLF001
    return {
        " ".join([*action.option_strings, *([str(action.metavar)] if action.metavar else [])]) for action in actions
    }


def test_the_page_names_every_command_and_option() -> None:
    page = PAGE.read_text()
    known = commands()
    assert re.findall(r"^\| `ca ([a-z-]+)` \|", page, re.MULTILINE) == list(known)

    documented: dict[str, set[str]] = {name: set() for name in known}
    for option, of in re.findall(r"^\| `((?:--|NAME|FILE|SERVER)[^`]*)` \| ([^|]*) \|", page, re.MULTILINE):
        for name in known if of == "all" else re.findall(r"`([a-z-]+)`", of):
            documented[name].add(option)
    assert documented == {name: words(command) for name, command in known.items()}


def test_every_command_says_what_it_does() -> None:
    assert all(command.description for command in commands().values())
