"""What is wrong with a field, in words that say what to write instead."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pydantic_core import ErrorDetails

from harvest_site.fields import Model, inner_model, shown
from harvest_site.model import Spec

_INSTEAD: Final = {
    "bool_type": "write true or false",
    "dict_type": "write a mapping, such as {key: value}",
    "int_type": "write a whole number",
    "model_type": "write a mapping, such as {key: value}",
    "string_type": "write a text, in quotes if it looks like a number",
    "tuple_type": "write a list, such as [a, b]",
}
"""By pydantic's type of error, where the field's own type says all there is to say."""


def explained(details: ErrorDetails) -> str:
    """Return the message for one of pydantic's errors."""
    kind = details["type"]
    if kind in _INSTEAD:
        if details["input"] is None:
            return f"there is nothing here: {_INSTEAD[kind]}, or leave the key out"
        given = details["input"] if isinstance(details["input"], str) else json.dumps(details["input"])
        return f"{shown(given)} will not do: {_INSTEAD[kind]}"
    return _WORDS[kind](details) if kind in _WORDS else details["msg"]


def choice(key: str, keys: Iterable[str]) -> str:
    """Return the key that was probably meant, else all."""
    near = difflib.get_close_matches(key[:60], sorted(keys), n=1)
    return near[0] if near else f"one of {', '.join(sorted(keys))}"


def _missing(details: ErrorDetails) -> str:
    *place, key = details["loc"]
    if isinstance(key, int):
        return "one number is missing: write two, such as [1, 67108863]"
    fields = _model_at(place).model_fields.values()
    description = next((field.description for field in fields if field.alias == key), None) or ""
    return f"this is missing: write it ({description.rstrip('.')})"


def _unknown_key(details: ErrorDetails) -> str:
    *place, key = details["loc"]
    keys = [field.alias or "" for field in _model_at(place).model_fields.values()]
    return f"there is no such key: write {choice(str(key), keys)}" if keys else "there is no such key: write {}"


def _not_listed(details: ErrorDetails) -> str:
    return f"{shown(details['input'])} is not known: write {details['ctx']['expected'].replace(chr(39), '')}"


def _out_of_bounds(details: ErrorDetails) -> str:
    context = details["ctx"]
    bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
    return f"{shown(details['input'])} is out of bounds: write {bound}"


def _length(details: ErrorDetails) -> str:
    things = "characters" if details["type"].startswith("string") else "entries"
    most = details["ctx"].get("max_length")
    return "it is empty: write something" if most is None else f"it is too long: write at most {most} {things}"


_WORDS: Final[Mapping[str, Callable[[ErrorDetails], str]]] = {
    "extra_forbidden": _unknown_key,
    "greater_than_equal": _out_of_bounds,
    "less_than_equal": _out_of_bounds,
    "literal_error": _not_listed,
    "missing": _missing,
    "string_too_long": _length,
    "string_too_short": _length,
    "too_long": _length,
    "too_short": _length,
}


def _model_at(place: Iterable[int | str]) -> type[Model]:
    """Return the model of the mapping at a place."""
    model: type[Model] = Spec
    for key in place:
        for field in model.model_fields.values():
            if field.alias == key:
                model = inner_model(field.annotation) or model
    return model
