"""``harvest top`` in a real terminal: what stands on the screen is what the API says."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.scene import HARVEST, Json, Scene, rates
from harvest_cli.units import count, name, per_second, size
from support.terminals import Terminal, terminal

SORTS = ("read", "write", "ops", "metadata")
HERE = ("read_bytes", "write_bytes", "iops")
KEYS = {"read": "r", "write": "w", "ops": "o", "metadata": "m"}
ENDED = "; echo ended with $?; stty -a | grep -oE ' -?echo | -?icanon '; read rest"


@contextmanager
def looking(scene: Scene, folder: Path, *arguments: str, **environment: str) -> Iterator[Terminal]:
    """Look at ``harvest top``; after its end the shell says with what, and how the terminal is."""
    command = shlex.join([HARVEST, "top", "--interval", "0.3", *arguments]) + ENDED
    with terminal(folder, command, height=40, width=160, **{**scene.environment(), **environment}) as screen:
        yield screen


def is_at(by: str, sort: str) -> Callable[[list[str]], bool]:
    return lambda lines: f"by {by}, most {sort} first" in lines[0] and " · at " in lines[0]


def numbers(found: dict[str, float | None]) -> list[str]:
    return [
        *(per_second(size(found[key])) for key in ("read", "write")),
        *(per_second(count(found[key])) for key in ("ops", "metadata")),
    ]


def cells(line: str) -> list[str]:
    """Return the cells of a line: names and numbers may hold one blank, two are between columns."""
    return re.split(r" {2,}", line)


def table(lines: list[str]) -> dict[str, list[str]]:
    """Return the last four columns by the first one."""
    rows = [cells(line) for line in lines[2:-1] if line]
    return {row[0]: row[-4:] for row in rows}


def processes(lines: list[str]) -> set[str]:
    return set() if lines[1] == "nobody does anything there now" else set(table(lines))


def jobs_now(scene: Scene) -> dict[str, dict[str, float | None]]:
    """Return what each job does, added up here and not by the command."""
    found: dict[str, dict[str, float | None]] = {}
    for answer in scene.told("jobs?limit=0"):
        for job in answer["jobs"]:
            mine = found.setdefault(name(job["job"]), dict.fromkeys(SORTS, 0.0))
            for key, value in rates(job).items():
                mine[key] = (mine[key] or 0) + value
    return {job: mine for job, mine in found.items() if any(mine.values())}


def nodes_now(scene: Scene) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    for answer in scene.told("clients"):
        for client in answer["clients"]:
            for on in client["filesystems"].values():
                _add(found.setdefault(client["nid"], dict.fromkeys(SORTS)), on)
    return {node: mine for node, mine in found.items() if any(mine.values())}


def _add(mine: dict[str, float | None], on: Json) -> None:
    parts = {"read": ["read_bytes"], "write": ["write_bytes"], "ops": ["oss_ops", "mds_ops"], "metadata": ["mds_ops"]}
    for key, names in parts.items():
        for value in (on[part] for part in names):
            if value is not None:
                mine[key] = (mine[key] or 0) + value


def check(screen: Terminal, by: str, sort: str, now: dict[str, dict[str, float | None]]) -> None:
    """Wait until a screen shows everybody, with these numbers and in order; a look in passing may see half of it."""
    wanted = {printed: numbers(mine) for printed, mine in now.items()}

    def is_right(lines: list[str]) -> bool:
        order = [now[printed][sort] or 0 for printed in table(lines) if printed in now]
        is_whole = is_at(by, sort)(lines) and lines[-1].startswith("sort: Read Write Ops Metadata")
        return is_whole and table(lines) == wanted and order == sorted(order, reverse=True)

    screen.wait_for(is_right, f"{by} by {sort}, in order: {wanted}")


def test_jobs_on_the_screen_are_those_of_the_api_in_every_order(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path) as screen:
        for sort in ("read", "ops", "write", "metadata"):
            screen.press(KEYS[sort])
            check(screen, "job", sort, jobs_now(scene))


def test_keys_change_to_nodes_and_processes_and_q_gives_the_terminal_back(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path, "--sort", "write") as screen:
        screen.wait_for(is_at("job", "write"), "jobs")
        screen.press("Up", "F5", "n")
        check(screen, "node", "write", nodes_now(scene))
        screen.press("p", "o")
        busy = {job.rpartition(".")[0] for job in jobs_now(scene) if job.rpartition(".")[2].isdigit() and "." in job}
        screen.wait_for(lambda lines: is_at("process", "ops")(lines) and processes(lines) == busy, f"processes: {busy}")
        screen.press("q")
        screen.wait_for(lambda lines: lines[:3] == ["ended with 0", " icanon", " echo"], "a terminal as before")


def test_on_a_server_the_screen_says_what_is_done_most_often(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path, "--server", "mds1", "--sort", "ops") as screen:
        told = [job for answer in scene.told("jobs?server=mds1&limit=0") for job in answer["jobs"]]
        here = {name(job["job"]): job["here"]["ops"] for job in told if any(job["here"][key] for key in HERE)}
        shared = {name(job["job"]) for job in told if [one["job"] for one in told].count(job["job"]) > 1}

        def is_right(lines: list[str]) -> bool:
            rows = {cells(line)[0]: cells(line)[-1] for line in lines[2:-1] if line}
            if " · server mds1 · at " not in lines[0] or rows.keys() != here.keys():
                return False
            often = {job: {op: times for op, times in here[job].items() if not op.endswith("_bytes")} for job in rows}
            return all(
                often[job].get(rows[job].split()[0]) == max(often[job].values(), default=None)
                for job in rows.keys() - shared
            )

        screen.wait_for(is_right, f"what is done most often: {here}")


def test_a_smaller_window_has_fewer_columns_and_whole_numbers(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path, "--sort", "write") as screen:
        wanted = {printed: numbers(mine) for printed, mine in jobs_now(scene).items()}
        screen.wait_for(lambda lines: "CLUSTER" in "".join(lines[1:2]) and table(lines) == wanted, "jobs")
        screen.resize(64, 8)

        def is_right(lines: list[str]) -> bool:
            is_narrow = len(lines) == 8 and "JOB" in lines[1] and "CLUSTER" not in lines[1]
            return is_narrow and len(table(lines)) > 2 and table(lines).items() <= wanted.items()

        screen.wait_for(is_right, f"fewer columns of {wanted}")


@pytest.mark.parametrize("key", ["C-c", "C-d"])
def test_ctrl_c_ends_it_too_and_other_keys_do_not(scene: Scene, tmp_path: Path, key: str) -> None:
    with looking(scene, tmp_path) as screen:
        screen.wait_for(is_at("job", "read"), "jobs")
        screen.press(key)
        if key == "C-d":
            screen.press("w")
            screen.wait_for(is_at("job", "write"), "jobs by write")
            screen.press("q")
        lines = screen.wait_for(lambda lines: "ended with 0" in lines, "the end")
        assert not any("Traceback" in line for line in lines)


def test_a_signal_that_ends_it_gives_the_terminal_back(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path) as screen:
        screen.wait_for(is_at("job", "read"), "jobs")
        shell = screen.tmux("display-message", "-p", "#{pane_pid}").strip()
        (harvest,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(harvest), signal.SIGTERM)
        screen.wait_for(lambda lines: lines[:3] == ["ended with 143", " icanon", " echo"], "a terminal as before")


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(scene: Scene, tmp_path: Path) -> None:
    shell = "env 'PS1=> ' bash --norc --noprofile -i"
    with terminal(tmp_path, shell, width=120, height=30, **scene.environment()) as screen:
        screen.type(shlex.join([HARVEST, "top", "--interval", "0.3"]))
        screen.wait_for(is_at("job", "read"), "jobs")
        screen.press("C-z")
        screen.wait_for(lambda lines: any("Stopped" in line for line in lines), "the shell")
        screen.type("echo shell $((40 + 2))")
        screen.wait_for(lambda lines: "shell 42" in lines, "the shell's answer")
        screen.type("fg")
        screen.wait_for(is_at("job", "read"), "jobs again")
        screen.press("w")
        screen.wait_for(is_at("job", "write"), "jobs by write")
        screen.press("q")
        screen.wait_for(lambda lines: lines[-1] == ">", "the shell again")  # what is typed before that is keys
        screen.type("echo ended with $?")
        screen.wait_for(lambda lines: "ended with 0" in lines, "the end")


def test_keys_work_while_an_aggregator_hangs(scene: Scene, tmp_path: Path) -> None:
    with looking(scene, tmp_path) as screen:
        screen.wait_for(is_at("job", "read"), "jobs")
        scene.home.aggregator.pause()
        try:
            screen.press("u", "w")
            screen.wait_for(lambda lines: "by user, most write first · asking" in lines[0], "what is asked for")
            screen.press("q")
            screen.wait_for(lambda lines: "ended with 0" in lines, "the end")
        finally:
            scene.home.aggregator.resume()


def test_who_does_not_answer_is_named_on_the_screen(scene: Scene, tmp_path: Path) -> None:
    urls = " ".join([scene.urls[0], "http://127.0.0.1:1"])
    with looking(scene, tmp_path, HARVEST_URL=urls) as screen:
        told = "without http://127.0.0.1:1: nobody listens on 127.0.0.1:1"
        screen.wait_for(lambda lines: any(line.startswith(told) for line in lines), told)


def test_a_dumb_terminal_gets_one_table_after_the_other(scene: Scene, tmp_path: Path) -> None:
    command = shlex.join(["env", "TERM=dumb", HARVEST, "top", "--interval", "0.3", "--limit", "1"]) + ENDED
    with terminal(tmp_path, command, width=120, height=30, **scene.environment()) as screen:
        screen.wait_for(lambda lines: sum("harvest top · by job" in line for line in lines) > 1, "two tables")
        screen.press("C-c")
        screen.wait_for(lambda lines: any(line.endswith("ended with 130") for line in lines), "the end")


def piped(scene: Scene, command: str) -> "subprocess.CompletedProcess[str]":
    script = f"set -o pipefail; {command}; echo ${{PIPESTATUS[0]}} >&2"
    environment = {**scene.environment(), "H": HARVEST}
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "command", ["$H top --interval 0.2 | head -n 12", "$H jobs --limit 0 | head -n 1", "$H job --help | true"]
)
def test_who_has_read_enough_is_not_complained_to(scene: Scene, command: str) -> None:
    ran = piped(scene, command)
    assert ran.stderr == "0\n"


def test_without_a_terminal_lines_are_as_long_as_they_are(scene: Scene) -> None:
    ran = piped(scene, "$H top --interval 0.2 | head -n 60")
    assert ran.stdout.count("harvest top · by job, most read first") > 1
    assert "\x1b" not in ran.stdout
    assert "…" not in ran.stdout
