"""A history as a list of steps, made from a seed; a step that cannot happen when its time comes is passed over."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

PERIOD = 20
"""Seconds between sweeps."""
EPOCH = 1_760_000_000
"""When histories begin, in seconds of a clock that is right; a multiple of the period."""
NO_START = ("2.4.3", "2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.16.1 no header")
"""Servers that do not say when a record began."""
WITH_START = ("2.15.0", "2.15.8", "2.16.1", "2.17.0")
VERSIONS = (*NO_START, *WITH_START)
QUESTION_MARKS = ("2.10.8", "2.12.9", "2.14.0", "2.15.0")
SWITCHABLE = ("2.16.1", "2.17.0", "2.16.1 no header")
"""Servers on which enable_stats_header can be switched."""
SKIPPING = ("2.4.3", "2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.15.0", "2.15.8")
RARELY_SKIPPING = ("2.7.0", "2.14.0", "2.15.0", "2.15.8")
"""Those on which only few of the histories made for it come to a skipped record."""
POSSIBLE = {"lonely": NO_START, "cleared": NO_START, "crowded": SKIPPING, "alike": QUESTION_MARKS}
"""Kinds of histories that mean something on some versions only."""
TARGETS = ("fs-OST0000", "fs-MDT0000")
SECOND_OST = "fs-OST0001"
"""In some histories, on the server of the first."""
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
    site: str = ""
    """Where, if there are several sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is needed to play a history again."""

    seed: int
    versions: tuple[str, str]
    cleanup_seconds: int
    ticks: int
    targets: tuple[str, ...]
    part_records: int
    """Of one message; a read has as many as it needs."""
    calm: bool
    """No gap in reading, no clear, no equal ids, and nobody idle near the interval: nothing may be flagged."""
    parked_every: int = 0
    """Records that are gone leave the accounting after every so many sweeps, as early as may be; 0: never."""
    steps: tuple[Step, ...] = field(repr=False)


LUSTRE_EVENTS = (
    *("clear", "clear one", "remount", "failover", "reboot", "crash", "clock forward", "clock back"),
    *("interval", "last_rcvd deleted", "cut read", "bad line", "skip", "header switched"),
)
HARVEST_EVENTS = (
    *("agent restart", "agent stop", "agent long stop", "state lost", "network cut", "duplicate"),
    *("aggregator restart", "aggregator restored", "segments gone", "spool full"),
)
EVENTS = (*LUSTRE_EVENTS, *HARVEST_EVENTS)
CALM_EVENTS = ("duplicate", "network cut", "remount", "failover", "reboot")
"""Where there is no instance, before 2.5.3, a remount is one more clear."""


def make_plan(seed: int) -> Plan:
    """Return the history of a seed: every version meets every event in turn."""
    rng = random.Random(seed)
    version = VERSIONS[seed % len(VERSIONS)]
    kinds = {"wild": 80, "calm": 9, "lonely": 20, "cleared": 7, "alike": 8, "spoilt": 20, "full": 8}
    kinds["crowded"] = 30 if version in RARELY_SKIPPING else 16
    [kind] = rng.choices(list(kinds), list(kinds.values()))
    if version not in POSSIBLE.get(kind, VERSIONS):
        kind = "wild"
    other = version if kind in {"lonely", "crowded"} or rng.random() < 0.7 else rng.choice(VERSIONS)
    cleanup = rng.choice((100, 120, 120, 120, 160, 61))
    ticks = rng.randrange(18, 45)
    jobs = _jobs(kind, {version, other}, rng)
    targets = (*TARGETS, SECOND_OST) if rng.random() < 0.15 else TARGETS
    steps = [step for job in jobs for step in _life_of(job, rng, ticks, cleanup, kind=kind, targets=targets)]
    if kind in {"wild", "alike"}:
        turn = seed // len(VERSIONS)
        scheduled = [EVENTS[(turn * 6 + n) % len(EVENTS)] for n in range(6)]
        scheduled += rng.choices(EVENTS, k=rng.randrange(4))
        if {version, other} & set(NO_START):  # what a bad line hid may have begun again: of that nobody keeps account
            scheduled = [what for what in scheduled if what != "bad line"]
        steps += [step for what in scheduled for step in _event(what, rng, ticks, jobs, targets)]
    elif kind == "calm":
        possible = [what for what in CALM_EVENTS if what != "remount" or "2.4.3" not in {version, other}]
        steps += _event(rng.choice(possible), rng, ticks, jobs, targets) if rng.random() < 0.7 else []
    elif kind == "lonely":
        steps = _cleared_without_a_trace(jobs[0], rng)
    elif kind == "full":
        steps = _spool_fills(jobs[:2], rng, ticks)
    elif kind == "spoilt":
        steps += [step for _ in range(3) for step in _event("bad line", rng, ticks, jobs, targets)]
    elif kind == "cleared":
        steps += _cleared_now_and_then(jobs, rng, ticks)
    else:
        steps += [Step(tick, 1.0, "skip", target) for tick in range(2, ticks) for target in targets]
    return Plan(
        seed=seed,
        versions=(version, other),
        cleanup_seconds=cleanup,
        ticks=ticks,
        targets=targets,
        part_records=rng.choice((1, 2, 8192, 8192, 8192)),
        calm=kind == "calm",
        parked_every=(0, 1, 1, 2, 7)[seed // len(VERSIONS) % 5],
        steps=tuple(sorted(steps)),
    )


def _jobs(kind: str, versions: set[str], rng: random.Random) -> list[bytes]:
    jobs = [str(4710 + n).encode() for n in range(rng.randrange(3, 9))]
    if kind in {"calm", "spoilt"}:
        # without order, which is not known before 2.5.3, only a read in one piece proves that somebody is absent
        return [b"steady", *jobs[: 1 if "2.4.3" in versions else None]]
    if kind == "crowded" and "2.5.3" in versions:
        return []  # it evicts when anything is counted: let that be while its files are read
    if kind == "alike":
        return jobs[:3] + list(EQUAL_IDS)
    return jobs + list(EQUAL_IDS) if kind == "wild" and rng.random() < 0.3 else jobs


def _event(what: str, rng: random.Random, ticks: int, jobs: list[bytes], targets: tuple[str, ...]) -> list[Step]:
    tick = rng.randrange(3, ticks)
    after = round(rng.uniform(0.5, PERIOD - 1), 3)
    amount = rng.choice((2, 40, 300, 4000))
    if what == "interval":
        amount = rng.choice((80, 120, 240, 0, 1))
    step = Step(tick, after, what, rng.choice(targets), rng.choice(jobs), rng.choice(SERVERS), amount)
    if what == "spool full":  # it takes a while without a network to fill one
        return [step._replace(tick=max(tick - 4, 1), after=0.002, what="network cut"), step]
    if what in {"aggregator restored", "segments gone"}:
        return [step._replace(tick=max(tick - rng.randrange(1, 9), 1), what="backup"), step]
    return [step]


def _spool_fills(jobs: list[bytes], rng: random.Random, ticks: int) -> list[Step]:
    """Return busy jobs whose spool fills while there is no network: most of their values can go."""
    steps = [
        Step(tick, 5.0 + number, "io", target, job, rng.choice(OST_OPS if "OST" in target else MDT_OPS), 1 << 12)
        for tick in range(1, ticks)
        for number, job in enumerate(jobs)
        for target in TARGETS
        if rng.random() < 0.9
    ]
    for tick in range(rng.randrange(2, 5), ticks - 8, 12):
        for server in SERVERS:
            steps += [Step(tick + later, 0.002, "network cut", op=server) for later in (0, 3)]
            steps.append(Step(tick + 6, 1.0, "spool full", op=server))
    return steps


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


def _cleared_now_and_then(jobs: list[bytes], rng: random.Random, ticks: int) -> list[Step]:
    """Return clears after which most jobs are back soon, often in their old order and with more than before.

    Reads are cut short around them, and jobs that were away or are new may come first.
    """
    steps = []
    for tick in range(rng.randrange(4, 8), ticks - 2, rng.randrange(3, 9)):
        target = rng.choice(TARGETS)
        steps.append(Step(tick, 2.0, rng.choice(("clear", "clear", "clear one")), target, rng.choice(jobs), "s0"))
        steps += [Step(tick + later, 19.0, "cut read", target) for later in (-1, 0, 0, 1) if rng.random() < 0.3]
        back = [job for job in jobs if rng.random() < 0.8]
        if rng.random() < 0.4:
            rng.shuffle(back)
        if rng.random() < 0.3:
            back.insert(0, b"first%d" % tick)
        for number, job in enumerate(back):
            for op in OST_OPS if "OST" in target else MDT_OPS:
                steps.append(Step(tick, 3.0 + number / 10, "io", target, job, op, 1 << 20, rng.choice((1, 90))))
    return steps


def _life_of(
    job: bytes, rng: random.Random, ticks: int, cleanup: int, *, kind: str, targets: tuple[str, ...]
) -> list[Step]:
    """Return what one job does: bursts and pauses, some of them at the edge of being forgotten."""
    steps = []
    end = ticks * PERIOD
    habit = rng.choice(("steady", "bursts", "edge", "equal", "equal", "short"))
    used = [target for target in targets if rng.random() < 0.75] or [rng.choice(targets)]
    at = rng.uniform(0, end * 0.4)
    if job == b"steady":  # there from the start: the oldest servers evict only where something is counted
        habit, used, at = "steady", list(targets), 0.0
    until = end if habit != "short" else min(end, at + rng.uniform(5, 90))
    equal = (rng.choice(OST_OPS[:2]), rng.choice(MDT_OPS), rng.randrange(1, 5000))
    while at < until:
        for target in used:
            ops = OST_OPS if "OST" in target else MDT_OPS
            op = rng.choice(ops)
            amount, count = rng.randrange(1, 1 << 20), rng.choice((1, 1, 3, 40))
            if habit == "equal":
                op, amount, count = (equal[0] if "OST" in target else equal[1]), equal[2], 2
            after = max(round(at % PERIOD, 3), 0.001)
            steps.append(Step(int(at // PERIOD) + 1, after, "io", target, job, op, amount, count))
        if habit == "edge" and kind not in {"calm", "spoilt"}:
            at += cleanup * rng.uniform(0.9, 1.6)
        elif habit in {"bursts", "equal"} and rng.random() < 0.4:
            at += cleanup * rng.uniform(2.2, 3.0) + PERIOD  # the oldest servers evict after up to two intervals
        elif habit == "steady":
            at += rng.uniform(1, 15)
        else:
            at += rng.uniform(1, cleanup * 0.4)
    return [step for step in steps if step.tick <= ticks]
