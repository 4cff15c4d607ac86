"""Every command against two real aggregators: what it says is what they say, put together."""

import json
from pathlib import Path

import pytest

from cli.scene import Json, Scene, rates

COMMANDS = (
    ("top", "--once"),
    ("top", "--once", "--by", "user"),
    ("top", "--once", "--by", "account", "--fs", "home"),
    ("top", "--once", "--by", "process", "--sort", "ops"),
    ("top", "--once", "--by", "node", "--sort", "write"),
    ("top", "--once", "--server", "mds1", "--sort", "metadata"),
    ("top", "--once", "--target", "home-OST0000", "--sort", "write"),
    ("jobs",),
    ("jobs", "--fs", "scratch", "--sort", "write_bytes", "--limit", "3"),
    ("jobs", "--server", "oss1"),
    ("fs",),
    ("fs", "home"),
    ("servers",),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_tables_for_people_come_without_complaints(scene: Scene, arguments: tuple[str, ...]) -> None:
    ran = scene.run(*arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) > 1


@pytest.mark.parametrize("arguments", COMMANDS[1:6], ids=" ".join)
def test_every_command_has_json_for_programs(scene: Scene, arguments: tuple[str, ...]) -> None:
    assert scene.json(*arguments)["unanswered"] == []


def by_id(jobs: list[Json]) -> dict[str, Json]:
    return {job["job"]: job for job in jobs}


def test_jobs_are_put_together_file_system_by_file_system(scene: Scene) -> None:
    scratch, home = (by_id(answer["jobs"]) for answer in scene.told("jobs?limit=0"))

    shown = scene.json("jobs", "--limit", "0")

    assert {job["job"]: job["filesystems"] for job in shown["jobs"]} == {
        job: {**scratch.get(job, {}).get("filesystems", {}), **home.get(job, {}).get("filesystems", {})}
        for job in {**scratch, **home}
    }
    assert shown["matched"] == shown["shown"] == len({**scratch, **home})


def test_pages_put_one_behind_the_other_are_the_whole(scene: Scene) -> None:
    whole = [job["job"] for job in scene.json("jobs", "--limit", "0", "--sort", "job")["jobs"]]
    size = len(whole) // 2
    pages = [
        scene.json("jobs", "--limit", str(size), "--offset", str(first), "--sort", "job")
        for first in range(0, len(whole), size)
    ]
    assert [job["job"] for page in pages for job in page["jobs"]] == whole


def test_one_job_is_shown_with_both_file_systems(scene: Scene) -> None:
    both = [by_id(answer["jobs"]) for answer in scene.told("jobs?limit=0")]
    shared = sorted(both[0].keys() & both[1].keys())
    one = scene.json("job", "--", shared[0])
    assert one["filesystems"] == {**both[0][shared[0]]["filesystems"], **both[1][shared[0]]["filesystems"]}
    assert scene.run("job", "--", shared[0]).returncode == 0


def test_top_has_those_first_that_do_most(scene: Scene) -> None:
    merged = scene.json("jobs", "--limit", "0")["jobs"]
    for sort in ("read", "write", "ops", "metadata"):
        most = sorted((rates(job)[sort] for job in merged), reverse=True)[:3]
        assert [rates(job)[sort] for job in scene.json("top", "--sort", sort, "--limit", "3")["jobs"]] == most


def test_a_node_is_what_both_say_of_it(scene: Scene) -> None:
    both = [{client["nid"]: client["filesystems"] for client in answer["clients"]} for answer in scene.told("clients")]
    nid = min(both[0].keys() & both[1].keys())
    (client,) = scene.json("node", nid)["clients"]
    assert client["filesystems"] == {**both[0][nid], **both[1][nid]}


def test_file_systems_servers_and_targets_are_those_of_both(scene: Scene) -> None:
    assert [one["name"] for one in scene.json("fs")["filesystems"]] == ["home", "scratch"]
    servers = scene.json("servers")["servers"]
    assert sorted((one["name"], one["aggregator"]) for one in servers) == sorted(
        (name, url) for name in ("mds1", "oss1") for url in scene.urls
    )
    assert scene.json("fs", "home")["targets"][0]["name"].startswith("home-")


def test_an_unknown_job_is_told_with_those_that_are_near(scene: Scene) -> None:
    ran = scene.run("job", "1000000x")
    assert ran.returncode == 1
    assert "no job 1000000x is known\n" in ran.stderr
    assert "did you mean 1000000" in ran.stderr


def test_an_unknown_server_is_told_with_those_that_there_are(scene: Scene) -> None:
    ran = scene.run("top", "--server", "mds9")
    assert (ran.returncode, ran.stderr) == (2, "harvest: `server` must be a server of the site: mds1, oss1\n")


def test_a_user_who_did_nothing_is_not_known_and_that_is_said(scene: Scene) -> None:
    ran = scene.run("user", "ada")
    assert ran.returncode == 1
    assert ran.stderr.startswith("harvest: nobody called 'ada' is known to have done anything")


def test_a_user_of_programs_outside_jobs_has_a_sheet(scene: Scene) -> None:
    answers = [(one, one.get("/api/v1/jobs?limit=0")["jobs"]) for one in (scene.scratch, scene.home)]
    uid = next(job["user"] for _, jobs in answers for job in jobs if job["process"] is not None)
    told = scene.json("user", uid)
    asked = [one.get(f"/api/v1/users/{uid}") for one, jobs in answers if uid in {job["user"] for job in jobs}]
    assert told["user"] == uid
    assert told["totals"]["iops"] == sum(answer["totals"]["iops"] for answer in asked)
    assert {job["user"] for job in told["jobs"]} == {uid}
    assert uid in scene.run("user", uid).stdout


def test_one_that_does_not_answer_is_named_and_the_rest_is_shown(scene: Scene) -> None:
    ran = scene.run("fs", "--json", urls=[scene.urls[0], "http://127.0.0.1:1"])
    assert ran.returncode == 0
    answer = json.loads(ran.stdout)
    assert [one["name"] for one in answer["filesystems"]] == ["scratch"]
    assert [one["url"] for one in answer["unanswered"]] == ["http://127.0.0.1:1"]
    assert ran.stderr.startswith("harvest: warning: without http://127.0.0.1:1: nobody listens on 127.0.0.1:1: is the")


def test_if_nobody_answers_the_exit_code_says_so(scene: Scene) -> None:
    for arguments in (("fs",), ("job", "1"), ("top",), ("jobs", "--json")):
        ran = scene.run(*arguments, urls=["http://127.0.0.1:1"])
        assert (ran.returncode, ran.stdout) == (3, "")
        assert ran.stderr.startswith("harvest: http://127.0.0.1:1: nobody listens")


def test_doctor_names_the_agents_that_are_away(scene: Scene) -> None:
    ran = scene.run("doctor")
    assert ran.returncode == 1
    assert (
        f"PROBLEM   {scene.urls[1]}: oss1: its agent is not connected\n          mend it: on it: systemctl"
        in ran.stdout
    )
    problems = json.loads(scene.run("doctor", "--json", urls=[scene.urls[0], "http://127.0.0.1:1"]).stdout)["problems"]
    assert [one["weight"] for one in problems] == sorted(one["weight"] for one in problems)
    assert problems[0]["aggregator"] == "http://127.0.0.1:1"


def test_aggregators_are_taken_from_the_configuration_file(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / ".config/harvest"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("".join(f'[[aggregator]]\nurl = "{url}"\n' for url in scene.urls))
    ran = scene.run("fs", "--json", urls=[], HOME=str(tmp_path))
    assert len(json.loads(ran.stdout)["filesystems"]) == 2
    (folder / "config.toml").write_text('[[aggregator]]\nadress = "x"\n')
    ran = scene.run("fs", urls=[], HOME=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "unknown key 'adress'; known are url, token_file, ca, server_name" in ran.stderr
