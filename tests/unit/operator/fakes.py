"""A cluster in memory, and aggregators that say what they are told to."""

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from harvest_operator.agenda import SiteKey
from harvest_operator.cluster import ConflictError
from harvest_operator.names import JOIN, REQUEST, Key, Object, Owner, key_of
from harvest_operator.plan import Target, Verb, Write
from harvest_operator.reports import NoAnswer, Report
from harvest_operator.signing import Reply
from harvest_operator.status import Event
from harvest_site.model import KIND
from support.sites_in_kubernetes import stored, world


def merged(there: Any, wanted: Any) -> Any:  # noqa: ANN401 - JSON
    """Put what is wanted over what is there; lists are replaced."""
    if isinstance(there, dict) and isinstance(wanted, Mapping):
        return {**there, **{name: merged(there.get(name), value) for name, value in wanted.items()}}
    return copy.deepcopy(wanted)


@dataclass
class FakeCluster:
    """Keeps objects, and what was written."""

    objects: dict[Key, Any] = field(default_factory=dict)
    written: list[tuple[Verb, Key]] = field(default_factory=list)
    statuses: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    answers: list[tuple[str, str, str]] = field(default_factory=list)
    failing: dict[Key, Exception] = field(default_factory=dict)
    meanwhile: Callable[[], Awaitable[object]] | None = None
    """What others do once between somebody's look and what follows."""
    version: int = 10

    @classmethod
    def holding(cls, *objects: Mapping[str, Any]) -> "FakeCluster":
        return cls(objects=dict(world(objects)))

    def put(self, manifest: Mapping[str, Any]) -> None:
        self.version += 1
        self.objects[key_of(manifest)] = stored(manifest, version=self.version)

    async def get(self, _: str, key: Key) -> Object | None:
        return copy.deepcopy(self.objects.get(key))

    async def observe(self, _: Owner, __: Iterable[Key]) -> dict[Key, Object]:
        seen = copy.deepcopy({key: one for key, one in self.objects.items() if key[0] not in {KIND, REQUEST}})
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return seen

    async def write(self, write: Write) -> None:
        key = key_of(write.manifest)
        if key in self.failing:
            raise self.failing[key]
        there = self.objects.get(key)
        if write.verb is Verb.CREATE and there is not None:
            raise ConflictError(f"{key} already exists")
        if write.verb is Verb.REPLACE:
            assert there is not None
            if there["metadata"]["resourceVersion"] != write.manifest["metadata"]["resourceVersion"]:
                raise ConflictError(f"{key} was changed")
        self.written.append((write.verb, key))
        if write.verb is Verb.DELETE:
            del self.objects[key]
        else:
            self.put(merged(there or {}, write.manifest) if write.verb is Verb.APPLY else write.manifest)

    async def requests(self, signer: str) -> list[Object]:
        if (REQUEST, "") in self.failing:
            raise self.failing[REQUEST, ""]
        found = [one for key, one in self.objects.items() if key[0] == REQUEST]
        return copy.deepcopy([one for one in found if one["spec"]["signerName"] == signer])

    async def tokens(self, _: Owner) -> list[Object]:
        return copy.deepcopy([one for one in self.objects.values() if JOIN in one["metadata"].get("labels", {})])

    async def answer(self, reply: Reply) -> Object:
        key = key_of(reply.request)
        if key in self.failing:
            raise self.failing[key]
        if self.objects[key]["metadata"]["resourceVersion"] != reply.request["metadata"]["resourceVersion"]:
            raise ConflictError(f"{key} was changed")
        self.put(reply.request)
        self.answers.append((key[1], reply.part, reply.reason))
        return copy.deepcopy(dict(self.objects[key]))

    async def write_status(self, owner: Owner, status: Mapping[str, Any]) -> None:
        self.statuses.append(status)
        self.objects[KIND, owner.name]["status"] = copy.deepcopy(dict(status))

    async def post(self, _: Owner, event: Event, __: datetime) -> None:
        if ("Event", "") in self.failing:
            raise self.failing["Event", ""]
        self.events.append(event)


@dataclass
class FakeAggregators:
    """Answers as it was told."""

    said: dict[str, Report | NoAnswer] = field(default_factory=dict)
    targets: dict[SiteKey, tuple[Target, ...]] = field(default_factory=dict)

    def follow(self, key: SiteKey, targets: tuple[Target, ...]) -> None:
        self.targets[key] = targets

    def forget(self, key: SiteKey) -> None:
        self.targets.pop(key, None)

    def reports(self, _: SiteKey) -> Mapping[str, Report | NoAnswer]:
        return self.said
