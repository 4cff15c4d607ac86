"""A history of a tree as a list of steps, made from a seed: a site-wide file system, heads of clusters, links."""

import random

from campaign.client_plan import CLIENT_VERSIONS, NO_START, ClientPlan, event_steps, life_of
from campaign.plan import MDT_OPS, PERIOD, SECOND_OST, TARGETS, Step

HEADS = {"vu": "o2ib", "xe": "o2ib2", "dcc": "tcp102"}
"""The clusters of lustreHarvest's own example, each with its network."""
SITE = "site"
"""Where all happens that does not happen to a head."""
NOBODYS = b"10.9.0.1@tcp"
"""A node of no cluster."""
STARTING = tuple(version for version in CLIENT_VERSIONS if version not in NO_START)
"""Servers that say when counters began: of them every total is certain, so that whatever differs is the relays'."""
BENEATH_EVENTS = (
    *("remount", "remount in pass", "failover", "exports cleared", "zeroed", "forgotten", "client leaves"),
    *("client returns", "reboot", "crash", "agent restart", "network cut", "state lost", "spool full"),
)
SITE_EVENTS = ("aggregator restart", "site down", "aggregator restored")
HEAD_EVENTS = (
    *("head killed", "head killed in call", "head restored", "link cut", "call delayed", "call twice", "answer lost"),
)
COME_ABOUT = ("call overtaken", "lower totals held", "nothing shown")
"""What nobody plans: a call comes behind a later one, a sender knows less than the head, rates are too old."""
BACKUP = "head backup"
_TICKS_AWAY = (0, 0, 1, 2, 4, 6)
"""For so many ticks something is away; after more than three periods of clients nothing is shown."""


def nids_of(head: str, count: int) -> list[bytes]:
    """Return nodes of a cluster."""
    number = list(HEADS).index(head) + 1
    return [b"10.%d.0.%d@%s" % (number, node, HEADS[head].encode()) for node in range(1, count + 1)]


def make_relay_plan(seed: int) -> ClientPlan:
    """Return the history of a seed: every head meets every event in turn."""
    rng = random.Random(f"relays {seed}")
    version = STARTING[seed % len(STARTING)]
    ticks = rng.randrange(14, 23)
    targets = (*TARGETS, SECOND_OST) if rng.random() < 0.3 else TARGETS
    clusters = {head: nids_of(head, rng.choice((1, 1, 2, 3))) for head in HEADS}
    nids = [nid for some in clusters.values() for nid in some]
    steps = [step for nid in (*nids, NOBODYS) for step in life_of(nid, rng, ticks, targets)]
    for some in clusters.values():  # of work that never ceases an outage makes a spike, if anything does
        steps += steady(some[0], rng, ticks)
    beneath = [BENEATH_EVENTS[(seed * 3 + n) % len(BENEATH_EVENTS)] for n in range(3)]
    beneath += [SITE_EVENTS[(seed + n) % len(SITE_EVENTS)] for n in range(2)]
    beneath += ["segments gone"] if seed % 5 == 0 else []  # seldom: then only heads have what nobody else has any more
    steps += [step for what in beneath for step in _beneath(what, rng, ticks, nids, targets)]
    for number, head in enumerate(HEADS):
        happens = [HEAD_EVENTS[(seed * 3 + number + n) % len(HEAD_EVENTS)] for n in range(3)]
        happens += rng.choices(HEAD_EVENTS, k=2)
        steps += [step for what in happens for step in _at_head(what, head, rng, ticks)]
    return ClientPlan(
        seed=seed,
        versions=(version, rng.choice(STARTING)),
        cleanup_seconds=600,
        ticks=ticks,
        targets=targets,
        part_records=rng.choice((1, 8192, 8192)),
        calm=False,
        steps=tuple(sorted(steps)),
        interval_seconds=rng.choice((1, 1, 2, 3)) * PERIOD,
    )


def steady(nid: bytes, rng: random.Random, ticks: int) -> list[Step]:
    """Return a node that does about as much in every period."""
    size = rng.randrange(1 << 16, 1 << 20)
    op = rng.choice(("write", "read"))
    found = [Step(1, 0.05, "connect", TARGETS[0], nid)]
    for tick in range(1, ticks + 1):
        for part in range(2):
            after = round(part * PERIOD / 2 + rng.uniform(0.1, PERIOD / 2 - 0.2), 3)
            found.append(Step(tick, after, "io", TARGETS[0], nid, op, size + rng.randrange(1000), 3))
            found.append(Step(tick, after, "io", TARGETS[1], nid, rng.choice(MDT_OPS), 7, 5))
    return found


def _beneath(what: str, rng: random.Random, ticks: int, nids: list[bytes], targets: tuple[str, ...]) -> list[Step]:
    if what != "site down":
        return event_steps(what, rng, ticks, nids, targets)
    return [Step(rng.randrange(3, ticks), rng.uniform(0.5, PERIOD - 1), what, amount=rng.choice(_TICKS_AWAY))]


def _at_head(what: str, head: str, rng: random.Random, ticks: int) -> list[Step]:
    tick = rng.randrange(3, ticks)
    step = Step(tick, rng.uniform(0.5, PERIOD - 1), what, head, amount=rng.choice(_TICKS_AWAY), times=rng.randrange(2))
    if what == "head restored":
        return [step._replace(tick=max(tick - rng.randrange(1, 9), 2), after=0.1, what=BACKUP), step]
    return [step]
