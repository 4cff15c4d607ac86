"""What is written about many servers works as written: playbooks and commands, against the programs and the package."""

import contextlib
import io
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harvest_agent.__main__ import _parser as agent_parser
from harvest_aggregator.__main__ import parser as aggregator_parser
from harvest_cli.arguments import parser as cli_parser

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/fleet.md"
ANSIBLE = PAGE.with_name("ansible")
ROLE = ANSIBLE / "roles/harvest_agent"
FILES = sorted(ANSIBLE.rglob("*.yml"))
DEFAULTS: Mapping[str, Any] = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
MODULES = {
    *("assert", "command", "copy", "dnf", "file", "import_role", "set_fact", "stat", "systemd_service", "user"),
}
PARSERS: Mapping[str, Callable[[], ArgumentParser]] = {
    "harvest-agent": agent_parser,
    "harvest-aggregator": aggregator_parser,
    "harvest": cli_parser,
}


def tasks() -> Iterator[Mapping[str, Any]]:
    """Give every task of the role and of the playbooks."""
    for file in (ROLE / "tasks").glob("*.yml"):
        yield from yaml.safe_load(file.read_text())
    for file in ANSIBLE.glob("*.yml"):
        if file.name != "inventory.yml":
            for play in yaml.safe_load(file.read_text()):
                yield from play["tasks"]


def modules(task: Mapping[str, Any]) -> list[str]:
    return [key for key in task if "." in key]


def test_there_are_playbooks_and_each_file_is_yaml() -> None:
    assert {file.name for file in FILES} >= {"inventory.yml", "join.yml", "upgrade.yml", "remove.yml", "main.yml"}
    assert all(yaml.safe_load(file.read_text()) for file in FILES)


def test_every_task_says_what_it_does_and_uses_what_every_ansible_has() -> None:
    for task in tasks():
        (module,) = modules(task)
        assert task["name"]
        assert module.removeprefix("ansible.builtin.") in MODULES


def test_playbooks_use_what_the_role_has() -> None:
    used = {task["ansible.builtin.import_role"]["tasks_from"] for task in tasks() if "import_role" in str(task)}
    assert used == {file.stem for file in (ROLE / "tasks").glob("*.yml")}


def test_every_variable_is_set_somewhere() -> None:
    text = "\n".join(file.read_text() for file in FILES)
    used = {
        name
        for expression in re.findall(r"{{(.*?)}}", text, re.DOTALL)
        for name in re.findall(r"harvest_\w+", expression)
    }
    set_here = set(re.findall(r"^ +(?:register: )?(harvest_\w+)(?::|$)", text, re.MULTILINE))
    assert used - set(DEFAULTS) - set_here == set()
    assert set(DEFAULTS) <= used | set(re.findall(r"\"{{ (harvest_\w+)", text))


def test_every_path_of_a_server_is_one_of_the_package() -> None:
    spec = (ROOT / "agent/packaging/harvest-agent.spec.in").read_text().partition("%files")[2]
    packaged = set(re.findall(r" ?(/\S+)$", spec, re.MULTILINE))
    assert "/etc/harvest/agent.toml" in packaged
    texts = [file.read_text() for file in (ROLE / "tasks").glob("*.yml")]
    paths = {path for text in texts for path in re.findall(r"(?<![\w}])/[\w./-]+\w", text)}
    assert len(paths) > 2
    assert {path for path in paths if not path.startswith("/var/tmp")} <= packaged  # noqa: S108 - the servers'


def of_playbooks() -> Iterator[list[str]]:
    """Give every command of the tasks, as it is called."""
    for task in tasks():
        argv = task.get("ansible.builtin.command", {}).get("argv", [])
        if isinstance(argv, str):
            (name,) = re.findall(r"harvest_\w+_command", argv)
            argv = [*DEFAULTS[name], *(["oss1", "oss2"] if "harvest_joining" in argv else [])]
        yield [re.sub(r"{{.*?}}", "harvest.example", str(word)) for word in argv]
    for text in re.findall(r"^# with Kubernetes: (\[.*\])$", (ROLE / "defaults/main.yml").read_text(), re.MULTILINE):
        yield [*yaml.safe_load(text), "oss1", "oss2"]


def of_the_page() -> Iterator[list[str]]:
    """Give every command of the page: of its blocks, and of its sentences where options are told."""
    text = PAGE.read_text()
    for line in re.findall(r"^ {4,}(harvest.*)$", text, re.MULTILINE):
        yield shlex.split(line.partition(" > ")[0], comments=True)
    for command in re.findall(r"`(harvest(?:-agent|-aggregator)? [a-z][^`]*)`", text):
        yield shlex.split(command)


def commands() -> list[str]:
    found = [words for words in (*of_playbooks(), *of_the_page()) if words and words[0] in PARSERS]
    return sorted({shlex.join(words) for words in found})


NEEDED = {
    "agent-bundle": ["example", "oss1"],
    "issue-agent": ["--data=d", "oss1"],
    "issue-server": ["--data=d"],
    "join": ["harvest.example", "--token-file=f"],
    "list": ["--data=d"],
    "run": ["--config=f"],
}
"""What is left out where a sentence only names a command."""


def completed(words: list[str]) -> list[str]:
    last = [word for word in words if not word.startswith("-")][-1]
    return [*words, *NEEDED.get(last, [])]


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_of_ours(command: str) -> None:
    program, *words = completed(shlex.split(command))
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            PARSERS[program]().parse_args(words)
        except SystemExit:
            pytest.fail(said.getvalue())


def test_commands_are_found_in_both() -> None:
    found = {tuple(words[:2]) for words in (*of_playbooks(), *of_the_page()) if words}
    assert found >= {
        ("harvest-agent", "join"),
        ("harvest-agent", "doctor"),
        ("harvest", "servers"),
        ("harvest", "token"),
    }
    assert ("harvest-aggregator", "ca") in found
