"""docs/reference/site.md lists every field as the model has it."""

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from harvest_site.crd import definition
from harvest_site.fields import Duration, Model, Size, inner_model
from harvest_site.model import Spec
from harvest_site.rules import RULES

TEXT = (Path(__file__).parents[3] / "docs/reference/site.md").read_text()


def rows(model: type[Model], prefix: str = "") -> Iterator[str]:
    for field in model.model_fields.values():
        path = f"{prefix}{field.alias}"
        meaning = " ".join((field.description or "").split())
        if values := values_of(field):
            meaning += f" {values}."
        yield f"| `{path}` | {default_of(field)} | {meaning} |"
        inner = inner_model(field.annotation)
        if inner is not None:
            yield from rows(inner, f"{path}[]." if tuple in origins(field.annotation) else f"{path}.")


def origins(annotation: object) -> set[object]:
    return {typing.get_origin(annotation)}.union(*map(origins, typing.get_args(annotation)))


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    if field.default in {None, PydanticUndefined}:
        return ""
    marker = next((one for one in field.metadata if isinstance(one, Duration | Size)), None)
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    shown = marker.written(field.default) if marker is not None else default
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown or repr(shown).replace(chr(39), chr(34))}`"


def values_of(field: FieldInfo) -> str:
    metadata = [*field.metadata, *nested(field.annotation)]
    for marker in metadata:
        if isinstance(marker, Duration | Size):
            return f"{marker.minimum} to {marker.maximum}"
    if literals := literals_of(field.annotation):
        return ", ".join(f"`{literal}`" for literal in literals)
    low = next((str(marker.ge) for marker in metadata if isinstance(marker, Ge)), None)
    high = next((str(marker.le) for marker in metadata if isinstance(marker, Le)), None)
    return f"{low} to {high}" if low is not None else ""


def nested(annotation: object) -> list[object]:
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *markers = typing.get_args(annotation)
        return [*(part for marker in markers for part in getattr(marker, "metadata", [])), *nested(inner)]
    if typing.get_origin(annotation) in {types.UnionType, typing.Union, tuple}:
        return [marker for one in typing.get_args(annotation) for marker in nested(one)]
    return []


def literals_of(annotation: object) -> tuple[str, ...]:
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    return next((found for found in map(literals_of, typing.get_args(annotation)) if found), ())


def test_every_field_is_documented_as_the_model_has_it() -> None:
    documented = re.findall(r"^\| `[a-zA-Z.\[\]]+` \|.*\|.*\|$", TEXT, re.MULTILINE)
    assert documented == list(rows(Spec))


def test_every_field_of_the_status_is_documented() -> None:
    documented = dict(re.findall(r"^\| `([a-zA-Z]+)` \| ([^|]*) \|$", TEXT, re.MULTILINE))
    fields = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert documented.keys() == fields.keys()
    for name, field in fields.items():
        for inner in field.get("items", {}).get("properties", {}):
            assert f"`{inner}`" in documented[name]


def test_every_rule_is_documented() -> None:
    assert [rule.message for rule in RULES if f"| {rule.message} |" not in TEXT] == []
