"""A history as a list of steps, made from a seed; a step that cannot happen when its time comes is passed over."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

PERIOD = 20
"""Seconds between sweeps."""
NO_START = ("2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.16.1 no header")
"""Servers that do not say when a record began."""
WITH_START = ("2.15.0", "2.15.8", "2.16.1", "2.17.0")
VERSIONS = (*NO_START, *WITH_START)
QUESTION_MARKS = ("2.10.8", "2.12.9", "2.14.0", "2.15.0")
SWITCHABLE = ("2.16.1", "2.17.0", "2.16.1 no header")
"""Servers on which enable_stats_header can be switched."""
SKIPPING = ("2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.15.0", "2.15.8")
TARGETS = ("fs-OST0000", "fs-MDT0000")
SERVERS = ("s0", "s1")
OST_OPS = ("write", "read", "punch", "setattr")
MDT_OPS = ("open", "close", "getattr", "mkdir", "rename")
EQUAL_IDS = (b"a\x01b", b"a\x02b")
"""Two jobs whose ids print alike where servers write ``?`` for what they cannot print."""


class Step(NamedTuple):
    """Something that happens ``after`` seconds into the period that ends with sweep ``tick``."""

    tick: int
    after: float
    what: str
    target: str = ""
    job: bytes = b""
    op: str = ""
    amount: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is needed to play a history again."""

    seed: int
    versions: tuple[str, str]
    cleanup_seconds: int
    ticks: int
    calm: bool
    """No gap in reading, no clear, no equal ids, and nobody idle near the interval: nothing may be flagged."""
    steps: tuple[Step, ...] = field(repr=False)


LUSTRE_EVENTS = (
    *("clear", "clear one", "remount", "failover", "reboot", "crash", "clock forward", "clock back"),
    *("interval", "last_rcvd deleted", "cut read", "skip", "header switched"),
)
HARVEST_EVENTS = (
    *("agent restart", "agent stop", "agent long stop", "state lost", "network cut", "duplicate"),
    *("aggregator restart", "aggregator restored", "spool full"),
)
ABOUT_TARGETS = {"clear", "clear one", "remount", "failover", "interval", "last_rcvd deleted", "cut read", "skip"}
EVENTS = (*LUSTRE_EVENTS, *HARVEST_EVENTS)
CALM_EVENTS = ("duplicate", "network cut", "remount", "failover", "reboot")


def make_plan(seed: int) -> Plan:
    """Return the history of a seed: every version meets every event in turn."""
    rng = random.Random(seed)
    version = VERSIONS[seed % len(VERSIONS)]
    kind = rng.choices(("wild", "calm", "lonely", "crowded"), (64, 10, 14, 12))[0]
    if (kind == "lonely" and version not in NO_START) or (kind == "crowded" and version not in SKIPPING):
        kind = "wild"
    other = version if kind in {"lonely", "crowded"} or rng.random() < 0.7 else rng.choice(VERSIONS)
    cleanup = rng.choice((100, 120, 120, 120, 160, 61))
    ticks = rng.randrange(18, 45)
    jobs = _jobs(kind, {version, other}, rng)
    steps = [step for job in jobs for step in _life_of(job, rng, ticks, cleanup, kind=kind)]
    if kind == "wild":
        turn = seed // len(VERSIONS)
        scheduled = [EVENTS[(turn * 5 + n) % len(EVENTS)] for n in range(5)]
        scheduled += rng.choices(EVENTS, k=rng.randrange(4))
        steps += [step for what in scheduled for step in _event(what, rng, ticks, jobs)]
    elif kind == "calm":
        steps += _event(rng.choice(CALM_EVENTS), rng, ticks, jobs) if rng.random() < 0.7 else []
    elif kind == "lonely":
        steps = _cleared_without_a_trace(jobs[0], rng)
    else:
        steps += [Step(tick, 1.0, "skip", target) for tick in range(2, ticks) for target in TARGETS]
    return Plan(
        seed=seed,
        versions=(version, other),
        cleanup_seconds=cleanup,
        ticks=ticks,
        calm=kind == "calm",
        steps=tuple(sorted(steps)),
    )


def _jobs(kind: str, versions: set[str], rng: random.Random) -> list[bytes]:
    jobs = [str(4710 + n).encode() for n in range(rng.randrange(3, 9))]
    if kind == "calm":
        # few enough for one piece of text: in several pieces a read may skip a record, which is a gap in reading
        return jobs[: 1 if {"2.14.0", "2.12.9", "2.10.8"} & versions else 2]
    if kind == "crowded" and "2.5.3" in versions:
        return []  # it evicts when anything is counted: let that be while its files are read
    return jobs + list(EQUAL_IDS) if kind == "wild" and rng.random() < 0.3 else jobs


def _event(what: str, rng: random.Random, ticks: int, jobs: list[bytes]) -> list[Step]:
    tick = rng.randrange(3, ticks)
    after = round(rng.uniform(0.5, PERIOD - 1), 3)
    amount = rng.choice((2, 40, 300, 4000))
    if what == "interval":
        amount = rng.choice((80, 120, 240, 0, 1))
    step = Step(tick, after, what, rng.choice(TARGETS), rng.choice(jobs), rng.choice(SERVERS), amount)
    if what == "spool full":  # it takes a while without a network to fill one
        return [step._replace(tick=max(tick - 4, 1), after=0.002, what="network cut"), step]
    if what == "aggregator restored":
        return [step._replace(tick=max(tick - rng.randrange(1, 9), 1), what="backup"), step]
    return [step]


def _cleared_without_a_trace(job: bytes, rng: random.Random) -> list[Step]:
    """Return a job alone on its target that is back, higher than before, within one read of a clear."""
    target = rng.choice(TARGETS)
    op = rng.choice(OST_OPS if "OST" in target else MDT_OPS)
    tick = rng.randrange(3, 9)
    size = rng.randrange(1, 1 << 20)
    return [
        Step(tick, 5.0, "io", target, job, op, size),
        Step(tick + 1, 2.0, rng.choice(("clear", "clear one")), target, job, "s0"),
        Step(tick + 1, 8.0, "io", target, job, op, size, rng.randrange(1, 9)),
        *(Step(tick + later, 7.0, "io", target, job, op, size) for later in range(2, rng.randrange(3, 9))),
    ]


def _life_of(job: bytes, rng: random.Random, ticks: int, cleanup: int, *, kind: str) -> list[Step]:
    """Return what one job does: bursts and pauses, some of them at the edge of being forgotten."""
    steps = []
    end = ticks * PERIOD
    habit = rng.choice(("steady", "bursts", "edge", "equal", "equal", "short"))
    targets = [target for target in TARGETS if rng.random() < 0.75] or [rng.choice(TARGETS)]
    at = rng.uniform(0, end * 0.4)
    until = end if habit != "short" else min(end, at + rng.uniform(5, 90))
    equal = (rng.choice(OST_OPS[:2]), rng.choice(MDT_OPS), rng.randrange(1, 5000))
    while at < until:
        for target in targets:
            ops = OST_OPS if "OST" in target else MDT_OPS
            op = rng.choice(ops)
            amount, count = rng.randrange(1, 1 << 20), rng.choice((1, 1, 3, 40))
            if habit == "equal":
                op, amount, count = (equal[0] if "OST" in target else equal[1]), equal[2], 2
            after = max(round(at % PERIOD, 3), 0.001)
            steps.append(Step(int(at // PERIOD) + 1, after, "io", target, job, op, amount, count))
        if habit == "edge" and kind != "calm":
            at += cleanup * rng.uniform(0.9, 1.6)
        elif habit in {"bursts", "equal"} and rng.random() < 0.4:
            at += cleanup * rng.uniform(2.2, 3.0) + PERIOD  # the oldest servers evict after up to two intervals
        elif habit == "steady":
            at += rng.uniform(1, 15)
        else:
            at += rng.uniform(1, cleanup * 0.4)
    return [step for step in steps if step.tick <= ticks]
