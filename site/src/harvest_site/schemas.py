"""The model as the structural schema of a Kubernetes resource: types, bounds, defaults, and what texts must look like.

What a marker of the model refuses, the API server refuses with the same words, by a rule in CEL. Bounds of numbers and
of lengths, types, required and unknown keys and repeated entries are Kubernetes' own to refuse, in its own words.
"""

import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo

from harvest_site.fields import Address, Distinct, Duration, Model, Shape, Size
from harvest_site.quantities import SIZE_PATTERN, duration_cel, parse_duration

Schema = dict[str, Any]
VALIDATIONS: Final = "x-kubernetes-validations"
TEXT_MAX: Final = 72
"""Longest text of a field that names no bound: the API server must know what a rule can cost at most."""
_MANY: Final = 100_000
"""Texts of which there may be more than this in one site have no rule of their own: it would cost too much."""
_QUANTITY: Final[Schema] = {"type": "string", "maxLength": 24}
_SCALARS: Final[Mapping[object, Schema]] = {
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer", "format": "int64"},
    str: {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the document a schema stands."""

    keys: Mapping[str, str]
    """What identifies the entries of lists of mappings, by the list's key."""
    many: int = 1
    """How often the place can be in one document."""


def schema_of(model: type[Model], keys: Mapping[str, str]) -> Schema:
    """Return the schema of a mapping; ``keys`` name what identifies the entries of a list, by the list's key."""
    return _model(model, _Place(keys))


def rule(cel: str, message: str) -> Schema:
    """Return one rule: true where all is well, and what to write instead."""
    return {"rule": " ".join(cel.split()), "message": message}


def matches(text: str, pattern: str) -> str:
    """Return the test whether a whole text has a shape; JSON's way to write texts is one of CEL's."""
    return f"{text}.matches({json.dumps(f'^({pattern})$')})"


def _model(model: type[Model], place: _Place) -> Schema:
    fields = [(field.alias or "", field) for field in model.model_fields.values()]
    schema: Schema = {"type": "object", "description": _words(model.__doc__)}
    if required := [name for name, field in fields if field.is_required()]:
        schema["required"] = required
    if fields:
        schema["properties"] = {name: _field(name, field, place) for name, field in fields}
    return schema


def _field(name: str, field: FieldInfo, place: _Place) -> Schema:
    schema = _type(field.annotation, field.metadata, place)
    if schema.get("items", {}).get("type") == "object":
        schema |= (
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [place.keys[name]]}
            if name in place.keys
            else {"x-kubernetes-list-type": "atomic"}
        )
    if (default := _default(field)) is not None:
        schema["default"] = default
    return {"description": ""} | schema | {"description": _words(field.description)}


def _default(field: FieldInfo) -> object:
    """Return what an absent field is, as JSON; nothing where that depends on other fields."""
    if field.is_required() or field.default_factory_takes_validated_data:
        return None
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Model):
        return {}  # the API server fills in its fields' own defaults
    marker = next((one for one in field.metadata if isinstance(one, Duration | Size)), None)
    if marker is not None:
        return marker.written(default)
    return list(default) if isinstance(default, tuple) else default


def _type(annotation: object, markers: Sequence[object], place: _Place) -> Schema:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], [*_flat(arguments[1:]), *markers], place)
    if origin in {types.UnionType, typing.Union}:
        return _type(next(one for one in arguments if one is not types.NoneType), markers, place)
    if origin is tuple:
        return _array(arguments, markers, place)
    if origin is dict:
        return _mapping(arguments, markers, place)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return _model(annotation, place)
    return _scalar(annotation, markers, place)


def _scalar(annotation: object, markers: Sequence[object], place: _Place) -> Schema:
    if typing.get_origin(annotation) is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(annotation))}
    if quantity := next((marker for marker in markers if isinstance(marker, Duration | Size)), None):
        rules = _duration(quantity, whole=annotation is int) if isinstance(quantity, Duration) else _size(quantity)
        return _QUANTITY | {VALIDATIONS: list(rules)}
    schema = dict(_SCALARS[annotation])
    if annotation is str:
        schema |= {"maxLength": TEXT_MAX} | _bounds(markers, "Length")
    for marker in markers:
        match marker:
            case Ge(ge):
                schema["minimum"] = ge
            case Le(le):
                schema["maximum"] = le
            case Shape(pattern) if place.many > _MANY:
                schema["pattern"] = f"^({pattern})$"
            case Shape(pattern, instead):
                schema[VALIDATIONS] = [rule(matches("self", pattern), f"write {instead}")]
            case Address(instead):
                schema[VALIDATIONS] = [rule("isIP(self)", f"write {instead}")]
            case _:
                pass  # bounds of lengths, above; or a check that only Python can do
    return schema


def _array(arguments: tuple[Any, ...], markers: Sequence[object], place: _Place) -> Schema:
    if arguments[-1] is not Ellipsis:  # so many, no more and no less
        size = {"minItems": len(arguments), "maxItems": len(arguments)}
    else:
        choices = len(typing.get_args(arguments[0])) if typing.get_origin(arguments[0]) is typing.Literal else 0
        size = {"maxItems": choices} | _bounds(markers, "Items")
    kind = "set" if any(isinstance(one, Distinct) for one in markers) else "atomic"
    items = _type(arguments[0], (), replace(place, many=place.many * size["maxItems"]))
    return {"type": "array", "x-kubernetes-list-type": kind, **size, "items": items}


def _mapping(arguments: tuple[Any, ...], markers: Sequence[object], place: _Place) -> Schema:
    key, value = arguments
    rules = [
        rule(f"self.all(k, {matches('k', shape.pattern)})", f"write {shape.instead}")
        for shape in _flat(typing.get_args(key))
        if isinstance(shape, Shape)
    ]
    values = _type(value, (), place)
    return {"type": "object", **_bounds(markers, "Properties"), "additionalProperties": values, VALIDATIONS: rules}


def _bounds(markers: Sequence[object], of: str) -> dict[str, int]:
    least = {f"min{of}": one.min_length for one in markers if isinstance(one, MinLen)}
    return least | {f"max{of}": one.max_length for one in markers if isinstance(one, MaxLen)}


def _duration(bounds: Duration, *, whole: bool) -> Iterator[Schema]:
    value, (least, most) = duration_cel("self"), map(parse_duration, (bounds.minimum, bounds.maximum))
    yield rule(f"{value} >= 0", f"write a whole number and its unit, such as {bounds.maximum}")
    yield rule(
        f"[{value}].all(ms, ms < 0 || ms >= {least} && ms <= {most})",
        f"write a duration from {bounds.minimum} to {bounds.maximum}",
    )
    if whole:
        yield rule(f"[{value}].all(ms, ms < 0 || ms % 1000 == 0)", f"write one, such as {bounds.minimum}")


def _size(bounds: Size) -> Iterator[Schema]:
    readable = matches("self", SIZE_PATTERN)
    yield rule(readable, f"write a whole number and its unit, such as {bounds.maximum}")
    yield rule(
        f"!{readable} || quantity(self).compareTo(quantity('{bounds.minimum}')) >= 0 && "
        f"quantity(self).compareTo(quantity('{bounds.maximum}')) <= 0",
        f"write a size from {bounds.minimum} to {bounds.maximum}",
    )


def _flat(markers: Sequence[object]) -> list[object]:
    """Return markers, those inside pydantic's ``Field`` included."""
    return [inner for one in markers for inner in (one.metadata if isinstance(one, FieldInfo) else [one])]


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
