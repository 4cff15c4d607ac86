"""A history as a list of steps, made from a seed; a step that cannot happen when its time comes is passed over."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

PERIOD = 20
"""Seconds between sweeps."""
VERSIONS = ("2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.15.0", "2.15.8", "2.16.1", "2.17.0", "2.16.1 no header")
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
    count: int = 1


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
    *("interval", "last_rcvd deleted", "cut read", "skip"),
)
HARVEST_EVENTS = (
    *("agent restart", "agent stop", "agent long stop", "state lost", "network cut", "duplicate"),
    *("aggregator restart", "aggregator restored", "spool full"),
)


def make_plan(seed: int) -> Plan:
    """Return the history of a seed."""
    rng = random.Random(seed)
    version = VERSIONS[seed % len(VERSIONS)]
    other = version if rng.random() < 0.7 else rng.choice(VERSIONS)
    cleanup = rng.choice((100, 120, 120, 120, 160, 61))
    ticks = rng.randrange(18, 45)
    calm = rng.random() < 0.15
    steps: list[Step] = []
    jobs = [str(4710 + n).encode() for n in range(rng.randrange(3, 9))]
    if calm:  # few enough for one piece of text: in several pieces a read may skip a record, which is a gap in reading
        jobs = jobs[: 1 if "2.14.0" in (version, other) else 3]
    if not calm and rng.random() < 0.25:
        jobs += EQUAL_IDS
    for job in jobs:
        steps += _life_of(job, rng, ticks, cleanup, calm=calm)
    if not calm:
        for events, most in ((LUSTRE_EVENTS, 4), (HARVEST_EVENTS, 4)):
            steps += [_event(rng.choice(events), rng, ticks, jobs) for _ in range(rng.randrange(most))]
    elif rng.random() < 0.7:
        steps += [_event(rng.choice(("duplicate", "network cut", "remount", "failover", "reboot")), rng, ticks, jobs)]
    return Plan(
        seed=seed,
        versions=(version, other),
        cleanup_seconds=cleanup,
        ticks=ticks,
        calm=calm,
        steps=tuple(sorted(steps)),
    )


def _event(what: str, rng: random.Random, ticks: int, jobs: list[bytes]) -> Step:
    tick = rng.randrange(2, ticks)
    after = round(rng.uniform(0.5, PERIOD - 1), 3)
    amount = {"interval": rng.choice((80, 120, 240, 0, 1)), "clock back": rng.choice((3, 50, 4000))}.get(
        what, rng.choice((2, 40, 300, 4000))
    )
    return Step(tick, after, what, rng.choice(TARGETS), rng.choice(jobs), rng.choice(SERVERS), amount)


def _life_of(job: bytes, rng: random.Random, ticks: int, cleanup: int, *, calm: bool) -> list[Step]:
    """Return what one job does: bursts and pauses, some of them at the edge of being forgotten."""
    steps = []
    end = ticks * PERIOD
    kind = rng.choice(("steady", "bursts", "edge", "equal", "equal", "short"))
    targets = [target for target in TARGETS if rng.random() < 0.75] or [rng.choice(TARGETS)]
    at = rng.uniform(0, end * 0.4)
    until = end if kind != "short" else min(end, at + rng.uniform(5, 90))
    equal = (rng.choice(OST_OPS[:2]), rng.choice(MDT_OPS), rng.randrange(1, 5000))
    while at < until:
        for target in targets:
            ops = OST_OPS if "OST" in target else MDT_OPS
            op = rng.choice(ops)
            amount, count = rng.randrange(1, 1 << 20), rng.choice((1, 1, 3, 40))
            if kind == "equal":
                op, amount, count = (equal[0] if "OST" in target else equal[1]), equal[2], 2
            steps.append(Step(int(at // PERIOD) + 1, round(at % PERIOD, 3), "io", target, job, op, amount, count))
        if kind == "edge" and not calm:
            at += cleanup * rng.uniform(0.9, 1.6)
        elif kind in {"bursts", "equal"} and rng.random() < 0.4:
            at += cleanup * rng.uniform(2.2, 3.0)
        elif kind == "steady":
            at += rng.uniform(1, 15)
        else:
            at += rng.uniform(1, cleanup * 0.4)
    return [step for step in steps if step.tick <= ticks]
