"""What each aggregator has of the spool, and wishes. After a restart only hints: they say it again themselves."""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple


class Wishes(NamedTuple):
    """What an aggregator wants of every sweep."""

    interval_seconds: int
    clients: Mapping[str, int]
    """File systems of which it also wants every client, and how often, in seconds."""


class Cursors:
    """Per uplink and incarnation: the last sweep that is durable there, and the file systems that it was sent of."""

    def __init__(self, path: str, uplinks: Sequence[str]) -> None:
        self._path = path
        self._acknowledged: dict[str, dict[bytes, int]] = {uplink: {} for uplink in uplinks}
        self._sent_of: dict[str, dict[bytes, frozenset[str]]] = {uplink: {} for uplink in uplinks}
        self._wishes: dict[str, Wishes] = {}
        self._is_saved = True
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            self._load()

    def _load(self) -> None:
        with open(self._path, "rb") as file:
            kept: dict[str, Any] = json.load(file)
        for uplink in self._acknowledged.keys() & kept.keys():
            if (interval := int(kept[uplink]["interval_seconds"])) > 0:
                clients = {str(name): int(seconds) for name, seconds in kept[uplink].get("clients", {}).items()}
                self._wishes[uplink] = Wishes(interval, clients)
            for name, (seq, filesystems) in kept[uplink]["incarnations"].items():
                self._acknowledged[uplink][bytes.fromhex(name)] = int(seq)
                self._sent_of[uplink][bytes.fromhex(name)] = frozenset(map(str, filesystems))

    def save(self) -> None:
        """Keep everything for the next start; losing it costs room in the spool only."""
        if self._is_saved:
            return
        wishes = {uplink: self._wishes.get(uplink, Wishes(0, {})) for uplink in self._acknowledged}
        kept = {
            uplink: {
                "interval_seconds": wishes[uplink].interval_seconds,
                "clients": dict(wishes[uplink].clients),
                "incarnations": {
                    incarnation.hex(): (seq, sorted(self._sent_of[uplink].get(incarnation, ())))
                    for incarnation, seq in acknowledged.items()
                },
            }
            for uplink, acknowledged in self._acknowledged.items()
        }
        with suppress(OSError):  # a full disk
            new = f"{self._path}.new"
            with open(new, "w", encoding="ascii") as file:
                json.dump(kept, file)
            os.replace(new, self._path)
            self._is_saved = True

    def wishes(self, uplink: str) -> Wishes | None:
        """Return what an aggregator wants, if it ever said so."""
        return self._wishes.get(uplink)

    def wish(self, uplink: str, wishes: Wishes) -> None:
        """Take in what an aggregator wants: the next start must not begin with less, or more rarely."""
        if self._wishes.get(uplink) != wishes:
            self._wishes[uplink] = wishes
            self._is_saved = False
            self.save()

    def acknowledge(self, uplink: str, incarnation: bytes, seq: int) -> None:
        """Take in that an aggregator has all sweeps up to this one."""
        if seq > self._acknowledged[uplink].get(incarnation, 0):
            self._acknowledged[uplink][incarnation] = seq
            self._is_saved = False

    def resume(self, uplink: str, durable: Mapping[bytes, int], wanted: frozenset[str]) -> dict[bytes, frozenset[str]]:
        """Begin where an aggregator says, also if it had more before and its ledger was restored.

        Return per incarnation what may be sent of what it wants: each file system from its first sweep on, or never.
        """
        before = self._sent_of[uplink]
        self._acknowledged[uplink] = dict(durable)
        self._sent_of[uplink] = {
            incarnation: wanted & before.get(incarnation, wanted) if seq else wanted
            for incarnation, seq in durable.items()
        }
        self._is_saved = False
        return dict(self._sent_of[uplink])

    def narrow(self, uplink: str, wanted: frozenset[str]) -> dict[bytes, frozenset[str]]:
        """Take in that an aggregator wants something else from now on; what it wants more needs a full picture."""
        sent_of = self._sent_of[uplink]
        self._sent_of[uplink] = {incarnation: wanted & filesystems for incarnation, filesystems in sent_of.items()}
        self._is_saved = False
        return dict(self._sent_of[uplink])

    def acknowledged(self, uplink: str, incarnation: bytes) -> int:
        """Return up to which sweep an aggregator has an incarnation."""
        return self._acknowledged[uplink].get(incarnation, 0)

    def forget(self, kept: Collection[bytes]) -> None:
        """Drop incarnations of which nothing is in the spool any more, and something was: one may just have begun."""
        for uplink, acknowledged in self._acknowledged.items():
            for incarnation in [one for one, seq in acknowledged.items() if seq and one not in kept]:
                del acknowledged[incarnation]
                self._sent_of[uplink].pop(incarnation, None)
                self._is_saved = False
