"""docs/reference/operator.md has every option, label, annotation and condition as the code has them."""

import ast
import re
from pathlib import Path

from harvest_operator import names
from harvest_operator.__main__ import parser
from harvest_operator.conditions import MEANINGS
from harvest_site.model import API_VERSION

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "operator/src/harvest_operator"
PAGE = (ROOT / "docs/reference/operator.md").read_text()
EDGES = {"__main__", "cluster", "handlers", "polling", "agenda", "reconciling", "logs", "joining"}


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(heading, 1)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_option_is_on_the_page() -> None:
    options = {name for action in parser()._actions for name in action.option_strings if name.startswith("--")}  # noqa: SLF001
    shown = {re.match("`(--[a-z-]+)", row[0])[1] for row in rows("# harvest-operator") if row[0].startswith("`--")}  # type: ignore[index]
    assert shown == options - {"--help"}


def test_every_condition_is_on_the_page() -> None:
    shown = [tuple(row) for row in rows("## Conditions") if len(row) == 4]
    assert shown[: len(MEANINGS)] == [
        (f"`{kind}`", status, f"`{reason}`", meaning) for (kind, status, reason), meaning in MEANINGS.items()
    ]


def test_every_label_and_annotation_is_on_the_page() -> None:
    named = {
        value for value in vars(names).values() if isinstance(value, str) and value.startswith("lustreharvest.dev/")
    }
    shown = {row[0].strip("`") for row in rows("## Labels and annotations")}
    assert shown == named - {API_VERSION} | {names.MANAGED_BY}


def test_kopf_and_the_kubernetes_client_are_in_one_module_each_and_decisions_do_no_io() -> None:
    users: dict[str, set[str]] = {}
    for file in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                users.setdefault(module.partition(".")[0], set()).add(file.stem)
    assert users["kopf"] == {"handlers"}
    assert users["kubernetes"] == {"cluster"}
    for module in ("aiohttp", "asyncio", "os", "structlog", "logging", "pathlib"):
        assert users[module] <= EDGES
