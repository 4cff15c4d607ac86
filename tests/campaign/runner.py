"""Runs many histories, in all processors, and says what happened in them."""

import argparse
import multiprocessing
import sys
from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from campaign.history import History, Outcome
from campaign.plan import EVENTS, NO_START, QUESTION_MARKS, SKIPPING, SWITCHABLE, VERSIONS, Plan, make_plan

LEAST = 20
"""How often each possible pair of event and version must have happened in a campaign of this size or more."""
FULL_SIZE = 3000
CELLS: dict[str, Iterable[str]] = {
    **{event: VERSIONS for event in EVENTS if event != "skip"},
    **{f"evicted, back {how}": VERSIONS for how in ("lower", "equal", "higher")},
    "header switched": SWITCHABLE,
    "skipped in a read": SKIPPING,
    "equal ids": QUESTION_MARKS,
    "invisible clear": NO_START,
}


@dataclass(slots=True)
class Campaign:
    """What came of many histories."""

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
            for event, versions in CELLS.items()
            for version in versions
            if self.events[event, version] < LEAST
        ]

    def report(self) -> str:
        """Return the counts as tables."""
        width = max(map(len, CELLS))
        short = [version.replace(" no header", "*") for version in VERSIONS]
        lines = [f"{'event':{width}} " + " ".join(f"{version:>7}" for version in short)]
        for event, possible in CELLS.items():
            cells = [str(self.events[event, version]) if version in possible else "-" for version in VERSIONS]
            lines.append(f"{event:{width}} " + " ".join(f"{cell:>7}" for cell in cells))
        shares = [
            f"{100 * self.flagged[version] / self.decisions[version]:.2f}%" if self.decisions[version] else "-"
            for version in VERSIONS
        ]
        lines.append(f"{'flagged decisions':{width}} " + " ".join(f"{share:>7}" for share in shares))
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


def play(seed: int) -> tuple[Plan, Outcome]:
    """Play the history of a seed."""
    plan = make_plan(seed)
    try:
        return plan, History(plan).play()
    except Exception as error:  # a crash is a failure of this history, whatever it is
        raise RuntimeError(f"seed {seed} crashed") from error


def run(seeds: Iterable[int], *, show: bool = False) -> Campaign:
    """Play all these histories."""
    campaign = Campaign()
    with multiprocessing.get_context("spawn").Pool() as pool:
        for plan, outcome in pool.imap(play, seeds, chunksize=20):
            failed = len(campaign.failures)
            campaign.add(plan, outcome)
            if show:
                for failure in campaign.failures[failed:]:
                    print(failure, file=sys.stderr, flush=True)
            if show and campaign.histories % 1000 == 0:
                print(f"{campaign.histories} histories, {len(campaign.failures)} failed", file=sys.stderr, flush=True)
    return campaign


def shrunk(plan: Plan) -> Plan:
    """Leave out all that is not needed for a history to fail."""
    size = len(plan.steps) // 2
    while size:
        at = 0
        while at < len(plan.steps):
            less = replace(plan, steps=plan.steps[:at] + plan.steps[at + size :])
            if problem(less, History(less).play()):
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
    options = parser.parse_args()
    if options.seed is not None:
        plan, outcome = play(options.seed)
        wrong = problem(plan, outcome)
        if wrong and options.shrink:
            plan = shrunk(plan)
            print(*plan.steps, sep="\n")
            wrong = problem(plan, History(plan).play())
        print(plan, wrong or "as it should be", sep="\n")
        return bool(wrong)
    campaign = run(range(options.first, options.first + options.count), show=True)
    print(campaign.report())
    missing = campaign.missing_cells() if options.count >= FULL_SIZE else []
    print(*campaign.failures[:20], *missing, sep="\n")
    return bool(campaign.failures or missing)


if __name__ == "__main__":
    sys.exit(main())
