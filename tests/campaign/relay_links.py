"""Links between sites that fail, and the product's own relays that speak over them."""

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from typing_extensions import override

from campaign.plan import PERIOD
from campaign.relay_tree import Head, Told
from campaign.relay_truth import Totals
from harvest.v1.stream_pb2 import RelayResponse
from harvest_aggregator.published import Published
from harvest_aggregator.relays.outgoing import Needed
from harvest_aggregator.relays.pictures import Picture, parts
from harvest_aggregator.sinks.backlog import Backlog
from harvest_aggregator.sinks.relay import Receiver, Relay, RelayPlan, relay_plans
from harvest_pki.folders import Tls
from harvest_site.model import Site

_TRIES_SECONDS = PERIOD - 1
"""For so long of each tick it is tried to call."""


class Failure(grpc.RpcError):
    """A call that fails, as gRPC says it."""

    @override
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    @override
    def details(self) -> str:
        return "nobody answers"


class Link:
    """The way from a sender to one head: what is told there arrives, or does not, or late, or twice."""

    def __init__(self, sender: str, head: Head, truth: Callable[[str, Picture], Totals]) -> None:
        self.sender = sender
        self.head = head
        self._truth = truth
        """Returns what is true of a head's nodes in a picture."""
        self.tick = 0
        self.now = 0.0
        self.cut_until = 0
        """A tick."""
        self.next: list[tuple[str, int]] = []
        """What becomes of the next calls; and for a call that is delayed, by how many ticks."""
        self.events: Tally[str] = Tally()
        self.taken_tick: dict[str, int] = {}
        """Of the latest picture of each file system that the head has."""
        self._late: list[tuple[int, Told]] = []
        self._told: Told | None = None

    @contextmanager
    def connect(self, address: str, name: str, tls: Tls) -> Iterator[Receiver]:
        """Open a connection, as the product's own does."""
        del address, name, tls
        yield self

    @property
    def is_down(self) -> bool:
        """Whether the head is away."""
        return self.head.down_until > self.tick

    def tell(self, picture: Picture) -> RelayResponse:
        """Bring a call to the head, and its answer back."""
        messages = [part.SerializeToString() for part in parts(picture)]
        told = Told(self.sender, picture, messages, self._truth(self.head.name, picture))
        if self.is_down or self.cut_until > self.tick:
            raise Failure
        what, amount = self.next.pop(0) if self.next else ("", 0)
        self.events[what] += 1
        if what == "call delayed":
            self._late.append((self.tick + 1 + amount, told))
            raise Failure
        if what == "head killed in call" and amount % 2:  # before it was durable
            self._kill()
        answer = self._arrive(told)
        if what == "head killed in call":
            self._kill()
        if what == "answer lost":
            raise Failure
        self._told = told
        return RelayResponse.FromString(answer.SerializeToString())

    def _kill(self) -> None:
        self.head.stop()
        self.head.start()
        raise Failure

    def _arrive(self, told: Told) -> RelayResponse:
        tick, latest = told.picture.head.tick_seconds, self.taken_tick.get(told.filesystem, 0)
        if tick < latest:
            self.events["call overtaken"] += 1
        self.taken_tick[told.filesystem] = max(latest, tick)
        return self.head.take(told, self.now)

    def bring_late(self) -> None:
        """Let arrive what was delayed, and is due; a head that is away does not get it at all."""
        due = [told for at, told in self._late if at <= self.tick]
        self._late = [(at, told) for at, told in self._late if at > self.tick]
        for told in due:
            if not self.is_down:
                self._arrive(told)

    def repeat(self) -> bool:
        """Let the last call arrive once more."""
        if self._told is None or self.is_down:
            return False
        self._arrive(self._told)
        return True


class Sender:
    """The relay to one head, as its thread runs it, in a time that is told."""

    def __init__(self, plan: RelayPlan, link: Link) -> None:
        self.link = link
        self._relay = Relay(plan, connect=link.connect)
        self._backlog = Backlog[Needed](room_sweeps=self._relay.room_sweeps, jitter=lambda: 0.5)

    def offer(self, published: Published) -> None:
        """Give it a closed sweep."""
        self._backlog.offer(self._relay.needed(published))

    def run(self, now_seconds: float) -> None:
        """Let it write, and try again, until the next tick."""
        until, now = now_seconds + _TRIES_SECONDS, now_seconds
        while (wait := self._backlog.wait_seconds(now)) is not None and now + wait <= until:
            now += wait
            self.link.now = now
            sweep = self._backlog.take(now)
            assert sweep is not None
            written = self._relay.write(sweep, lambda _: True)
            self._backlog.settle(sweep, written, now=now, wall_seconds=now, was_cut=False)


def senders(site: Site, name: str, secrets: Path, links: dict[str, Link]) -> list[Sender]:
    """Return all relays of a site that has just begun."""
    found = []
    for plan in relay_plans(site, secrets, own_site=name).values():
        assert isinstance(plan, RelayPlan)
        found.append(Sender(plan, links[plan.cluster.name]))
    return found
