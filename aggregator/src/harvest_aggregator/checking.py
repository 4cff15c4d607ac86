"""``check --url``: what a running aggregator says of its nodes, for a person: totals, and who does most."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from harvest_aggregator.nodes import Rates

_TOP: Final = 10
_SECONDS: Final = 30
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class CheckError(Exception):
    """The aggregator could not be asked; the message says why."""


def asked(url: str, token: str | None) -> dict[str, Any]:
    """Return what an aggregator says of its clients."""
    if not url.startswith(("http://", "https://")):
        raise CheckError(f"{url} is no address of an aggregator: write one such as http://127.0.0.1:8024")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(f"{url.rstrip('/')}/api/v1/clients", headers=headers), timeout=_SECONDS) as response:  # noqa: S310 - checked above
            answer: dict[str, Any] = json.load(response)
    except HTTPError as error:
        raise CheckError(f"{url} answers {error.code}: {_reason(error)}") from error
    except (OSError, ValueError) as error:
        raise CheckError(f"{url} cannot be asked: {getattr(error, 'reason', error)}") from error
    return answer


def _reason(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return str(error.reason)


def report(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines: of every file system and metric the total of all live nodes, and the ten that do most."""
    nodes: dict[str, dict[str, dict[str, float | None]]] = {}
    clients = [client for client in answer["clients"] if client["live"]]
    for client in clients:
        for filesystem, rates in client["filesystems"].items():
            mine = nodes.setdefault(filesystem, {}).setdefault(client["host"] or client["nid"], {})
            for metric, value in rates.items():
                mine[metric] = _plus(mine.get(metric), value)
    yield f"{len(clients)} live of {len(answer['clients'])} clients, at {answer['tick_seconds'] or 'no time yet'}"
    for filesystem, by_node in sorted(nodes.items()):
        for metric in Rates._fields:
            found = {name: value for name, rates in by_node.items() if (value := rates.get(metric)) is not None}
            yield f"{filesystem} {metric}: {shown(metric, sum(found.values()))} on {len(found)} nodes"
            busy = sorted(((value, name) for name, value in found.items() if value > 0), reverse=True)
            yield from (f"  {shown(metric, value):>16}  {name}" for value, name in busy[:_TOP])


def _plus(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def shown(metric: str, value: float) -> str:
    """Return a rate with its unit."""
    if not metric.endswith("_bytes"):
        return f"{value:.1f} ops/s"
    step = 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value /= 1024
        step += 1
    return f"{value:.1f} {_UNITS[step]}B/s"
