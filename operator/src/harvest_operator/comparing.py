"""Whether an object is already as it is wanted, so that nothing is written in vain. Pure."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from harvest_operator.names import APPLIED, Object

_DIGITS: Final = 16
_KEYS: Final = ("name", "mountPath", "uid")
"""By which entries of a list are known; a list whose entries have none of them is compared by place."""
_WHOLE: Final = {"selector", "nodeSelector"}
"""What is one value to Kubernetes: a label more in it makes it another one, and is nobody's but ours."""
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def digest(value: object) -> str:
    """Return a short text that differs if the value does."""
    written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:_DIGITS]


def marked(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what is applied: the manifest with its own digest. A field that is wanted no more changes the digest."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def covers(there: object, wanted: object) -> bool:
    """Tell whether everything that is wanted is there; what others added beside it is theirs."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            name in there and (there[name] == value if name in _WHOLE else covers(there[name], value))
            for name, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return isinstance(there, Sequence) and not isinstance(there, str) and _covers_list(there, wanted)
    return type(there) is type(wanted) and there == wanted


def _covers_list(there: Sequence[Any], wanted: Sequence[Any]) -> bool:
    for key in _KEYS:
        if wanted and all(isinstance(entry, Mapping) and key in entry for entry in wanted):
            known = {entry.get(key): entry for entry in there if isinstance(entry, Mapping)}
            return all(entry[key] in known and covers(known[entry[key]], entry) for entry in wanted)
    return len(there) == len(wanted) and all(map(covers, there, wanted))


def needs(there: Object | None, wanted: Object) -> bool:
    """Tell whether an object must be applied: it is not there, was applied otherwise, or somebody changed it."""
    return there is None or not covers(there, wanted)


def quantity(text: str) -> str:
    """Write one of Kubernetes' quantities as it writes it itself: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``."""
    number = text.rstrip("".join({*_DECIMAL, "K", "i"}))
    unit = text[len(number) :]
    value = Fraction(number) * (1024 ** _BINARY[unit] if unit in _BINARY else Fraction(10) ** _DECIMAL[unit])
    if unit in _BINARY and value >= 1024:
        return _shortest(math.ceil(value), 1024, ["", *_BINARY])
    return _shortest(math.ceil(value * 10**9), 1000, list(_DECIMAL)) if value else "0"


def _shortest(number: int, step: int, units: Sequence[str]) -> str:
    place = 0
    while number % step == 0 and place < len(units) - 1:
        number //= step
        place += 1
    return f"{number}{units[place]}"
