"""A house with a prometheus sink that shows what happens in it, without threads."""

import gzip
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as parsed

from harvest_aggregator.clients import Client
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.published import Published
from harvest_aggregator.showing import Showing
from harvest_aggregator.sinks.contract import Outcome
from harvest_aggregator.sinks.prometheus import Prometheus, planned
from harvest_site.loading import load
from support.deliveries import START, Writer
from unit.aggregator.houses import House
from unit.aggregator.publishing import target

SITE = """
interval: 20s
filesystems: [{{name: home, servers: [oss1, oss2]}}]
clusters: [{{name: vu, filesystems: [home], slurm: {{server: slurm1}}}}]
sinks: [{{name: prom, prometheus: {{{settings}}}}}]
"""
ALL = "perJob: all, perUser: all, perProcess: all"


class Scene:
    """A house, and a sink that shows what happens in it."""

    def __init__(self, path: Path, settings: str = ALL) -> None:
        self.path = path
        self.settings = settings
        self.site = load(SITE.format(settings=settings))
        self.agent = Writer()
        self.tick = START
        self.now = 0.0
        self.clients: tuple[Client, ...] = ()
        self.start()

    def start(self) -> None:
        self.house = House(self.path, self.site)
        self.showing = Showing(self.house.ledger, self.house.accounts, self.site)
        self.showing.begin(self.house.following.identities)
        self.sink = self.new_sink()

    def new_sink(self) -> Prometheus:
        plan = planned(self.site.spec.sinks[0], self.site, self.ask)
        return Prometheus(plan, clock=lambda: self.now, wall=lambda: START + self.now)

    def restart(self) -> None:
        self.house.ledger.close()
        self.start()

    def rename(self, before: str, after: str, *, is_down: bool) -> None:
        """Change the site, while it runs or while it does not."""
        self.site = load(SITE.format(settings=self.settings).replace(before, after))
        if is_down:
            self.restart()
        else:
            self.house.change_site(self.site, self.tick + 2.0)
            self.showing.change_site(self.site, self.house.following.identities)

    def ask(self, run: Callable[[Showing], Any]) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(run(self.showing))
        except LedgerError as error:
            done.set_exception(error)
        return done

    def sweep(self, **written: int) -> Outcome:
        self.tick += 20
        self.now += 20
        self.house.sweep(self.agent, self.tick, **written)
        self.showing.look()
        here = self.house.following
        starts, earlier, owners = here.told()
        published = Published(
            tick_seconds=self.tick,
            closed=self.house.closed,
            identities=here.identities,
            clusters=here.facts(),
            earlier=earlier,
            starts=starts,
            owners=owners,
            owned=here.owned,
            targets=(target("home", "OST", "home-OST0000", server="oss1"),),
            by_target=self.showing.by_target,
            clients=self.clients,
        )
        return self.sink.write(published, lambda _: True).outcome

    def text(self, *, accept: str = "", encodings: str = "", who: str = "prometheus") -> str:
        answer = self.sink.scrape(who, accept=accept, encodings=encodings)
        assert answer is not None
        return (gzip.decompress(answer.body) if answer.encoding else answer.body).decode()

    def shown(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the series of a family, by some of their labels."""
        return {
            tuple(sample.labels.get(label, "") for label in labels): sample.value
            for family in parsed(self.text())
            for sample in family.samples
            if sample.name == name
        }
