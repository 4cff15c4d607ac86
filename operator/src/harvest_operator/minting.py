"""Secrets that hold something random, and where that comes from.

Nothing is made twice by two operators: such a Secret is created only where there is none, and replaced only as it was
seen.
"""

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harvest_operator.comparing import covers
from harvest_operator.names import KINDS, SECRET, Object
from harvest_operator.references import data_of
from harvest_pki.keys import PrivateKey, new_key, new_serial


@dataclass(frozen=True, slots=True)
class Mint:
    """Where random things come from."""

    key: Callable[[], PrivateKey] = new_key
    serial: Callable[[], int] = new_serial
    token: Callable[[], str] = lambda: secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Made:
    """A Secret as it should be, and why it is to be written, for an event."""

    manifest: dict[str, Any]
    said: tuple[str, str]
    """Reason and message."""


def secret(metadata: dict[str, Any], content: Mapping[str, bytes], *, kind: str = "Opaque") -> dict[str, Any]:
    """Return a Secret."""
    return {
        "apiVersion": KINDS[SECRET][0],
        "kind": SECRET,
        "metadata": metadata,
        "type": kind,
        "data": _encoded(content),
    }


def replaced(
    found: Object, content: Mapping[str, bytes], metadata: dict[str, Any], marks: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a Secret as it was seen, with other content; labels and annotations of others stay."""
    there = {key: value for key, value in found["metadata"].items() if key not in {"managedFields", "ownerReferences"}}
    merged = {key: {**(there.get(key) or {}), **metadata.get(key, {})} for key in ("labels", "annotations")}
    merged["annotations"].update(marks or {})
    owners = {"ownerReferences": metadata["ownerReferences"]} if "ownerReferences" in metadata else {}
    return {
        "apiVersion": KINDS[SECRET][0],
        "kind": SECRET,
        "metadata": {**there, **merged, **owners},
        "type": found.get("type", "Opaque"),
        "data": _encoded(content),
    }


def is_marked(found: Object, metadata: dict[str, Any]) -> bool:
    """Tell whether a Secret has the labels, annotations and owners that it should have, and no other owners."""
    owners = found["metadata"].get("ownerReferences") or []
    return covers(found["metadata"], metadata) and len(owners) == len(metadata.get("ownerReferences", ()))


def content_of(found: Object) -> dict[str, bytes]:
    """Return what a Secret holds."""
    return {key: base64.b64decode(value) for key, value in data_of(found).items()}


def _encoded(content: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in sorted(content.items())}
