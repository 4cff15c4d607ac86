"""``harvest doctor``: what is wrong at a site, the weightiest first, and what to do about it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harvest_cli.replies import Reply, at
from harvest_cli.units import age, count, name, size

QUESTIONS: Final = ("/healthz", "/readyz", at("servers"), at("targets"))
_STALE_SECONDS: Final = 1500
"""Intervals are 10 min at most; two and a half of them without a sweep are too many at any site."""
_CLOCK_SECONDS: Final = 60
_SPOOL_PART: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that somebody should do something about."""

    weight: int
    """1: nothing works, 2: data is or will be missing, 3: something is not as it should be."""
    aggregator: str
    what: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found."""

    problems: Sequence[Problem]
    notes: Sequence[str]
    """What happened some time and cannot be mended: totals stay marked, and nobody has to do anything."""


def examine(replies: Iterable[Reply]) -> Report:
    """Look at what every aggregator answered."""
    by_url: dict[str, dict[str, Reply]] = {}
    for reply in replies:
        by_url.setdefault(reply.url, {})[reply.path] = reply
    problems = [problem for url, mine in by_url.items() for problem in _problems(url, mine)]
    notes = [note for mine in by_url.values() for note in _notes(_listed(mine, "targets"))]
    return Report(problems=sorted(problems, key=lambda problem: problem.weight), notes=notes)


def _listed(mine: Mapping[str, Reply], what: str) -> list[dict[str, Any]]:
    return list(mine[at(what)].content.get(what, []))


def _problems(url: str, mine: Mapping[str, Reply]) -> Iterator[Problem]:
    if not mine["/healthz"].is_good:
        yield Problem(
            weight=1, aggregator=url, what=f"the aggregator does not answer: {mine['/healthz'].told}", mend=_START
        )
        return
    ready = mine["/readyz"].content
    for reason in ready.get("reasons", []):
        yield Problem(weight=1, aggregator=url, what=f"it cannot do its work: {name(reason)}", mend=_LOG)
    for path in (at("servers"), at("targets")):
        if not mine[path].is_good:
            yield Problem(weight=1, aggregator=url, what=f"{path} is not answered", mend=mine[path].told)
            return
    yield from _of_sweeps(url, mine[at("servers")])
    for server in _listed(mine, "servers"):
        yield from _of_server(url, server)
    missing = [name(target["name"]) for target in _listed(mine, "targets") if target["missing"]]
    if missing:
        yield Problem(
            weight=2,
            aggregator=url,
            what=f"expected and not reported in the last sweep: {', '.join(missing)}",
            mend="look at the agents of their servers: journalctl -u harvest-agent",
        )
    for warning in ready.get("warnings", []):
        yield Problem(weight=3, aggregator=url, what=name(warning), mend="see the aggregator's log and its site file")


_START: Final = "start it, or ask for it where it is (--url, HARVEST_URL, the configuration file)"
_LOG: Final = "see the aggregator's log"


def _of_sweeps(url: str, reply: Reply) -> Iterator[Problem]:
    tick, now = reply.content.get("tick_seconds"), reply.date_seconds
    if tick is None:
        what = "no sweep was closed yet"
    elif now is not None and now - tick > _STALE_SECONDS:
        what = f"the last sweep is {age(now - tick)} old"
    else:
        return
    yield Problem(
        weight=1, aggregator=url, what=what, mend="are agents running, and may they connect? See the servers below"
    )


def _of_server(url: str, server: Mapping[str, Any]) -> Iterator[Problem]:
    who = name(server["name"])

    def found(weight: int, what: str, mend: str) -> Problem:
        return Problem(weight=weight, aggregator=url, what=f"{who}: {what}", mend=mend)

    if server["listed"] and not server["connected"]:
        if server["last_tick_seconds"] is None:
            mend = f"install it there with a certificate for {who} (harvest-aggregator ca issue-agent), and start it"
            yield found(2, "its agent was never here", mend)
        else:
            yield found(2, "its agent is not connected", "on it: systemctl status harvest-agent")
    if not server["listed"] and server["connected"]:
        yield found(3, "it is connected and not in the site", "list it under `servers`, or stop its agent")
    if abs(server["clock_offset_seconds"] or 0) > _CLOCK_SECONDS:
        far = "ahead" if server["clock_offset_seconds"] > 0 else "behind"
        yield found(2, f"its clock is {age(abs(server['clock_offset_seconds']))} {far}", "set its clock (chrony, ntpd)")
    if server["lost_sweeps"]:
        what = f"{count(server['lost_sweeps'])} sweeps could not be kept since its agent started"
        yield found(2, what, "give its spool more room, or mend its disk; restart the agent to forget it")
    limit = server["spool_limit_bytes"]
    if limit and server["spool_bytes"] > _SPOOL_PART * limit and server["spool_sweeps"] > 1:
        what = f"its spool is nearly full: {size(server['spool_bytes'])} of {size(limit)}"
        yield found(2, what, "find out why this aggregator does not take sweeps in; or raise [spool] max_bytes")
    if server["needs_full_picture"]:
        yield found(
            3,
            "it speaks of records that it never named, and is asked to begin anew",
            "wait a minute; else restart its agent",
        )
    for problem in server["problems"]:
        yield found(3, name(problem), "on it: harvest-agent doctor")


def _notes(targets: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for target in targets:
        said = [
            f"{age(target['unseen_seconds'])} in which work may have gone uncounted"
            if target["unseen_seconds"]
            else "",
            f"{size(target['ambiguous_bytes'])} that nobody can be certain of" if target["ambiguous_resets"] else "",
            f"{count(target['unread_lines'])} lines that were not understood" if target["unread_lines"] else "",
            f"{count(target['unplaced_reads'])} reads that were left out" if target["unplaced_reads"] else "",
        ]
        if any(said):
            yield f"{name(target['name'])}: {', '.join(filter(None, said))}"
