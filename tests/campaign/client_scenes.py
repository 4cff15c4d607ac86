"""Scenes with clients that chance alone hardly comes to: each knows when the agents read what."""

import random

from campaign.plan import MDT_OPS, PERIOD, SERVERS, TARGETS, Step

_COUNTING_CONNECTS = ("2.4.3", "2.5.3", "2.7.0", "2.10.8")
_SPREAD = 0.8
"""Of a period, in which the files of a pass are read: one after the other, sorted by NID."""


def cleared_without_a_trace(version: str, nids: list[bytes], rng: random.Random) -> list[Step]:
    """Return clients who are all back, higher than before, within one pass of a clear."""
    target = _without_connects(version, rng)
    op = "write" if "OST" in target else rng.choice(MDT_OPS)
    tick = rng.randrange(3, 7)
    size = rng.randrange(1, 1 << 20)
    every = [Step(1, 0.5, "connect", target, nid) for nid in nids]
    for nid in nids:
        every += [
            Step(tick, 1.0, "io", target, nid, op, size),
            # passes begin at the tick and are over after 16 seconds
            Step(tick + 1, 18.2, "io", target, nid, op, size, rng.randrange(1, 9)),
            *(Step(tick + later, 7.0, "io", target, nid, op, size) for later in range(2, rng.randrange(3, 9))),
        ]
    return [*every, Step(tick + 1, 18.0, "exports cleared", target, nids[0], "s0")]


def cleared_midway(rng: random.Random, ticks: int) -> list[Step]:
    """Return clears in the midst of passes: some clients fall, others do more than before, at once or a while later."""
    target = rng.choice(TARGETS)
    server = SERVERS[TARGETS.index(target)]
    op = "write" if "OST" in target else "open"
    nids = [b"10.0.2.%d@tcp" % number for number in range(1, rng.randrange(4, 9))]
    steps = [Step(1, 0.5, "connect", target, nid) for nid in nids]
    steps += [Step(2, 1.0, "io", target, nid, op, 1000, 3) for nid in nids]
    for tick in range(5, ticks, 7):
        at = tick * PERIOD + rng.uniform(0, 2.5 * PERIOD)
        steps.append(_at(at, rng.choice(("exports cleared", "exports cleared", "zeroed")), target, rng.choice(nids)))
        for nid in nids:
            after = at + rng.choice((0.1, 15, 30, 60, 100))
            times = rng.choice((0, 0, 1, tick * 4))
            steps += [_at(after + later, "io", target, nid, op, 1000, times) for later in (0, 25, 50) if times]
    if rng.random() < 0.5:
        tick = rng.randrange(8, ticks)
        cuts = [Step(max(tick - back, 1), 0.002, "network cut", target, nids[0], server) for back in (9, 6, 3)]
        steps += [*cuts, Step(tick, 3.0, "spool full", target, nids[0], server)]
    return [step for step in steps if step.tick <= ticks]


def cleared_under_way(version: str, interval_seconds: int, rng: random.Random, ticks: int) -> list[Step]:
    """Return a clear between the files of a pass, after which no other pass shows anybody lower.

    Whoever was read before it is back, higher than before, in the pass after this one; or in one that comes after a
    pass in which nothing was read, because the target counted nothing. Some passes are merged before they are sent,
    from that with the clear on, or from the one before.
    """
    target = _without_connects(version, rng)
    server = SERVERS[TARGETS.index(target)]
    op = "write" if "OST" in target else "open"
    nids = [b"10.0.2.%d@tcp" % number for number in range(1, rng.randrange(4, 9))]
    begins = PERIOD + rng.randrange(2, 4) * interval_seconds  # the first pass begins with the first sweep
    back = begins + interval_seconds * rng.choice((_SPREAD, 2, 3)) + 1.5
    later = [back + interval_seconds * number + rng.uniform(0, PERIOD) for number in range(1, 4)]
    steps = [_at(begins + interval_seconds * _SPREAD * rng.uniform(0.3, 0.9), "exports cleared", target, nids[0])]
    for nid in nids:
        steps += [
            Step(1, 0.5, "connect", target, nid),
            Step(2, 1.0, "io", target, nid, op, 1000, 3),
            _at(begins - 1, "io", target, nid, op, 1000),
            _at(back, "io", target, nid, op, 1000, rng.randrange(5, 40)),
            *(_at(at, "io", target, nid, op, 1000) for at in later if rng.random() < 0.5),
        ]
    if rng.random() < 0.6:
        first = begins - interval_seconds * rng.randrange(2)
        full = round(back + 2 * interval_seconds)
        steps += [_at(at + 0.002, "network cut", target, nids[0], server) for at in range(first, full, 3 * PERIOD)]
        steps.append(_at(full, "spool full", target, nids[0], server))
    return [step for step in steps if step.tick <= ticks]


def away_and_back(nids: list[bytes], rng: random.Random) -> list[Step]:
    """Return a target that is elsewhere for a while; when it is back, some clients come to the same numbers again."""
    target = rng.choice(TARGETS)
    op = "write" if "OST" in target else "open"
    steps = [Step(1, 0.5, "connect", target, nid) for nid in nids]
    for nid in nids:
        did = Step(3, 1.0, "io", target, nid, op, 1000, rng.randrange(1, 9))
        again = did.times + rng.choice((0, 0, 1))
        steps += [did, did._replace(tick=9, times=again), did._replace(tick=rng.randrange(10, 19))]
    return [*steps, Step(7, 5.0, "failover", target, nids[0]), Step(8, rng.choice((5.0, 19.0)), "failback", target)]


def _without_connects(version: str, rng: random.Random) -> str:
    """Return a target on which servers that do nothing are not cleared visibly: old OSTs count who connects (§3)."""
    return TARGETS[1] if version in _COUNTING_CONNECTS else rng.choice(TARGETS)


def _at(seconds: float, what: str, target: str, nid: bytes, op: str = "", amount: int = 0, times: int = 1) -> Step:
    after = max(round(seconds % PERIOD, 3), 0.001)
    return Step(int(seconds // PERIOD) + 1, after, what, target, nid, op, amount, times)
