"""The other ways to ask Slurm: slurmrestd over its sockets, pyslurm in a child."""

import base64
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from alive.receiver import make_ca, wait_for
from demo.processes import free_port
from harvest_agent.__main__ import main
from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.commands import Commands
from harvest_agent.slurm.pyslurm_source import Pyslurm
from harvest_agent.slurm.rest import Slurmrestd
from harvest_agent.slurm.sources import SlurmError, Source
from support.fake_slurm import FakeSlurm
from unit.core.slurm_names import Nobody

JOB = {"job_id": 7, "job_state": "RUNNING", "user_name": "alice", "start_time": 100}
RUN = {"job_id": 5, "state": {"current": "FAILED"}, "time": {"start": 50, "end": 60}, "user": "bob"}
NOTHING = {"jobs": [], "errors": [{"error": "Nothing found with query", "error_number": 9003}]}
TOKEN = f"x.{base64.urlsafe_b64encode(json.dumps({'sun': 'harvest'}).encode()).decode().rstrip('=')}.y"


class Api(BaseHTTPRequestHandler):
    """A small slurmrestd: answers, or says why not."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, Any]]
    asked: ClassVar[list[str]]
    wants_token: ClassVar[bool]
    hang: ClassVar[threading.Event | None]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.hang is not None:
            self.hang.wait(30)
        known = self.answers.get(self.path)
        who = (self.headers.get("X-SLURM-USER-NAME"), self.headers.get("X-SLURM-USER-TOKEN"))
        status = 401 if self.wants_token and who != ("harvest", TOKEN) else 200 if known is not None else 404
        body = json.dumps(known).replace("/", "\\/").encode() if status == 200 else b"no"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def address_string(self) -> str:
        return ""

    @override
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def slurmrestd(address: str | tuple[str, int], *, wants_token: bool = False, hang: bool = False) -> Iterator[type[Api]]:
    event = threading.Event() if hang else None
    answers = {
        "/openapi/v3": {"paths": {"/slurm/v0.0.38/jobs": {}, "/slurm/v0.0.9/jobs/": {}, "/slurmdb/v0.0.40/jobs": {}}},
        "/slurm/v0.0.38/jobs": {"jobs": [JOB], "errors": []},
        "/slurmdb/v0.0.38/job/5": {"jobs": [RUN], "errors": []},
        "/slurmdb/v0.0.38/job/6": NOTHING,
    }
    api = type("Api", (Api,), {"answers": answers, "asked": [], "wants_token": wants_token, "hang": event})
    kind = socketserver.ThreadingUnixStreamServer if isinstance(address, str) else socketserver.ThreadingTCPServer
    server: socketserver.BaseServer = kind(address, api)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api
    finally:
        if event is not None:
            event.set()
        server.shutdown()
        thread.join(10)
        server.server_close()


def settings(address: str, **more: Any) -> SlurmSettings:  # noqa: ANN401
    said: dict[str, Any] = {"source": "slurmrestd", "address": address, "limit_seconds": 10.0}
    return SlurmSettings(**said | more)


def shown(source: Source) -> list[str]:
    return [f"{job.id} {job.state} {job.user}" for jobs in source.jobs() for job in jobs]


def test_slurmrestd_is_asked_over_its_socket_the_version_found_out_once(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with slurmrestd(path) as api:
        source = Slurmrestd(settings(f"unix:{path}"), Nobody())
        assert shown(source) == ["7 RUNNING alice"]
        assert shown(source) == ["7 RUNNING alice"]
        assert [(job.id, job.state, job.end_seconds) for job in source.accounted([5, 6])] == [(5, "FAILED", 60)]
    assert api.asked.count("/openapi/v3") == 1


def test_slurmrestd_is_asked_over_tcp_with_a_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"SLURM_JWT={TOKEN}\n")
    port = free_port()
    source = Slurmrestd(settings(f"127.0.0.1:{port}", token_file=str(token), api_version="v0.0.38"), Nobody())
    token.chmod(0o644)
    with slurmrestd(("127.0.0.1", port), wants_token=True):
        with pytest.raises(SlurmError, match="token"):
            shown(source)
        token.chmod(0o600)
        assert shown(source) == ["7 RUNNING alice"]
        with pytest.raises(SlurmError, match="slurmrestd says 401"):
            shown(Slurmrestd(settings(f"127.0.0.1:{port}", api_version="v0.0.38"), Nobody()))
        token.write_text("no token")
        with pytest.raises(SlurmError, match="holds no JSON Web Token"):
            shown(source)


def test_a_slurmrestd_that_is_away_or_another_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    source = Slurmrestd(settings(f"unix:{path}"), Nobody())
    with pytest.raises(SlurmError, match=r"slurmrestd at unix:.*: No such file"):
        shown(source)
    with slurmrestd(path) as api:
        api.answers["/openapi/v3"] = {}
        with pytest.raises(SlurmError, match="offers no jobs"):
            shown(source)
        with pytest.raises(SlurmError, match="is none: 'no'"):
            shown(Slurmrestd(settings(f"unix:{path}", api_version="v0.0.37"), Nobody()))


def test_a_slurmrestd_that_hangs_is_given_up_at_the_limit_or_when_the_agent_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with slurmrestd(path, hang=True) as api:
        with pytest.raises(SlurmError, match=r"did not answer in 0\.2 s"):
            shown(Slurmrestd(settings(f"unix:{path}", limit_seconds=0.2), Nobody()))
        source = Slurmrestd(settings(f"unix:{path}", limit_seconds=600.0), Nobody())
        failed: list[SlurmError] = []

        def ask() -> None:
            try:
                shown(source)
            except SlurmError as error:
                failed.append(error)

        asked = len(api.asked)
        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: len(api.asked) > asked, "the question")
        source.stop()
        thread.join(20)
        assert len(failed) == 1


def commands(slurm: FakeSlurm, limit_seconds: float = 20.0) -> Commands:
    paths = {name: str(slurm.folder / name) for name in ("squeue", "sacct")}
    return Commands(SlurmSettings(limit_seconds=limit_seconds, **paths), Nobody())  # type: ignore[arg-type]


LINE = "7|7|1000|alice|users|physics|batch|RUNNING|1|2|3|1|0:0|0|sleep"
OLD_LINE = LINE.replace("0:0|0|", "")


def forms(slurm: FakeSlurm) -> list[str]:
    """Return how squeue was asked to print."""
    return [call.split()[-1].partition("=")[0] for call in slurm.calls("squeue")]


def test_what_squeue_can_print_is_found_out_once(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    source = commands(slurm)
    slurm.does("fail")
    with pytest.raises(SlurmError, match="Unable to contact"):
        shown(source)
    slurm.does("well")
    assert shown(source) == [], "an empty queue says nothing of this"
    slurm.prints_of_old(OLD_LINE)
    assert [shown(source) for _ in range(3)] == [["7 RUNNING alice"]] * 3
    assert forms(slurm) == ["--json", *("--json", "--Format", "--format") * 2, *("--format",) * 2]


def test_a_slurm_that_does_not_answer_is_asked_once_whatever_squeue_can_print(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    source = commands(slurm, limit_seconds=2.0)  # what answers at all must do so in time, on a busy machine too
    slurm.shows(JOB)
    slurm.prints(LINE)
    slurm.does("no-controller")
    with pytest.raises(SlurmError, match="slurm_load_jobs: Unspecified error"):
        shown(source)
    slurm.does("hang")
    for _ in range(2):
        with pytest.raises(SlurmError, match="did not answer in 2 s"):
            shown(source)
    assert forms(slurm) == ["--json", "--json", "--Format"], "so many jobs may be too many for one of them"


def test_json_is_taken_where_there_is_any(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    slurm.shows(JOB)
    source = commands(slurm)
    assert [shown(source) for _ in range(2)] == [["7 RUNNING alice"]] * 2
    slurm.does("fail")
    with pytest.raises(SlurmError, match="Unable to contact"):
        shown(source)
    assert forms(slurm) == ["--json"] * 3


def test_a_large_table_is_asked_for_as_text(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    slurm.shows(*(JOB | {"job_id": number} for number in range(1, 5002)))
    slurm.prints(LINE)
    source = commands(slurm)
    assert len(shown(source)) == 5001
    assert [len(shown(source)) for _ in range(2)] == [1, 1]
    assert forms(slurm) == ["--json", "--Format", "--Format"]


def test_a_command_that_prints_nonsense_for_ever_is_ended_before_another_is_begun(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    slurm.does("flood")
    slurm.prints(LINE)
    assert shown(commands(slurm)) == ["7 RUNNING alice"]
    assert len(slurm.hung()) == 1
    assert not (slurm.folder / "two-at-once").exists()


def test_nobodys_own_format_reaches_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "SQUEUE_STATES"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    (tmp_path / "squeue").write_text("#!/bin/sh\nenv | grep -E '^(SQUEUE|SACCT|SLURM)' | sort >&2; exit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    for conf, seen in (("", "/etc/slurm.conf"), ("/our/slurm.conf", "/our/slurm.conf")):
        config = SlurmSettings(squeue=str(tmp_path / "squeue"), slurm_conf=conf)
        with pytest.raises(SlurmError, match=f"code 1: SLURM_CONF={seen} SLURM_TIME_FORMAT=%s SQUEUE_LOCAL=1$"):
            shown(Commands(config, Nobody()))


def test_a_command_that_is_missing_is_named() -> None:
    with pytest.raises(SlurmError, match="there is no command /nowhere/squeue"):
        shown(Commands(SlurmSettings(squeue="/nowhere/squeue"), Nobody()))


def test_a_cluster_without_accounting_knows_nothing_more(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    (slurm.folder / "sacct").write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2; exit 1\n")
    assert commands(slurm).accounted([7]) == []


def interpreter(folder: Path, code: str) -> str:
    """Make a Python of its own that has a pyslurm."""
    (folder / "pyslurm.py").write_text(code)
    path = folder / "python"
    path.write_text(f'#!/bin/sh\n[ "$1" = -I ] || exit 9\nshift\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


RECORDED = Path(__file__).parents[1] / "data/slurm/pyslurm/22.5.1.json"
OLD_API = f"""
import json
with open({str(RECORDED)!r}) as file:
    said = json.load(file)
class job:
    def get(self):
        return {{one["job_id"]: one for one in said["controller"]}}
class slurmdb_jobs:
    def get(self, jobids):
        return {{one["jobid"]: one for one in said["accounting"] if one["jobid"] in jobids}}
"""
"""As the real one answered; its jobs are those of tests/data/slurm/22.05."""


def test_pyslurm_is_asked_in_a_child_of_its_own_interpreter(tmp_path: Path) -> None:
    config = SlurmSettings(source="pyslurm", interpreter=interpreter(tmp_path, OLD_API))
    source = Pyslurm(config, Nobody())
    jobs = shown(source)
    assert len(jobs) == 15
    assert {"1 RUNNING u5", "4 PENDING u33", "7 SUSPENDED u9", "11 FAILED u34", "13 CANCELLED u9"} <= set(jobs)
    assert [(job.id, job.state, job.exit_code, job.user) for job in source.accounted([11, 12, 99])] == [
        (11, "FAILED", "3:0", "backup"),
        (12, "FAILED", "0:9", "games"),
    ]


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import os; os._exit(1)", "failed with code 1"),
        ("import os; os._exit(0)", "the child ended too early"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed with code -11"),
        ("raise ImportError('libslurm.so.38: cannot open shared object file')", "libslurm.so.38: cannot open"),
        ("", "AttributeError"),
        ("import time; time.sleep(3600)", "did not answer in 2 s"),
    ],
)
def test_a_pyslurm_that_ends_its_interpreter_or_hangs_is_named(tmp_path: Path, code: str, problem: str) -> None:
    limit = 2.0 if "sleep" in code else 60.0
    config = SlurmSettings(source="pyslurm", interpreter=interpreter(tmp_path, code), limit_seconds=limit)
    with pytest.raises(SlurmError, match=problem):
        shown(Pyslurm(config, Nobody()))


def test_the_doctor_says_how_slurm_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    slurm.prints(LINE)
    config = tmp_path / "agent.toml"
    tls = tmp_path / "tls"
    make_ca(tmp_path).write_agent(tls, "slurm1", now=datetime.now(UTC).replace(microsecond=0))
    files = {"ca": f"{tls}/ca.crt", "cert": f"{tls}/tls.crt", "key": f"{tls}/tls.key"}
    uplink = {"address": "h:1", "server_name": "main.example.harvest", **files}
    said = "".join(f'{name} = "{value}"\n' for name, value in uplink.items())
    config.write_text(f"[[uplink]]\n{said}{slurm.section()}")
    command = ["doctor", "--root", str(tmp_path), "--config", str(config)]

    assert main(command) == 0
    out = capsys.readouterr().out
    assert "identity  slurm1 of site example; its certificate ends in 29 days, not renewed by the agent" in out
    assert "slurm     command: 1 jobs (1 RUNNING) in " in out
    assert "accounting answers" in out
    slurm.does("fail")
    assert main(command) == 1
    out = capsys.readouterr().out
    assert "PROBLEM   Slurm does not answer: squeue failed with code 1: slurm_load_jobs error" in out
    assert "mend it: run `squeue" in out
