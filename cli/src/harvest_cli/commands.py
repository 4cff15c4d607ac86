"""What each command asks, and what it prints."""

import argparse
import contextlib
import difflib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from rich.console import Console

from harvest_cli import examining, screen, top
from harvest_cli.aggregators import (
    SHAPE_ERRORS,
    Aggregators,
    Ask,
    NotKnownError,
    TooOldError,
    UnreachableError,
    WrongQuestionError,
)
from harvest_cli.places import filesystems_sheet, servers_sheet, targets_sheet
from harvest_cli.printing import complain, put, show
from harvest_cli.replies import Json
from harvest_cli.rows import job_sheets, jobs_sheet, node_sheet, user_sheets
from harvest_cli.sheets import Sheet
from harvest_cli.units import name

_NEAR: Final = 5
_LINES: Final = 20
"""So many are shown where there is no screen to fill."""
_ALL: Final = 10**9


class Desk:
    """Where a command finds whom to ask and where to print."""

    def __init__(self, options: argparse.Namespace, urls: Sequence[str], ask: Ask, console: Console) -> None:
        self.options = options
        self.console = console
        self.aggregators = Aggregators(urls, ask)
        self._fresh: Callable[[], Aggregators] = lambda: Aggregators(urls, ask)

    def print(self, answer: Mapping[str, object], sheets: Callable[[], Iterable[Sheet]]) -> None:
        """Print an answer: as it is, or as tables."""
        if self.options.json:
            self.print_json({**answer, "unanswered": self.aggregators.unanswered()})
            return
        for number, sheet in enumerate(sheets()):
            if number:
                put(self.console, "")
            show(self.console, sheet)

    def print_json(self, answer: object) -> None:
        """Print JSON on one line."""
        sys.stdout.write(json.dumps(answer) + "\n")

    def check(self, view: top.View) -> None:
        """Complain at once about what cannot be answered at all."""
        top.answer(view, self._fresh())

    def look(self, view: top.View) -> top.Shown:
        """Ask for a view; trouble is shown, as it may pass."""
        try:
            return top.shown(view, self._fresh())
        except (UnreachableError, WrongQuestionError, TooOldError) as error:
            return top.Shown(view=view, troubles=str(error).splitlines(), is_answered=False)
        except SHAPE_ERRORS as error:
            return top.Shown(view=view, troubles=[f"an answer of another shape: {error!r}"], is_answered=False)


def show_top(desk: Desk) -> int:
    """Show who does most, again and again."""
    options = desk.options
    limit = _LINES if options.limit is None else options.limit or _ALL
    view = top.View(
        by=options.by,
        sort=options.sort,
        fs=options.fs,
        server=options.server,
        target=options.target,
        limit=limit,
    )
    if options.json:
        desk.print(_largest(view, top.answer(view, desk.aggregators)), list)
        return 0
    desk.check(view)
    if options.once or not screen.can_fill_screen(desk.console):
        return _print_top(desk, view)
    with contextlib.suppress(KeyboardInterrupt):  # that is as good a way to end it as any
        fills = options.limit is None
        screen.watch(desk.console, view, desk.look, interval_seconds=options.interval, fills=fills)
    return 0


def _print_top(desk: Desk, view: top.View) -> int:
    """Print a table each time, or once."""
    while True:
        shown = desk.look(view)
        show(desk.console, top.sheet(view, shown))
        complain("\n".join(f"warning: {trouble}" for trouble in shown.troubles))
        if desk.options.once:
            return 0
        put(desk.console, "")
        sys.stdout.flush()
        time.sleep(desk.options.interval)


def _largest(view: top.View, answer: Json) -> Json:
    """Return the rows that would be shown, of those that the API does not sort itself."""
    if "rows" not in answer:
        return answer
    rows = sorted(answer["rows"], key=lambda row: -(row["rates"].get(top.SORTS[view.sort]) or 0))
    return {**answer, "rows": rows[: view.limit]}


def show_job(desk: Desk) -> int:
    """Show one job."""
    options, aggregators = desk.options, desk.aggregators
    found = aggregators.job(options.job, cluster=options.cluster, start=options.start)
    if not found:
        busiest = aggregators.busiest()
        task = [job for job in busiest if job.get("array") == options.job]
        if len(task) == 1 and options.cluster in {None, task[0]["cluster"]}:
            found = aggregators.job(task[0]["job"], cluster=task[0]["cluster"], start=options.start)
        else:
            raise NotKnownError(_no_job(options, busiest, aggregators))
    if len(found) > 1:
        clusters = ", ".join(name(job["cluster"]) for job in found)
        raise NotKnownError(f"there are several jobs {name(options.job)}: say --cluster, one of {clusters}")
    desk.print(found[0], lambda: job_sheets(found[0]))
    return 0


def _no_job(options: argparse.Namespace, busiest: Iterable[Json], aggregators: Aggregators) -> str:
    """Say that a job is not known, and what may have been meant."""
    where = "" if options.cluster is None else f" of cluster {name(options.cluster)}"
    when = "" if options.start is None else f" that started at {options.start}"
    lines = [f"no job {name(options.job)}{where}{when} is known"]
    if options.cluster is not None or options.start is not None:
        others = aggregators.job(options.job, cluster=None, start=None)
        lines += [
            f"there is one of cluster {name(job['cluster'])}, that started at {name(job.get('start'))}"
            for job in others
        ]
    ids = [job.get("array") or job["job"] for job in busiest]
    return "\n".join([*lines, *_near(options.job, ids)])


def _near(wanted: str, known: Iterable[str]) -> list[str]:
    near = difflib.get_close_matches(wanted, list(dict.fromkeys(known)), n=_NEAR)
    return [f"did you mean {', '.join(map(name, near))}?"] if near else []


def show_jobs(desk: Desk) -> int:
    """List jobs."""
    options = desk.options
    filters = {key: getattr(options, key) for key in ("state", "user", "account", "cluster", "fs", "server", "target")}
    answer = desk.aggregators.jobs(sort=options.sort, limit=options.limit, offset=options.offset, filters=filters)
    desk.print(answer, lambda: [jobs_sheet(answer, offset=options.offset, now_seconds=answer["tick_seconds"])])
    return 0


def show_user(desk: Desk) -> int:
    """Show one user."""
    try:
        answer = desk.aggregators.user(desk.options.user)
    except NotKnownError as error:
        users = [str(job["user"]) for job in desk.aggregators.busiest() if job.get("user")]
        raise NotKnownError("\n".join([str(error), *_near(desk.options.user, users)])) from error
    except TooOldError as error:
        raise TooOldError(f"whose a job is, no aggregator knows yet\n{error}") from error
    desk.print(answer, lambda: user_sheets(answer, answer["tick_seconds"]))
    return 0


def show_node(desk: Desk) -> int:
    """Show one node."""
    wanted = desk.options.node
    answer = desk.aggregators.clients()
    clients = answer["clients"]
    found = [client for client in clients if wanted in {client["nid"], client["host"]}]
    found = found or [client for client in clients if wanted == str(client["host"]).partition(".")[0]]
    if not found:
        hosts = [client["host"] for client in clients if client["host"]]
        names = [*hosts, *(host.partition(".")[0] for host in hosts), *(client["nid"] for client in clients)]
        raise NotKnownError("\n".join([f"no node {name(wanted)} is known", *_near(wanted, names)]))
    answer = {**answer, "clients": found}
    desk.print(answer, lambda: [node_sheet(found, answer["tick_seconds"])])
    return 0


def show_filesystems(desk: Desk) -> int:
    """Show file systems; of one also its targets."""
    answer = desk.aggregators.filesystems()
    if (wanted := desk.options.fs) is None:
        desk.print(answer, lambda: [filesystems_sheet(answer)])
        return 0
    names = [one["name"] for one in answer["filesystems"]]
    if wanted not in names:
        raise NotKnownError(
            f"no file system {name(wanted)} is known: there are {', '.join(map(name, names)) or 'none'}"
        )
    told = desk.aggregators.listed("targets")
    answer = {
        "tick_seconds": answer["tick_seconds"],
        "filesystems": [one for one in answer["filesystems"] if one["name"] == wanted],
        "targets": [one for one in told["targets"] if one["filesystem"] == wanted],
    }
    desk.print(answer, lambda: [filesystems_sheet(answer), targets_sheet(answer["targets"], told["now_seconds"])])
    return 0


def show_servers(desk: Desk) -> int:
    """Show servers and their agents."""
    answer = desk.aggregators.listed("servers")
    now_seconds = answer.pop("now_seconds")
    desk.print(answer, lambda: [servers_sheet(answer["servers"], now_seconds)])
    return 0


def show_problems(desk: Desk) -> int:
    """Show what is wrong."""
    aggregators = desk.aggregators
    replies = aggregators.ask((url, path) for url in aggregators.urls for path in examining.QUESTIONS)
    report = examining.examine(replies)
    if desk.options.json:
        desk.print_json({"problems": [asdict(one) for one in report.problems], "notes": list(report.notes)})
    else:
        put(desk.console, *_told(report, several=len(aggregators.urls) > 1))
    return 1 if report.problems else 0


def _told(report: examining.Report, *, several: bool) -> Iterable[str]:
    for problem in report.problems:
        where = f"{problem.aggregator}: " if several else ""
        yield f"PROBLEM   {where}{problem.what}"
        yield f"          mend it: {problem.mend}"
    if not report.problems:
        yield "No problems found."
    if report.notes:
        yield ""
        yield "What happened and cannot be mended; totals are marked where it matters:"
        yield from (f"  {note}" for note in report.notes)


COMMANDS: Final[Mapping[str, Callable[[Desk], int]]] = {
    "top": show_top,
    "job": show_job,
    "jobs": show_jobs,
    "user": show_user,
    "node": show_node,
    "fs": show_filesystems,
    "servers": show_servers,
    "doctor": show_problems,
}
