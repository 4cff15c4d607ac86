"""A real Prometheus scrapes a real aggregator on a simulated site: no counter ever falls, and each says the truth."""

import itertools
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from alive.scenes import closed, run
from demo.installation import SINK
from demo.play import AGGREGATOR, SLURM_HOST, Play, installed, settings
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.sinks.prometheus_families import FAMILIES
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_sim.lives import Life, Subject
from harvest_sim.truth import Truth
from harvest_site.loading import load
from support.processes import wait_for
from support.prometheus import Prometheus, complaints, scraping

SECONDS = 20.0
KILLS = (4.0, 8.0, 12.0)
EVENTS = ("clear", "remount", "failover", "reboot", "evicted")
Cell = tuple[str, str, str, str]
"""Target, job, metric and operation."""
NAMES = {"read_bytes": "read_bytes", "write_bytes": "write_bytes", "stats": "operations"}
METRICS = tuple(NAMES)
Sums = Counter[tuple[str, ...]]


def cells(life: Life, values: Mapping[int, tuple[int, int]]) -> Iterator[tuple[Cell, int]]:
    """Return what the counters of a life are shown as."""
    where = (life.scope.target, life.readable_key.decode())
    for index, (samples, total) in values.items():
        counter = (life.ops[index].name, life.ops[index].unit)
        if counts_read_bytes(counter):
            yield (*where, "read_bytes", ""), total
        elif counts_written_bytes(counter):
            yield (*where, "write_bytes", ""), total
        elif counts_operations(counter) and counter[0] != "ping":
            yield (*where, "stats", counter[0]), samples


def true_cells(truth: Truth) -> dict[Cell, set[int]]:
    """Return what every job did on every target; an agent that died may have had its last read safe, or not."""
    doubtful: dict[int, list[dict[int, tuple[int, int]]]] = {}
    for life, shown in truth.doubtful:
        doubtful.setdefault(life.number, []).append({index: (samples, total) for index, samples, total in shown.values})
    found: dict[Cell, set[int]] = {}
    for life in truth.select():
        last = life.shown[-1].values if life.shown else ()
        certain = {index: (samples, total) for index, samples, total in last}
        answers = [dict(cells(life, one)) for one in (certain, *doubtful.get(life.number, ()))]
        for cell in dict.fromkeys(itertools.chain(*answers)):
            amounts = {answer.get(cell, 0) for answer in answers if answer.get(cell, 0) >= answers[0].get(cell, 0)}
            found[cell] = {before + amount for before in found.get(cell, {0}) for amount in amounts}
    return {cell: amounts for cell, amounts in found.items() if amounts != {0}}


def job_cells(prometheus: Prometheus) -> dict[Cell, list[float]]:
    """Return every value of every series of a job."""
    found = {}
    for labels, samples in prometheus.samples('{__name__=~"lustre_job_.+"}').items():
        of = dict(labels)
        assert of["component"] == ("mdt" if "-MDT" in of["target"] else "ost")
        metric = of["__name__"].removeprefix("lustre_job_").removesuffix("_total")
        found[of["target"], of["jobid"], metric, of.get("operation", "")] = [value for _, value in samples]
    return found


def last(prometheus: Prometheus, family: str, *names: str) -> Sums:
    """Return what the series of a family say now, added up by some of their labels."""
    sums: Sums = Counter()
    for labels, samples in prometheus.samples(family).items():
        sums[tuple(dict(labels).get(name, "") for name in names)] += round(samples[-1][1])
    return +sums


def test_every_counter_says_what_was_done_over_all_that_befalls_lustre_and_the_aggregator(tmp_path: Path) -> None:
    simulated = settings(event_seconds=2.0, slurm=SLURM_HOST)
    shown = {"perJob": "all", "perClient": "all", "perUser": "all"}
    play = Play(installed(tmp_path, simulated, prometheus=shown), simulated, for_seconds=4 * SECONDS)
    page = f"{play.installation.url}/metrics/{SINK}"
    try:
        play.start()
        with scraping(tmp_path / "prometheus", page.removeprefix("http://")) as prometheus:
            wait_for(prometheus.is_scraping, "the first scrape")
            kills = [(at, lambda: play.kill(AGGREGATOR, for_seconds=0.5)) for at in KILLS]
            happened = play.live.site.truth.events
            run(play, *kills, enough=lambda: all(happened[event] for event in EVENTS))
            play.settle()
            check_jobs(play, prometheus)
            check_sums(play, prometheus)
            nodes = {metric: last(prometheus, f"harvest_client_{name}_total", "nid") for metric, name in NAMES.items()}
            every = check_counters(prometheus)
            with urllib.request.urlopen(page) as answer:  # noqa: S310 - our own loopback
                assert complaints(answer.read()) == ""
        play.installation.stop()
        assert nodes == {metric: +sums for metric, sums in accounted_nodes(play).items()}
        print(f"\n{every} counters; {dict(play.events)}, {dict(happened)}")
        assert [event for event in EVENTS if not happened[event]] == []
    finally:
        closed(play)


def check_jobs(play: Play, prometheus: Prometheus) -> None:
    """Compare what is shown of every job on every target with the truth."""
    true = true_cells(play.live.site.truth)

    def is_all_shown() -> bool:
        now = {cell: values[-1] for cell, values in job_cells(prometheus).items()}
        return all(now.get(cell) in amounts for cell, amounts in true.items())

    wait_for(is_all_shown, "all that was done")
    jobs = job_cells(prometheus)
    assert not any(values[-1] for cell, values in jobs.items() if cell[1] == "other")
    assert {cell for cell in jobs if cell[1] != "other"} == true.keys()
    assert {cell: values[0] for cell, values in jobs.items() if values[0] != 0} == {}, (
        "all began after the first scrape"
    )


def check_sums(play: Play, prometheus: Prometheus) -> None:
    """Compare what is shown of targets, file systems, users and clients with what is shown of jobs, and the truth."""
    by_target: dict[str, Sums] = {metric: Counter() for metric in METRICS}
    by_user: dict[str, Sums] = {metric: Counter() for metric in METRICS}
    for (target, job, metric, _), values in job_cells(prometheus).items():
        by_target[metric][target,] += round(values[-1])
        owner = play.live.queue.owners.get(job.encode())
        if owner is not None:
            by_user[metric][owner.account, owner.user] += round(values[-1])
    least, most = true_nodes(play.live.site.truth)
    for metric in METRICS:
        name = NAMES[metric]
        assert last(prometheus, f"harvest_target_{name}_total", "target") == +by_target[metric]
        assert last(prometheus, f"harvest_filesystem_{name}_total").total() == by_target[metric].total()
        wait_for(
            partial(_is_last, prometheus, f"harvest_user_{name}_total", ("account", "user"), +by_user[metric]), name
        )
        family = f"harvest_client_{name}_total"
        wait_for(partial(_is_within, prometheus, family, least[metric], most[metric]), f"{name} of nodes")


def true_nodes(truth: Truth) -> tuple[dict[str, Sums], dict[str, Sums]]:
    """Return what nodes did, at least and at most, by metric and NID.

    Their files are read one by one and told later: of a mount that is over, the last read may never have been told.
    """
    least: dict[str, Sums] = {metric: Counter() for metric in METRICS}
    most: dict[str, Sums] = {metric: Counter() for metric in METRICS}
    for life in truth.select(Subject.EXPORT):
        certain = life.shown[-2:-1] if life.is_over else life.shown[-1:]
        for bound, showings in ((least, certain), (most, life.shown[-1:])):
            for shown in showings:
                values = {index: (samples, total) for index, samples, total in shown.values}
                for (_, nid, metric, _), amount in cells(life, values):
                    bound[metric][nid,] += amount
    return least, most


def _is_within(prometheus: Prometheus, family: str, least: Sums, most: Sums) -> bool:
    found = last(prometheus, family, "nid")
    return found.keys() <= most.keys() and all(least[who] <= found[who] <= most[who] for who in most)


def accounted_nodes(play: Play) -> dict[str, Sums]:
    """Return what the ledger of an aggregator that is stopped says nodes did, by metric and NID."""
    ledger = Ledger(play.installation.data / "ledger.db")
    ledger.open()
    accounts = Accounts(ledger, load(play.installation.site_file))
    accounts.load(time.time())
    sums: dict[str, Sums] = {metric: Counter() for metric in METRICS}
    for (_, of_clients), table in accounts._sweeps._tables.items():  # noqa: SLF001 - nobody shows totals of nodes
        for nid, row in table.jobs.items() if of_clients else ():
            for counter, column in table.counters.items():
                if counts_read_bytes(counter) or counts_written_bytes(counter):
                    metric = "read_bytes" if counts_read_bytes(counter) else "write_bytes"
                    sums[metric][nid.decode(),] += int(table.sums[row, column])
                elif counts_operations(counter):
                    sums["stats"][nid.decode(),] += int(table.samples[row, column])
    ledger.close()
    return sums


def _is_last(prometheus: Prometheus, family: str, names: tuple[str, ...], expected: Sums) -> bool:
    return last(prometheus, family, *names) == expected


def check_counters(prometheus: Prometheus) -> int:
    """Look at every counter that there ever was; return how many that are."""
    every = prometheus.samples('{__name__=~".+_total"}')
    assert [labels for labels, samples in every.items() if samples != sorted(samples, key=lambda one: one[1])] == []
    counters = {dict(labels)["__name__"] for labels in every}
    assert counters == {family.name for family in FAMILIES if family.type == "counter"}
    resets = {name: prometheus.query(f"resets({name}[1h]) > 0") for name in counters}
    assert not any(resets.values()), resets
    return len(every)
