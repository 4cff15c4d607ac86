"""Commands from the command line to what is printed, with aggregators that are made up."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from harvest_cli.__main__ import main
from harvest_cli.aggregators import NotKnownError
from harvest_cli.arguments import COMMANDS as DESCRIBED
from harvest_cli.arguments import moment, parser
from harvest_cli.commands import COMMANDS, Desk
from harvest_cli.replies import at
from unit.cli.telling import TICK, A, B, Telling, job, silent, work

CLIENT = {
    "nid": "10.1.0.7@o2ib",
    "host": "vu17.example",
    "cluster": "vu",
    "live": True,
    "filesystems": {"home": {"read_bytes": 1.0, "write_bytes": 0.0, "oss_ops": None, "mds_ops": 3.0}},
}
CLIENTS = {"tick_seconds": TICK, "clients": [CLIENT]}
JOBS = {
    A: [
        job("4711", "vu", user="ada", ost=work(100, rate=5)),
        job("4712", "vu", array="4700_12"),
        job("9", "xe"),
        job("9", "vu"),
    ],
    B: [job("4711", "vu", fs="data", ost=work(23))],
}
OTHER = {(url, at("clients")): CLIENTS for url in (A, B)}


def run(*arguments: str, telling: Telling | None = None) -> tuple[int, str, Desk]:
    """Run a command; return its exit code and what it printed."""
    telling = telling or Telling(JOBS, OTHER)
    options = parser().parse_args(arguments)
    out = io.StringIO()
    desk = Desk(options, telling.aggregators.urls, telling, Console(file=out, width=500))
    return COMMANDS[options.command](desk), out.getvalue(), desk


def told(capsys: pytest.CaptureFixture[str], *arguments: str, telling: Telling | None = None) -> Any:  # noqa: ANN401
    run(*arguments, "--json", telling=telling)
    return json.loads(capsys.readouterr().out)


def test_every_command_that_is_described_is_there() -> None:
    assert {name for name, command in DESCRIBED.items() if command.asks} == set(COMMANDS)


def test_a_job_is_shown_with_what_all_aggregators_know() -> None:
    code, text, _ = run("job", "4711")
    assert code == 0
    assert "ada" in text
    assert [line.split()[0] for line in text.splitlines() if " ost " in line] == ["data", "home"]


def test_a_job_for_programs_has_the_apis_shape(capsys: pytest.CaptureFixture[str]) -> None:
    one = told(capsys, "job", "4711")
    assert (one["job"], one["cluster"], one["tick_seconds"], one["unanswered"]) == ("4711", "vu", TICK, [])
    assert {fs: work["ost"]["read_bytes"] for fs, work in one["filesystems"].items()} == {"home": 100, "data": 23}


def test_an_array_task_is_found_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "job", "4700_12")["job"] == "4712"


def test_a_number_of_two_clusters_is_asked_about() -> None:
    with pytest.raises(NotKnownError, match="several jobs 9: say --cluster, one of vu, xe"):
        run("job", "9")
    assert run("job", "9", "--cluster", "xe")[0] == 0


def test_an_unknown_job_comes_with_those_that_are_near() -> None:
    with pytest.raises(NotKnownError, match=r"no job 4713 is known\ndid you mean 4711\?"):
        run("job", "4713")
    with pytest.raises(NotKnownError, match="no job 4711 of cluster xe is known\nthere is one of cluster vu"):
        run("job", "4711", "--cluster", "xe")


def test_a_node_is_known_by_name_short_name_or_address() -> None:
    for node in ("vu17.example", "vu17", "10.1.0.7@o2ib"):
        assert "10.1.0.7@o2ib" in run("node", node)[1]
    with pytest.raises(NotKnownError, match=r"no node vu18 is known\ndid you mean vu17\?"):
        run("node", "vu18")


def test_top_for_programs_is_one_answer_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert [one["job"] for one in told(capsys, "top", "--limit", "1")["jobs"]] == ["4711"]
    assert len(told(capsys, "top", "--limit", "0")["jobs"]) == 4
    rows = told(capsys, "top", "--by", "user", "--limit", "1")["rows"]
    assert [row["name"] for row in rows] == ["ada"]
    assert told(capsys, "top", "--by", "node")["clients"] == [{**CLIENT, "filesystems": {"home": OTHERS_TWICE}}]


OTHERS_TWICE = {"read_bytes": 2.0, "write_bytes": 0.0, "oss_ops": None, "mds_ops": 6.0}
"""Both made-up aggregators speak of the same node."""


def test_top_prints_one_table_where_it_is_told_to() -> None:
    code, text, _ = run("top", "--once")
    assert code == 0
    assert text.splitlines()[1].split()[:2] == ["JOB", "USER"]
    assert text.splitlines()[2].split()[:2] == ["4711", "ada"]
    assert len(text.splitlines()) == 3


def test_names_are_never_taken_for_markup() -> None:
    telling = Telling({A: [job("[bold]x[/bold]", ost=work(rate=1))]})
    assert "[bold]x[/bold]" in run("top", "--once", telling=telling)[1]


def test_an_aggregator_that_is_silent_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    path = at("jobs", sort="job", limit=50)
    telling = Telling({A: [job("1")]}, {(B, path): silent(B, path)})
    answer = told(capsys, "jobs", "--sort", "job", telling=telling)
    assert answer["unanswered"] == [{"url": B, "error": "nobody listens there"}]


def test_a_file_system_that_is_not_there_is_told_with_those_that_are() -> None:
    one = {"name": "home", "fsname": "home", "servers": [], "targets": 0, "jobs": 0, "ost": work(), "mdt": work()}
    telling = Telling({}, {(A, at("filesystems")): {"tick_seconds": TICK, "filesystems": [one]}})
    assert "home" in run("fs", telling=telling)[1]
    with pytest.raises(NotKnownError, match="no file system scratch is known: there are home"):
        run("fs", "scratch", telling=telling)


def test_who_is_asked_may_be_said_before_or_after_the_command() -> None:
    for arguments in (["--url", "http://x:1", "--json", "fs"], ["fs", "--json", "--url", "http://x:1"]):
        options = parser().parse_args(arguments)
        assert (options.url, options.json, options.ca) == (["http://x:1"], True, None)
    assert parser().parse_args(["fs"]).json is False


def test_times_are_seconds_or_as_clocks_show_them() -> None:
    assert moment("1700000000") == TICK
    assert moment("2023-11-14T22:13:20+00:00") == TICK


@pytest.mark.parametrize(
    "arguments",
    [
        ["top", "--interval", "0"],
        ["top", "--by", "x"],
        ["jobs", "--limit", "-1"],
        ["job"],
        ["job", "1", "--start", "x"],
        [],
    ],
)
def test_what_makes_no_sense_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: harvest" in capsys.readouterr().err


def test_a_wrong_address_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fs", "--url", "localhost:8024"]) == 2
    assert capsys.readouterr().err.startswith(
        "harvest: 'localhost:8024' is no address of an aggregator: write one such as"
    )


def test_every_command_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in DESCRIBED:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"\n  harvest {command}" in capsys.readouterr().out.replace("  source <(harvest", "  harvest")
