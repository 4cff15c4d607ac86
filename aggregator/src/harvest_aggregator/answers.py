"""Answers as JSON, and what is wrong with a question."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response


class BadParameterError(Exception):
    """A parameter that cannot be answered; the message says what is allowed."""

    def __init__(self, parameter: str, message: str, *, allowed: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.content = {"error": message, "parameter": parameter, "allowed": list(allowed)}


def encoded(value: object) -> bytes:
    """Return a value as JSON in ASCII, so that ids that are no UTF-8 stay what they are."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def printed(name: bytes) -> str:
    """Return an id as text; bytes that are no UTF-8 survive as surrogate escapes."""
    return name.decode("utf-8", "surrogateescape")


def answer(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:  # noqa: ANN401
    """Answer with JSON."""
    return Response(encoded(content), status_code=status, headers=headers, media_type="application/json")
