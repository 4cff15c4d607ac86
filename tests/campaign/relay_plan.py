"""A history of a tree as a list of steps, made from a seed: file systems, who relays them where, heads, links."""

import random

from campaign.client_plan import CLIENT_VERSIONS, NO_START, ClientPlan, event_steps, life_of
from campaign.plan import MDT_OPS, PERIOD, SECOND_OST, SERVERS, Step

_Sent = dict[str, dict[str, tuple[str, ...]]]
HEADS = {"vu": "o2ib", "xe": "o2ib2", "dcc": "tcp102"}
"""The clusters of lustreHarvest's own example, each with its network."""
RELAYS: _Sent = {
    "alkindi": {"vu": ("fs", "gd"), "xe": ("fs", "gd"), "dcc": ("fs",)},
    "raijin": {"dcc": ("gd",), "vu": ("gd",)},
}
"""Which site sends which file systems to which head. Three sites have one of the same name, each another."""
ACCEPTS: _Sent = {
    "vu": {"alkindi": ("fs", "gd")},
    "xe": {"alkindi": ("fs",)},
    "dcc": {"alkindi": ("fs",), "raijin": ("gd",)},
}
"""And of whom each head takes them: two of the relays are a mistake."""
FILESYSTEMS: dict[str, tuple[str, ...]] = {"alkindi": ("fs", "gd"), "raijin": ("gd",), "xe": ("gd",)}
"""Sites with servers: those that relay, and a head that has a file system of its own beside."""
SITE = "site"
"""Where all happens that does not happen to a head."""
NOBODYS = b"10.9.0.1@tcp"
"""A node of no cluster."""
STARTING = tuple(version for version in CLIENT_VERSIONS if version not in NO_START)
"""Servers that say when counters began: of them every total is certain, so that whatever differs is the relays'."""
STILL_EVENTS = ("agent stopped", "agent killed")
"""It goes on after a while, as if nothing had been; or begins anew."""
BENEATH_EVENTS = (
    *("remount", "remount in pass", "failover", "exports cleared", "zeroed", "forgotten", "client leaves"),
    *("client returns", "reboot", "crash", "agent restart", "network cut", "state lost", "spool full"),
    *STILL_EVENTS,
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
_SECONDS_STILL = (15, 45, 90, 150)


def nids_of(head: str, count: int) -> list[bytes]:
    """Return nodes of a cluster."""
    number = list(HEADS).index(head) + 1
    return [b"10.%d.0.%d@%s" % (number, node, HEADS[head].encode()) for node in range(1, count + 1)]


def targets_of(site: str) -> tuple[str, ...]:
    """Return the targets of all file systems of a site."""
    return tuple(f"{name}-{kind}0000" for name in FILESYSTEMS[site] for kind in ("OST", "MDT"))


def make_relay_plan(seed: int) -> ClientPlan:
    """Return the history of a seed: every head meets every event in turn."""
    rng = random.Random(f"relays {seed}")
    version = STARTING[seed % len(STARTING)]
    ticks = rng.randrange(14, 21)
    second_ost = (SECOND_OST,) if rng.random() < 0.3 else ()
    steps = [step for site in FILESYSTEMS for step in _at_site(site, seed, rng, ticks, second_ost)]
    for number, head in enumerate(HEADS):
        happens = [HEAD_EVENTS[(seed * 3 + number + n) % len(HEAD_EVENTS)] for n in range(3)]
        happens += rng.choices(HEAD_EVENTS, k=2)
        steps += [step for what in happens for step in _at_head(what, head, rng, ticks)]
    return ClientPlan(
        seed=seed,
        versions=(version, rng.choice(STARTING)),
        cleanup_seconds=600,
        ticks=ticks,
        targets=second_ost,
        part_records=rng.choice((1, 8192, 8192)),
        calm=False,
        steps=tuple(sorted(steps)),
        interval_seconds=rng.choice((1, 1, 2, 3)) * PERIOD,
    )


def _at_site(site: str, seed: int, rng: random.Random, ticks: int, second_ost: tuple[str, ...]) -> list[Step]:
    """Return what nodes do on a site's file systems, and what happens to its servers, agents and aggregator."""
    targets, steps = targets_of(site), []
    number = list(FILESYSTEMS).index(site)
    for name in FILESYSTEMS[site]:
        is_main = name == "fs"
        clusters = {head: nids_of(head, rng.choice((1, 1, 2, 3)) if is_main else 1) for head in HEADS}
        mine = tuple(target for target in (*targets, *second_ost) if target.startswith(name))
        nids = [nid for some in clusters.values() for nid in some]
        for nid in (*nids, *((NOBODYS,) if is_main else ())):
            steps += life_of(nid, rng, ticks, mine)
        # of work that never ceases an outage makes a spike, if anything does
        for head in HEADS if is_main else (list(HEADS)[number],):
            steps += steady(nids_of(head, 1)[0], rng, ticks, name)
    happens = [BENEATH_EVENTS[(seed * 3 + number * 5 + n) % len(BENEATH_EVENTS)] for n in range(1 if number else 3)]
    if site in RELAYS:
        happens += [SITE_EVENTS[(seed + n) % len(SITE_EVENTS)] for n in range(1 if number else 2)]
        happens += ["segments gone"] if seed % 5 == number else []  # seldom: then only heads have what is lost
    nodes = [nid for head in HEADS for nid in nids_of(head, 1)]
    if site == "alkindi" and second_ost:
        targets += second_ost
    steps += [step for what in happens for step in _beneath(what, rng, ticks, nodes, targets)]
    return [step._replace(site=site) for step in steps]


def steady(nid: bytes, rng: random.Random, ticks: int, filesystem: str = "fs") -> list[Step]:
    """Return a node that does about as much in every period."""
    size = rng.randrange(1 << 16, 1 << 20)
    op = rng.choice(("write", "read"))
    ost, mdt = f"{filesystem}-OST0000", f"{filesystem}-MDT0000"
    found = [Step(1, 0.05, "connect", ost, nid)]
    for tick in range(1, ticks + 1):
        for part in range(2):
            after = round(part * PERIOD / 2 + rng.uniform(0.1, PERIOD / 2 - 0.2), 3)
            found.append(Step(tick, after, "io", ost, nid, op, size + rng.randrange(1000), 3))
            found.append(Step(tick, after, "io", mdt, nid, rng.choice(MDT_OPS), 7, 5))
    return found


def _beneath(what: str, rng: random.Random, ticks: int, nids: list[bytes], targets: tuple[str, ...]) -> list[Step]:
    if what == "site down":
        return [Step(rng.randrange(3, ticks), rng.uniform(0.5, PERIOD - 1), what, amount=rng.choice(_TICKS_AWAY))]
    if what in STILL_EVENTS:
        amount = rng.choice(_SECONDS_STILL) + rng.randrange(-10, 20)
        return [
            Step(rng.randrange(3, ticks), rng.uniform(0.5, PERIOD - 1), what, op=rng.choice(SERVERS), amount=amount)
        ]
    steps = event_steps(what, rng, ticks, nids, targets)
    if what == "aggregator restored" and rng.random() < 0.7:  # one of its agents cannot send again what it has
        steps.append(steps[-1]._replace(after=0.3, what="network cut", op=rng.choice(SERVERS)))
    return steps


def _at_head(what: str, head: str, rng: random.Random, ticks: int) -> list[Step]:
    tick = rng.randrange(3, ticks)
    step = Step(tick, rng.uniform(0.5, PERIOD - 1), what, head, amount=rng.choice(_TICKS_AWAY), times=rng.randrange(2))
    if what == "head restored":
        return [step._replace(tick=max(tick - rng.randrange(1, 9), 2), after=0.1, what=BACKUP), step]
    return [step]
