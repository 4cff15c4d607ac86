"""The ganglia sink: what every live node does, sent to gmond in the node's name."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from zlib import crc32

import structlog
from typing_extensions import override

from harvest_aggregator.nodes import Node
from harvest_aggregator.published import Published
from harvest_aggregator.sinks import gmetric, udp
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Pause, Plan, Sink, Written
from harvest_aggregator.sinks.pacing import Pace
from harvest_site import sinks as settings
from harvest_site.model import Site

UNITS: Final = ("bytes/sec", "bytes/sec", "ops/sec", "ops/sec")
"""Of the rates, in their order."""
_METADATA_SECONDS: Final = 40
"""A gmond that was restarted has everything back after this and a sweep."""
_WINDOW_SECONDS: Final = 16.0
"""Packets of a sweep are spread over this time, or four fifths of a shorter interval."""
_SLOWEST, _FASTEST = 2_000.0, 10_000.0
"""Packets per second. A socket's usual 208 KiB hold 277 packets; gmond empties it at 30,000 to 50,000 per second."""
_BURST: Final = 100

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangliaPlan(Plan):
    """What the site says of one ganglia sink, and of what it sends."""

    asked: settings.Ganglia
    interval_seconds: int
    aliases: Mapping[str, str]
    """By the file system's name."""

    @override
    def build(self) -> "Ganglia":
        return Ganglia(self)


def planned(sink: settings.Sink, site: Site, _secrets: Path | None = None) -> GangliaPlan:
    """Return the plan of a sink that is of this kind."""
    assert sink.ganglia is not None  # noqa: S101 - the table asks no other
    return GangliaPlan(
        asked=sink.ganglia,
        interval_seconds=site.spec.interval_seconds,
        aliases={one.name: one.alias for one in site.spec.filesystems},
    )


class Reading(NamedTuple):
    """A number of a node."""

    metric: str
    units: str
    text: str


def hosts(published: Published, plan: GangliaPlan) -> Iterator[tuple[str, list[Reading]]]:
    """Return what is sent of a sweep: every host as ganglia knows it, and its numbers."""
    for node in () if published.nodes is None else published.nodes.nodes:
        if node.is_live and (not plan.asked.clusters or node.cluster in plan.asked.clusters):
            yield gmetric.spoofed(node.address, node.host), list(_readings(node, plan.aliases))


def lines(published: Published, plan: GangliaPlan) -> Iterator[str]:
    """Return the same as text, for a person who wants to see what would be sent."""
    for host, readings in hosts(published, plan):
        for reading in readings:
            yield f"{host} {reading.metric} {reading.text} {reading.units}"


def _readings(node: Node, aliases: Mapping[str, str]) -> Iterator[Reading]:
    for filesystem, rates in node.filesystems.items():
        alias = aliases.get(filesystem, filesystem)  # what another site's aggregator tells us of has no alias here
        for field, units, rate in zip(rates._fields, UNITS, rates, strict=True):
            if rate is not None and math.isfinite(rate) and rate >= 0:
                yield Reading(f"{alias}_{field}", units, f"{abs(rate):.2f}")  # abs: there is a zero below zero


class Datagrams(Protocol):
    """A socket, as far as it is needed."""

    def send(self, data: bytes, /) -> int:
        """Send one packet."""


Connect = Callable[[settings.Ganglia, int], AbstractContextManager[Datagrams]]
"""Opens a socket; the number counts the times that it did not work."""


def _connect(asked: settings.Ganglia, attempt: int) -> AbstractContextManager[Datagrams]:
    return udp.connected(asked.address, ttl=asked.ttl, interface=asked.interface, attempt=attempt)


class _Due(NamedTuple):
    """When a host's metadata is to be sent again: at a write, or when its metrics change."""

    write: int
    metrics: tuple[str, ...]


class Ganglia(Sink):
    """Sends each sweep at a pace that gmond can follow. gmond keeps no past: only the newest sweep is worth sending."""

    room_sweeps = 1

    def __init__(
        self, plan: GangliaPlan, *, connect: Connect = _connect, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plan = plan
        self._connect = connect
        self._clock = clock
        self._writes_per_cycle = max(_METADATA_SECONDS // plan.interval_seconds, 1)
        self._writes = 0
        self._failures = 0
        self._started_seconds: int | None = None
        self._next_host: str | None = None
        """Where to go on after a write that did not come to its end: the same hosts must not always be left out."""
        self._due: dict[str, _Due] = {}

    @override
    def needed(self, published: Published) -> Published:
        return Published(tick_seconds=published.tick_seconds, nodes=published.nodes)

    @override
    def write(self, published: Published, pause: Pause) -> Written:
        if self._plan.asked.dry_run:
            for line in lines(published, self._plan):
                _log.info("ganglia would get", line=line)
            return ACCEPTED
        sent = list(hosts(published, self._plan))
        self._writes += 1
        self._started_seconds = self._started_seconds or published.tick_seconds
        self._due = {host: self._due[host] for host, _ in sent if host in self._due}
        try:
            with self._connect(self._plan.asked, self._failures) as socket:
                left = self._send(socket, self._in_turn(sent), self._pace(sent), pause)
        except OSError as error:
            self._failures += 1
            self._due.clear()  # if gmond is being restarted, it has forgotten all
            return Written(Outcome.KEPT, f"cannot send to {self._plan.asked.address}: {error.strerror or error}")
        if left:
            return Written(Outcome.KEPT, f"{left} of {len(sent)} nodes were not sent before the next sweep came")
        self._next_host = None
        return ACCEPTED

    def _send(self, socket: Datagrams, sent: Sequence[tuple[str, list[Reading]]], pace: Pace, pause: Pause) -> int:
        """Send all; return how many hosts are left if it must end early."""
        for number, (host, readings) in enumerate(sent):
            self._next_host = host
            for packet in self._packets(host, readings):
                wait_seconds = pace.take(self._clock())
                if wait_seconds and not pause(wait_seconds):
                    return len(sent) - number
                socket.send(packet)
        return 0

    def _in_turn(self, sent: list[tuple[str, list[Reading]]]) -> list[tuple[str, list[Reading]]]:
        start = next((number for number, (host, _) in enumerate(sent) if host == self._next_host), 0)
        return sent[start:] + sent[:start]

    def _pace(self, sent: Iterable[tuple[str, list[Reading]]]) -> Pace:
        packets = sum(len(one[1]) * (2 if self._is_metadata_due(*one) else 1) for one in sent)
        window_seconds = min(self._plan.interval_seconds * 0.8, _WINDOW_SECONDS)
        per_second = min(max(packets / window_seconds, _SLOWEST), _FASTEST)
        return Pace(per_second=per_second, burst=_BURST, now=self._clock())

    def _packets(self, host: str, readings: list[Reading]) -> Iterator[bytes]:
        asked = self._plan.asked
        if asked.heartbeat:
            yield gmetric.heartbeat(host, self._started_seconds or 0)
        with_metadata = self._is_metadata_due(host, readings)
        for reading in readings:
            if with_metadata:
                yield gmetric.metadata(host, reading.metric, reading.units, dmax_seconds=asked.dmax_seconds)
            yield gmetric.value(host, reading.metric, reading.text)
        if with_metadata:
            self._note_metadata(host, readings)

    def _is_metadata_due(self, host: str, readings: list[Reading]) -> bool:
        due = self._due.get(host)
        return due is None or self._writes >= due.write or due.metrics != _metrics(readings)

    def _note_metadata(self, host: str, readings: list[Reading]) -> None:
        """Note when a host's metadata is due again: from first sight on not all hosts' at the same time."""
        turns = self._writes_per_cycle if host in self._due else 1 + crc32(host.encode()) % self._writes_per_cycle
        self._due[host] = _Due(self._writes + turns, _metrics(readings))


def _metrics(readings: list[Reading]) -> tuple[str, ...]:
    return tuple(reading.metric for reading in readings)
