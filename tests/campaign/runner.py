"""Runs many histories, in all processors, and says what happened in them."""

import argparse
import multiprocessing
import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from campaign import client_plan, relay_plan
from campaign.client_history import ClientHistory
from campaign.history import History, Outcome
from campaign.plan import EVENTS, NO_START, QUESTION_MARKS, SKIPPING, SWITCHABLE, VERSIONS, Plan, make_plan
from campaign.relay_history import RelayHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of histories."""

    make_plan: Callable[[int], Plan]
    history: type[History]
    versions: tuple[str, ...]
    cells: Mapping[str, Iterable[str]]
    """Events, and the versions on which they are possible."""
    unbounded: frozenset[str] = frozenset()
    """Of these, those that are counted only."""
    full_size: int
    least: int
    """How often each possible pair of event and version must have happened in a campaign of full size or more."""

    def play(self, seed: int) -> tuple[Plan, Outcome]:
        """Play the history of a seed."""
        plan = self.make_plan(seed)
        try:
            return plan, self.history(plan).play()
        except Exception as error:  # a crash is a failure of this history, whatever it is
            raise RuntimeError(f"seed {seed} crashed") from error


JOBS = Kind(
    make_plan=make_plan,
    history=History,
    versions=VERSIONS,
    cells={
        **{event: VERSIONS for event in EVENTS if event != "skip"},
        **{f"evicted, back {how}": VERSIONS for how in ("lower", "equal", "higher")},
        **dict.fromkeys(("parked", "parked, and back"), VERSIONS),
        "header switched": SWITCHABLE,
        "skipped in a read": SKIPPING,
        "equal ids": QUESTION_MARKS,
        "invisible clear": NO_START,
    },
    full_size=3000,
    least=20,
)
CLIENTS = Kind(
    make_plan=client_plan.make_client_plan,
    history=ClientHistory,
    versions=client_plan.CLIENT_VERSIONS,
    cells={
        **dict.fromkeys(client_plan.CLIENT_EVENTS, client_plan.CLIENT_VERSIONS),
        "invisible clear": client_plan.NO_START,
        "trace a pass later": client_plan.NO_START,
    },
    unbounded=frozenset({"trace a pass later"}),  # an excuse, which nobody has to need
    full_size=700,
    least=4,
)
RELAYS = Kind(
    make_plan=relay_plan.make_relay_plan,
    history=RelayHistory,
    versions=(relay_plan.SITE, *relay_plan.HEADS),
    cells={
        **dict.fromkeys(
            (*relay_plan.BENEATH_EVENTS, *relay_plan.SITE_EVENTS, "segments gone", "rates compared"), (relay_plan.SITE,)
        ),
        **dict.fromkeys((*relay_plan.HEAD_EVENTS, *relay_plan.COME_ABOUT), tuple(relay_plan.HEADS)),
    },
    full_size=60,
    least=10,
)


@dataclass(slots=True)
class Campaign:
    """What came of many histories."""

    kind: Kind = JOBS
    histories: int = 0
    events: Tally[tuple[str, str]] = field(default_factory=Tally)
    flagged: Tally[str] = field(default_factory=Tally)
    decisions: Tally[str] = field(default_factory=Tally)
    calm: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, plan: Plan, outcome: Outcome) -> None:
        """Count one history in."""
        self.histories += 1
        self.calm += plan.calm
        self.events.update(outcome.events)
        if plan.versions[0] == plan.versions[1] and not any(event == "header switched" for event, _ in outcome.events):
            self.flagged[plan.versions[0]] += outcome.flagged
            self.decisions[plan.versions[0]] += outcome.decisions
        if wrong := problem(plan, outcome):
            self.failures.append(f"seed {plan.seed}: {wrong}")

    def missing_cells(self) -> list[str]:
        """Return the pairs of event and version that were met too seldom to mean anything."""
        return [
            f"{event} on {version}: {self.events[event, version]}"
            for event, versions in self.kind.cells.items()
            for version in versions
            if event not in self.kind.unbounded and self.events[event, version] < self.kind.least
        ]

    def report(self) -> str:
        """Return the counts as tables."""
        cells, versions = self.kind.cells, self.kind.versions
        width = max(map(len, cells))
        short = [version.replace(" no header", "*") for version in versions]
        lines = [f"{'event':{width}} " + " ".join(f"{version:>7}" for version in short)]
        for event, possible in cells.items():
            counts = [str(self.events[event, version]) if version in possible else "-" for version in versions]
            lines.append(f"{event:{width}} " + " ".join(f"{count:>7}" for count in counts))
        shares = [
            f"{100 * self.flagged[version] / self.decisions[version]:.2f}%" if self.decisions[version] else "-"
            for version in versions
        ]
        if any(self.decisions.values()):
            lines.append(f"{'flagged decisions':{width}} " + " ".join(f"{share:>7}" for share in shares))
        if any("*" in version for version in short):
            lines.append("* enable_stats_header=0")
        lines.append(f"{self.histories} histories, {self.calm} of them calm, {len(self.failures)} failed")
        return "\n".join(lines)


def problem(plan: Plan, outcome: Outcome) -> str:
    """Say what is wrong with a history, or nothing."""
    if outcome.difference != outcome.explained:
        keys = outcome.difference.keys() | outcome.explained.keys()
        wrong = {k for k in keys if outcome.difference.get(k) != outcome.explained.get(k)}
        key = min(wrong)
        off, known = outcome.difference.get(key, (0, 0)), outcome.explained.get(key, (0, 0))
        return f"truth - total is {off} for {key}, of which flagged decisions explain {known} ({len(wrong)} such)"
    if plan.calm and outcome.flagged:
        return f"{outcome.flagged} decisions flagged in a history that leaves nothing open"
    for what, found in (
        ("impossible rates", outcome.rates),
        ("totals published wrongly", outcome.published),
        ("lives untold", outcome.untold),
        ("details", outcome.details),
    ):
        if found:
            return f"{len(found)} {what}: {found[0]}"
    return ""


def run(seeds: Iterable[int], kind: Kind = JOBS, *, show: bool = False) -> Campaign:
    """Play all these histories."""
    campaign = Campaign(kind)
    with multiprocessing.get_context("spawn").Pool() as pool:
        for plan, outcome in pool.imap(kind.play, seeds, chunksize=20):
            failed = len(campaign.failures)
            campaign.add(plan, outcome)
            if show:
                for failure in campaign.failures[failed:]:
                    print(failure, file=sys.stderr, flush=True)
            if show and campaign.histories % 1000 == 0:
                print(f"{campaign.histories} histories, {len(campaign.failures)} failed", file=sys.stderr, flush=True)
    return campaign


def shrunk(plan: Plan, kind: Kind) -> Plan:
    """Leave out all that is not needed for a history to fail."""
    size = len(plan.steps) // 2
    while size:
        at = 0
        while at < len(plan.steps):
            less = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if problem(less, kind.history(less).play()):
                plan = less
            else:
                at += size
        size //= 2
    return plan


def main() -> int:
    """Run a campaign, or one history again."""
    parser = argparse.ArgumentParser(prog="make campaign N=…", description="Random histories against the accounting.")
    parser.add_argument("count", type=int, nargs="?", default=20_000, help="how many histories (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--seed", type=int, help="play only this one, and say what is wrong")
    parser.add_argument(
        "--shrink", action="store_true", help="with --seed: leave out what is not needed for it to fail"
    )
    parser.add_argument("--clients", action="store_true", help="histories of clients' counters, not of jobs'")
    parser.add_argument("--relays", action="store_true", help="histories of a site and the heads that it relays to")
    options = parser.parse_args()
    kind = RELAYS if options.relays else CLIENTS if options.clients else JOBS
    if options.seed is not None:
        plan, outcome = kind.play(options.seed)
        wrong = problem(plan, outcome)
        if wrong and options.shrink:
            plan = shrunk(plan, kind)
            print(*plan.steps, sep="\n")
            wrong = problem(plan, kind.history(plan).play())
        print(plan, wrong or "as it should be", sep="\n")
        return bool(wrong)
    campaign = run(range(options.first, options.first + options.count), kind, show=True)
    print(campaign.report())
    missing = campaign.missing_cells() if options.count >= kind.full_size else []
    print(*campaign.failures[:20], *missing, sep="\n")
    return bool(campaign.failures or missing)


if __name__ == "__main__":
    sys.exit(main())
