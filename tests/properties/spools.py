"""Histories of the campaign as every agent has spooled them, and what they add up to."""

from collections.abc import Container, Iterable
from dataclasses import replace
from functools import cache

from campaign.agents import encoded
from campaign.history import History
from campaign.plan import make_plan
from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.parking import JobSum, Sums, merge, park
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import MDT, OST, Facts
from harvest_core.merging import merged

HISTORIES = 60
ABOUT_DELIVERY = {
    *("duplicate", "network cut", "spool full", "state lost"),
    *("backup", "aggregator restart", "aggregator restored"),
}

Packet = tuple[bytes, ...]
"""The messages of one read of one target."""
Spool = tuple[Packet, ...]
Totals = dict[tuple[str, bytes, str, str], tuple[int, int]]
Flagged = list[tuple[str, bytes, bool, int]]


@cache
def spools(seed: int) -> tuple[Spool, ...]:
    """Return what each agent of a history has spooled, in order; each target moves between servers now and then."""
    plan = make_plan(seed)
    history = History(replace(plan, steps=tuple(step for step in plan.steps if step.what not in ABOUT_DELIVERY)))
    history.play()
    return tuple(
        tuple(tuple(sweep.messages) for sweep in agent.sent + agent.spool) for agent in history.world.agents.values()
    )


def facts_of(packet: Packet) -> Facts:
    """Return what a read says."""
    return joined([read(Batch.FromString(message)) for message in packet])


def outcome(packets: Iterable[Packet], *, parked_after: Container[int] = ()) -> tuple[Totals, Flagged]:
    """Apply reads in the order given; return every job's totals, and all that could not be known.

    After some of the reads all rows leave that may.
    """
    accounts: dict[str, TargetAccount] = {}
    flagged: Flagged = []
    parked: dict[str, Sums] = {OST: {}, MDT: {}}
    for number, packet in enumerate(packets):
        facts = facts_of(packet)
        for flag in accounts.setdefault(facts.target, TargetAccount()).apply(facts).ambiguities:
            flagged.append((facts.target, flag.mount.jobs[flag.row], flag.was_new, int(flag.amount.sum())))
        if number in parked_after:
            for stay in accounts[facts.target].stays.values():
                merge(parked[facts.kind], park(stay, sure_reads=1))
    totals: Totals = {}
    for kind in (OST, MDT):
        stays = [stay for target, account in accounts.items() if kind in target for stay in account.stays.values()]
        merge(parked[kind], {job: JobSum(counters=dict(work.counters)) for job, work in job_totals(stays).items()})
        for job, done in parked[kind].items():
            totals |= {(kind, job, *counter): amount for counter, amount in done.counters.items()}
    return totals, sorted(flagged)


@cache
def in_order(seed: int) -> tuple[Totals, Flagged]:
    """Return what it adds up to if every agent sends its spool once, one after the other."""
    return outcome(packet for spool in spools(seed) for packet in spool)


def renamed(spool: Spool, names: list[str]) -> Spool:
    """Return the spool of an agent that came under another of these names at each of its starts."""
    name_of: dict[bytes, str] = {}
    messages = [[Batch.FromString(message) for message in packet] for packet in spool]
    for message in (message for packet in messages for message in packet):
        message.mount.server = name_of.setdefault(message.incarnation, names[len(name_of) % len(names)])
    return tuple(tuple(message.SerializeToString() for message in packet) for packet in messages)


def merged_spool(spool: Spool, first: int, end: int) -> Spool:
    """Return the spool with the reads of this run merged, those of each target and incarnation by themselves."""
    groups: dict[tuple[str, bytes], list[int]] = {}
    reads = {place: facts_of(spool[place]) for place in range(first, min(end, len(spool)))}
    for place, facts in reads.items():
        groups.setdefault((facts.target, facts.incarnation), []).append(place)
    thin = list(spool)
    for places in groups.values():
        for place, facts in zip(places, merged([reads[place] for place in places]), strict=True):
            thin[place] = (encoded(facts),)
    return tuple(thin)
