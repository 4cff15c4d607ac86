"""A site file to a site, or to everything that is wrong with it."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from harvest_site.documents import TEXT_BYTES_MAX, DocumentError, parse
from harvest_site.explanations import choice, explained
from harvest_site.fields import SiteName, shown
from harvest_site.model import API_VERSION, KIND, Site, Spec
from harvest_site.rules import RULES

_DOCUMENT_KEYS: Final = {"apiVersion", "kind", "metadata", "spec", "status"}
_PROBLEMS_SHOWN: Final = 100
_SITE_NAME: Final[TypeAdapter[str]] = TypeAdapter(SiteName)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and what to write instead."""

    path: str
    """Of the field, such as ``spec.clusters[0].slurm``; empty where the text as a whole is meant."""
    message: str
    rule: str | None = None
    """Which rule is broken; nothing where the field alone is wrong."""

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SiteError(Exception):
    """The text is no site; ``problems`` has everything that is wrong."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        shown_problems = [str(problem) for problem in self.problems[:_PROBLEMS_SHOWN]]
        rest = len(self.problems) - len(shown_problems)
        super().__init__("\n".join([*shown_problems, *([f"… and {rest} more"] if rest else [])]))


def load(source: str | Path) -> Site:
    """Read a site from a file or from its text: a whole HarvestSite, or its spec alone."""
    try:
        document = parse(_text(source) if isinstance(source, Path) else source)
    except DocumentError as error:
        raise SiteError(Problem("", line) for line in str(error).split("\n")) from None
    return checked(document)


def checked(document: object) -> Site:
    """Return the site in a document that was read already, such as a Kubernetes object's body."""
    if not isinstance(document, dict):
        raise SiteError([Problem("", f"write a mapping: a {KIND}, or what stands under its spec")])
    if not _DOCUMENT_KEYS & document.keys():
        spec, problems = _spec(document, "")
        return _site(None, spec, problems)
    problems = list(_envelope(document))
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    spec, found = _spec(document.get("spec"), "spec")
    return _site(name, spec, problems + found)


def _site(name: str | None, spec: Spec | None, problems: list[Problem]) -> Site:
    if spec is None or problems:
        raise SiteError(problems)
    return Site(name, spec)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TEXT_BYTES_MAX + 1).decode()
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from None


def _envelope(document: dict[str, Any]) -> Iterator[Problem]:
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != wanted:
            yield Problem(key, f"write {wanted}")
    for key in document.keys() - _DOCUMENT_KEYS:
        yield Problem(_path("", (key,)), f"there is no such key: write {choice(key, _DOCUMENT_KEYS - {'status'})}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        yield Problem("metadata", "write a mapping with the site's name, such as {name: example}")
        return
    try:
        _SITE_NAME.validate_python(metadata.get("name"), strict=True)
    except ValidationError as error:
        yield Problem("metadata.name", explained(error.errors(include_url=False)[0]))


def _spec(raw: object, prefix: str) -> tuple[Spec | None, list[Problem]]:
    """Check the fields, then the rules; a rule that reads a part with wrong fields is not asked."""
    if not isinstance(raw, dict):
        return None, [Problem(prefix, "write a mapping with the site's parts, such as filesystems and clusters")]
    problems: list[Problem] = []
    wrong: set[str | int] = set()
    try:
        spec = Spec.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        for details in error.errors(include_url=False):
            wrong.add(details["loc"][0])
            if details["type"] != "default_factory_not_called":  # the field that it needs is named by its own error
                problems.append(Problem(_path(prefix, details["loc"]), explained(details)))
        spec = Spec.model_validate_json(json.dumps({key: part for key, part in raw.items() if key not in wrong}))
    for rule in RULES:
        if not wrong & set(rule.reads):
            for path, what in rule.check(spec):
                problems.append(Problem(_path(prefix, path), f"{what}: {rule.message}", rule.id))
    return spec, problems


def _path(prefix: str, keys: Iterable[str | int]) -> str:
    path = prefix
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        elif re.fullmatch("[A-Za-z0-9_-]{1,60}", key):
            path += f".{key}" if path else key
        else:
            path += f"[{shown(key)}]"
    return path
