"""A history of clients as a list of steps, made from a seed."""

import random
from dataclasses import dataclass

from campaign import client_scenes
from campaign.plan import MDT_OPS, PERIOD, SECOND_OST, SERVERS, TARGETS, VERSIONS, Plan, Step

NO_START = ("2.4.3", "2.5.3", "2.7.0", "2.10.8", "2.12.9", "2.14.0", "2.15.0")
"""Servers that do not say when a client's counters began; 2.15.0 says that it was at 0."""
CLIENT_VERSIONS = tuple(version for version in VERSIONS if " " not in version)
LUSTRE_EVENTS = (
    *("exports cleared", "zeroed", "forgotten", "client leaves", "client returns", "remount", "remount in pass"),
    *("failover", "failback", "reboot", "crash", "clock forward", "clock back", "bad line"),
)
HARVEST_EVENTS = (
    *("agent restart", "agent stop", "state lost", "network cut", "duplicate", "reordered", "switched off"),
    *("aggregator restart", "aggregator restored", "segments gone", "older segments gone", "spool full"),
)
CLIENT_EVENTS = (*LUSTRE_EVENTS, *HARVEST_EVENTS)
RARE = ("remount in pass", "failback", "duplicate", "duplicate", "duplicate", "spool full", "spool full", "reordered")
"""Events that often come to nothing: the file is not read just then, nothing was sent…"""
_BEFORE = {
    "client returns": ("client leaves", 5),
    "failback": ("failover", 5),
    "aggregator restored": ("backup", 9),
    "segments gone": ("backup", 9),
}
"""What must have happened before, and how many ticks earlier at most."""
RESETS = frozenset({"exports cleared", "zeroed", "forgotten"})
REMOUNTS = frozenset({"remount", "remount in pass", "failover", "failback"})
"""Before 2.5.3, where nothing tells two mounts on one boot of a server apart, these are as good as a clear."""
CALM_EVENTS = tuple(event for event in CLIENT_EVENTS if event not in RESETS | REMOUNTS)
_KINDS = {"wild": 26, "calm": 5, "spoilt": 5, "cleared": 5, "full": 7}
"""Kinds of histories, and how many there are in seventy."""
_SCENES = {"midway": 7, "lonely": 4, "under way": 8, "away": 3}
"""Likewise, of servers that do not say when counters began; of others there are so many more wild ones."""
OST_OPS = ("write", "write", "read", "punch", "setattr", "statfs", "ping")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan(Plan):
    """All that is needed to play a history of clients again."""

    interval_seconds: int
    """The period of clients."""


def make_client_plan(seed: int) -> ClientPlan:
    """Return the history of a seed: every version meets every event in turn."""
    rng = random.Random(f"clients {seed}")
    version = CLIENT_VERSIONS[seed % len(CLIENT_VERSIONS)]
    kind, turn = _kind(version, seed // len(CLIENT_VERSIONS))
    is_alike = kind in {"lonely", "full", "under way", "away"}
    other = version if is_alike or rng.random() < 0.7 else rng.choice(CLIENT_VERSIONS)
    ticks = rng.randrange(14, 25)
    nids = [b"10.0.2.%d@tcp" % number for number in range(1, rng.randrange(2, 7))]
    targets = (*TARGETS, SECOND_OST) if rng.random() < 0.15 else TARGETS
    steps = [step for nid in nids for step in life_of(nid, rng, ticks, targets)]
    scheduled: list[str] = []
    if kind == "wild":
        scheduled = [CLIENT_EVENTS[(turn * 8 + n) % len(CLIENT_EVENTS)] for n in range(8)]
        scheduled += rng.choices(RARE, k=2)
        if {version, other} & set(NO_START):  # what a bad line hid may have begun again: of that nobody keeps account
            scheduled = [what for what in scheduled if what != "bad line"]
    elif kind in {"calm", "spoilt"}:
        scheduled = rng.choices(CALM_EVENTS if kind == "calm" else ["bad line"], k=4)
    elif kind == "cleared":
        scheduled = rng.choices(sorted(RESETS), k=rng.randrange(2, 5)) + ["failback"] * (version == "2.4.3")
    elif kind == "full":
        scheduled = ["spool full"] * 2
        steps += [step for nid in nids for tick in range(3, ticks) for step in _burst(tick, 5.0, TARGETS[0], nid, rng)]
    steps += [step for what in scheduled for step in event_steps(what, rng, ticks, nids, targets)]
    interval_seconds = PERIOD if kind in {"lonely", "full"} else rng.choice((1, 2, 2, 3)) * PERIOD
    if kind == "midway":
        steps = client_scenes.cleared_midway(rng, ticks)
    if kind == "lonely":
        steps = client_scenes.cleared_without_a_trace(version, nids, rng)
    if kind == "under way":
        steps = client_scenes.cleared_under_way(version, interval_seconds, rng, ticks)
    if kind == "away":
        steps = client_scenes.away_and_back(nids, rng)
    return ClientPlan(
        seed=seed,
        versions=(version, other),
        cleanup_seconds=600,
        ticks=ticks,
        targets=targets,
        part_records=rng.choice((1, 2, 8192, 8192, 8192)),
        calm=_is_calm({step.what for step in steps}, {version, other}),
        steps=tuple(sorted(steps)),
        interval_seconds=interval_seconds,
    )


def _kind(version: str, turn: int) -> tuple[str, int]:
    """Return the kind of a history, and how many of it this version had before: it meets all, in its own order."""
    kinds = _KINDS | (_SCENES if version in NO_START else {"wild": _KINDS["wild"] + sum(_SCENES.values())})
    cards = random.Random(version).sample(list(kinds), counts=kinds.values(), k=sum(kinds.values()))
    rounds, place = divmod(turn, len(cards))
    kind = cards[place]
    return kind, rounds * kinds[kind] + cards[:place].count(kind)


def _is_calm(happenings: set[str], versions: set[str]) -> bool:
    """Tell whether nothing is cleared, zeroed or removed: then nothing may be flagged."""
    return not happenings & (RESETS | (REMOUNTS if "2.4.3" in versions else set()))


def event_steps(  # noqa: PLR0911 - one for each kind of event
    what: str, rng: random.Random, ticks: int, nids: list[bytes], targets: tuple[str, ...]
) -> list[Step]:
    """Return an event, and what must come before or after it to mean something."""
    tick = rng.randrange(3, ticks)
    after = round(rng.uniform(0.5, PERIOD - 1), 3)
    amount = rng.choice((2, 40, 300, 4000))
    step = Step(tick, after, what, rng.choice(targets), rng.choice(nids), rng.choice(SERVERS), amount)
    if what == "spool full":  # it takes a while without a network to fill one
        both = [step._replace(op=server) for server in SERVERS]
        cuts = [
            one._replace(tick=max(tick - back, 1), after=0.002, what="network cut")
            for one in both
            for back in (9, 6, 3)
        ]
        return [*cuts, *both]
    if what == "duplicate":  # of one of them nothing may have been sent yet
        return [step._replace(op=server) for server in SERVERS]
    if what == "reordered":  # of both servers much was held back, best of one target that moved between them
        first = max(tick - 5, 1)
        cuts = [step._replace(tick=first, after=0.002, what="network cut", op=server) for server in SERVERS]
        return [*cuts, step._replace(tick=first + 2, what="failover"), step._replace(tick=first + 5)]
    if what == "forgotten" and rng.random() < 0.8:
        later = min(tick + rng.randrange(5), ticks)
        back = step._replace(tick=later, after=19.5, what="connect")
        return [step, back, *_burst(later, 19.6, back.target, back.job, rng)]
    if what == "switched off":  # and on again
        return [step, step._replace(tick=min(tick + rng.randrange(1, 4), ticks), after=19.0, what="switched on")]
    if what == "older segments gone":  # those told who was there; of one that went away the latest may tell
        first = max(tick - rng.randrange(5, 10), 1)
        restarts = [step._replace(tick=first, after=0.2, what="agent restart", op=server) for server in SERVERS]
        backup, left = step._replace(tick=first, after=0.1, what="backup"), step._replace(tick=max(tick - 2, first))
        return [backup, *restarts, left._replace(what="client leaves"), step]
    if what in _BEFORE:
        before, most = _BEFORE[what]
        return [step._replace(tick=max(tick - rng.randrange(1, most), 1), after=0.1, what=before), step]
    if what in RESETS and rng.random() < 0.5:  # most are back soon, many of them with more than before
        return [step, *(some for nid in nids for some in _burst(tick, after + 0.1, step.target, nid, rng))]
    return [step]


def _burst(tick: int, after: float, target: str, nid: bytes, rng: random.Random) -> list[Step]:
    """Return work of a client on one target, often more than it has ever done there."""
    if rng.random() < 0.3:
        return []
    ops = sorted(set(OST_OPS)) if "OST" in target else MDT_OPS
    times = rng.choice((1, 90))
    return [Step(tick, round(after, 3), "io", target, nid, op, 1 << 20, times) for op in ops if rng.random() < 0.9]


def life_of(nid: bytes, rng: random.Random, ticks: int, targets: tuple[str, ...]) -> list[Step]:
    """Return what one client does: it connects, and works in bursts and pauses."""
    end = ticks * PERIOD
    habit = rng.choice(("steady", "bursts", "equal", "equal", "idle"))
    used = [target for target in targets if rng.random() < 0.75] or [rng.choice(targets)]
    at = rng.uniform(0.1, end * 0.3)
    steps = [Step(int(at // PERIOD) + 1, round(at % PERIOD, 3), "connect", targets[0], nid)]
    equal = rng.randrange(1, 5000)
    while at < end and habit != "idle":
        at += rng.uniform(1, 12) if habit == "steady" else rng.choice((1, 5, 30, 120)) * rng.uniform(0.5, 1.5)
        for target in used:
            op = rng.choice(OST_OPS if "OST" in target else MDT_OPS)
            amount, times = rng.randrange(1, 1 << 20), rng.choice((1, 1, 3, 40))
            if habit == "equal":
                op, amount, times = ("write" if "OST" in target else "open"), equal, 2
            after = max(round(at % PERIOD, 3), 0.001)
            steps.append(Step(int(at // PERIOD) + 1, after, "io", target, nid, op, amount, times))
    return [step for step in steps if step.tick <= ticks]
