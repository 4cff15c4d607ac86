from typing import Any

import pytest

from harvest_cli.examining import QUESTIONS, Report, examine
from harvest_cli.replies import Reply
from unit.cli.telling import TICK, A, B, silent

SERVER: dict[str, Any] = {
    "name": "oss1",
    "listed": True,
    "connected": True,
    "last_tick_seconds": TICK,
    "clock_offset_seconds": 0.1,
    "spool_bytes": 5,
    "spool_limit_bytes": 1000,
    "spool_sweeps": 1,
    "lost_sweeps": 0,
    "needs_full_picture": False,
    "problems": [],
}
TARGET: dict[str, Any] = {
    "name": "home-OST0000",
    "missing": False,
    "unread_lines": 0,
    "unplaced_reads": 0,
    "unseen_seconds": 0,
    "ambiguous_resets": 0,
    "ambiguous_bytes": 0,
}


def replies(
    url: str = A,
    *,
    ready: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
    target: dict[str, Any] | None = None,
    tick: int | None = TICK,
    now: float = TICK + 5,
) -> list[Reply]:
    told: list[dict[str, Any]] = [
        {"alive": True},
        {"ready": True, "reasons": [], "warnings": [], **(ready or {})},
        {"tick_seconds": tick, "servers": [{**SERVER, **(server or {})}]},
        {"tick_seconds": tick, "targets": [{**TARGET, **(target or {})}]},
    ]
    return [
        Reply(url=url, path=path, status=200, content=content, date_seconds=now)
        for path, content in zip(QUESTIONS, told, strict=True)
    ]


def whats(report: Report) -> list[str]:
    return [problem.what for problem in report.problems]


def test_a_site_that_is_well_has_no_problems() -> None:
    assert examine(replies()) == Report(problems=[], notes=[])


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ({"connected": False}, "oss1: its agent is not connected"),
        ({"connected": False, "last_tick_seconds": None}, "oss1: its agent was never here"),
        ({"listed": False}, "oss1: it is connected and not in the site"),
        ({"clock_offset_seconds": 61.0}, "oss1: its clock is 61 s ahead"),
        ({"clock_offset_seconds": -7200.0}, "oss1: its clock is 2 h behind"),
        ({"lost_sweeps": 3}, "oss1: 3 sweeps could not be kept since its agent started"),
        ({"spool_bytes": 900, "spool_sweeps": 50}, "oss1: its spool is nearly full: 900 B of 1000 B"),
        ({"needs_full_picture": True}, "oss1: it speaks of records that it never named"),
        ({"problems": ["cannot read \x1b"]}, "oss1: cannot read \\x1b"),
    ],
)
def test_what_is_wrong_with_a_server_is_told_with_what_to_do(server: dict[str, Any], what: str) -> None:
    (problem,) = examine(replies(server=server)).problems
    assert problem.what.startswith(what)
    assert problem.mend


def test_a_server_that_has_no_agent_yet_has_no_other_problem() -> None:
    absent = dict.fromkeys(("spool_bytes", "spool_limit_bytes", "spool_sweeps", "lost_sweeps", "clock_offset_seconds"))
    report = examine(replies(server={**absent, "connected": False, "last_tick_seconds": None}))
    assert whats(report) == ["oss1: its agent was never here"]


def test_the_weightiest_comes_first() -> None:
    report = examine(
        [
            *replies(
                ready={"warnings": ["a sink"], "reasons": ["the disk is full"]}, target={"missing": True}, tick=None
            ),
            *(silent(B, path) for path in QUESTIONS),
        ]
    )
    assert [(problem.weight, problem.aggregator) for problem in report.problems] == [
        (1, A),
        (1, A),
        (1, B),
        (2, A),
        (3, A),
    ]
    assert whats(report)[0] == "it cannot do its work: the disk is full"
    assert whats(report)[2] == "the aggregator does not answer: nobody listens there"
    assert whats(report)[3] == "expected and not reported in the last sweep: home-OST0000"


def test_a_sweep_that_is_too_old_is_a_problem_by_the_aggregators_own_clock() -> None:
    assert whats(examine(replies(now=TICK + 1500))) == []
    assert whats(examine(replies(now=TICK + 1501))) == ["the last sweep is 25 min old"]


def test_a_wrong_token_is_told_once() -> None:
    answers = [
        reply if place < 2 else Reply(url=A, path=reply.path, status=401) for place, reply in enumerate(replies())
    ]
    (problem,) = examine(answers).problems
    assert "--token-file" in problem.mend


def test_what_cannot_be_mended_is_a_note_and_no_problem() -> None:
    report = examine(
        replies(target={"unseen_seconds": 90, "ambiguous_resets": 1, "ambiguous_bytes": 2048, "unread_lines": 3})
    )
    assert report.problems == []
    assert report.notes == [
        (
            "home-OST0000: 90 s in which work may have gone uncounted, 2.0 KiB that nobody can be certain of, "
            "3 lines that were not understood"
        )
    ]
