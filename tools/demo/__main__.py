"""``make demo [FOR=seconds]``."""

import argparse
import shutil
import sys
import tempfile
from itertools import cycle
from pathlib import Path

from rich.console import Console
from rich.live import Live as LiveTable

from demo.comparison import Difference, accepted_totals, differences, told_totals
from demo.display import hints, printable, rows_of, table
from demo.owners import told_sums, true_sums, unequal
from demo.play import SLURM_HOST, Play, installed, settings
from demo.processes import ProcessError

_ALWAYS = 10 * 365 * 24 * 3600.0
_FIRST_SHOWN_SECONDS = 2.0
_REFRESH_SECONDS = 1.0
_PLAIN_REFRESH_SECONDS = 10.0
_KILL_SPAN_SECONDS = 60.0
_WHOLE_SECONDS = 30.0
"""A demo that is to last so long goes on until everything has happened: what befalls Lustre waits for agents, and on a
machine with much else to do they are slow."""
_LONGER_MOST = 4
"""So many times as long as it was asked for."""
_RETURNS = tuple(f"record came back from zero, first seen {how}" for how in ("lower", "equal", "higher"))
_EVENTS = (
    *("agent killed", "aggregator killed", "clear", "clear of one job", "clock step", "evicted"),
    *("failover", "failback", "job requeued", "reboot", "remount", *_RETURNS),
)


def main() -> int:
    """Show Harvest at work; with a time limit, compare everything at the end."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="harvest-demo-"))
    console = Console()
    console.print(f"A simulated Lustre site in {folder / 'lustre'}; starting Harvest on it …")
    seconds = options.seconds or _ALWAYS
    try:
        simulated = settings(seed=options.seed, slurm=SLURM_HOST)
        play = Play(installed(folder, simulated), simulated, for_seconds=_LONGER_MOST * seconds)
        try:
            play.start()
            console.print(hints(play.installation.url), highlight=False, markup=False)
            _show(play, console, seconds)
            console.print("Waiting until Harvest has everything …")
            play.settle()
            code = _compare(play, console)
        finally:
            play.installation.stop()
            play.live.face.close()
    except ProcessError as error:
        console.print(f"[red]{printable(str(error))}[/]")
        code = 2
    if code:
        console.print(f"The logs are in {folder}.")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--for",
        type=float,
        dest="seconds",
        metavar="SECONDS",
        help="end after so long, or later if something that is to be shown has not happened yet, and compare",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="equal seeds do equal things")
    return parser.parse_args()


def _show(play: Play, console: Console, seconds: float) -> None:
    """Show the table until the time is over or somebody has seen enough; meanwhile programs of ours are killed."""
    span = min(seconds, _KILL_SPAN_SECONDS)
    kills = iter([(round_ + part) * span for round_ in range(10_000) for part in (0.4, 0.7)])
    victims = cycle((*play.installation.agents, "aggregator")[::-1])
    kill_at, show_at = next(kills), _FIRST_SHOWN_SECONDS
    is_ending = False
    refresh = _REFRESH_SECONDS if console.is_terminal else _PLAIN_REFRESH_SECONDS
    with LiveTable(console=console, auto_refresh=False, transient=False) as shown:
        try:
            while not play.live.is_over:
                play.step()
                elapsed = play.live.elapsed_seconds
                is_ending = is_ending or (elapsed >= seconds and _is_whole(play, seconds))
                if is_ending:
                    play.live.stop()
                elif kill_at <= elapsed:
                    kill_at = next(kills)
                    play.kill(next(victims))
                if elapsed >= show_at:
                    show_at = elapsed + refresh
                    _refresh(play, console, shown)
        except KeyboardInterrupt:
            play.live.stop()


def _is_whole(play: Play, seconds: float) -> bool:
    """Tell whether all has happened that a demo of so many seconds is to show."""
    happened = _happened(play)
    return seconds < _WHOLE_SECONDS or all(happened.get(event) for event in _EVENTS)


def _refresh(play: Play, console: Console, shown: LiveTable) -> None:
    rows = rows_of(play.live.site, play.installation.jobs())
    events = play.live.site.truth.events + play.events
    what = ", ".join(f"{count} {name}" for name, count in sorted(events.items()))
    title = (
        f"Harvest on a simulated Lustre site, {play.live.elapsed_seconds:.0f} s · {play.installation.url}/api/v1/jobs"
    )
    made = table(rows, title=title, caption=f"so far: {what or 'nothing happened'}")
    if console.is_terminal:
        shown.update(made, refresh=True)
    else:
        console.print(made)


def _compare(play: Play, console: Console) -> int:
    """Compare every total with the truth; return the exit code."""
    jobs = play.installation.jobs()
    found = differences(play.live.site.truth, jobs)
    console.print("\nWhat happened:")
    for name, count in sorted(_happened(play).items()):
        console.print(f"  {count:6,}  {name}")
    flagged = [job for job in jobs if job["ambiguous_resets"]]
    console.print(f"\nDecisions that could not be known for certain: {sum(j['ambiguous_resets'] for j in flagged)}")
    for job in flagged:
        console.print(f"  {printable(job['job'])}: {job['ambiguous_resets']}, at most {job['ambiguous_bytes']:,} bytes")
    for difference in found:
        console.print(_told(difference))
    unseen = len(play.live.site.truth.unshown())
    console.print(f"\n{len(jobs)} jobs compared with the truth: {len(found)} totals differ.")
    true = true_sums(accepted_totals(play.live.site.truth, told_totals(jobs)), play.live.queue.owner_of)
    people = {by: sorted({whose.name for whose in true if whose.by == by}) for by in ("user", "account")}
    wrong = unequal(true, told_sums(play.installation.get, people["user"]))
    for whose, done, told in wrong:
        console.print(f"  [red]{whose.by} {whose.name} {whose.measure}: truth {done}, Harvest {told}[/]")
    counts = f"{len(people['user'])} users and {len(people['account'])} accounts"
    console.print(f"{counts} likewise: {len(wrong)} totals differ.")
    if unseen:
        console.print(f"{unseen} records ended before any agent had seen them to the end.")
    return 1 if found or wrong else 0


def _happened(play: Play) -> dict[str, int]:
    returns = dict.fromkeys(_RETURNS, 0)
    for before, after in play.live.site.truth.successions():
        if before.shown and after.shown:
            old, new = (sum(samples for _, samples, _ in shown.values) for shown in (before.shown[-1], after.shown[0]))
            returns[_RETURNS[(new >= old) + (new > old)]] += 1
    return {**play.live.site.truth.events, **play.events, **returns, "job requeued": len(play.live.queue.requeued)}


def _told(difference: Difference) -> str:
    filesystem, kind, job, op = difference.where
    flag = " (flagged)" if difference.is_flagged else ""
    numbers = f"truth {difference.truth}, Harvest {difference.harvest}{flag}"
    return f"  [red]{printable(job)} {filesystem} {kind} {op}: {numbers}[/]"


if __name__ == "__main__":
    sys.exit(main())
