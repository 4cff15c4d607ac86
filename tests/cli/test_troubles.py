"""What goes wrong between the command and an aggregator: each is told with what to do, and never with a traceback."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scene import HARVEST
from harvest_cli.asking import Asker
from harvest_cli.config import Aggregator
from support.processes import LIMIT_SECONDS, Running, running

TOKEN = "0123456789abcdef-of-a-test"  # noqa: S105 - it opens nothing else


def harvest(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    ran = subprocess.run(
        [HARVEST, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in ran.stderr
    return ran


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run an aggregator that is reached from elsewhere: HTTPS, and a token."""
    folder = tmp_path_factory.mktemp("guarded")
    token(folder, TOKEN)
    with running(folder, "--http", "0.0.0.0:0", "--http-token-file", str(folder / "token")) as aggregator:
        yield aggregator


def token(folder: Path, text: str) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(0o600)
    return path


def of(aggregator: Running, *left_out: str) -> list[str]:
    """Return all that must be said to reach it, or some of it."""
    port = aggregator.url.rstrip("/").rpartition(":")[2]
    said = {
        "--url": f"https://127.0.0.1:{port}",
        "--ca": str(aggregator.data / "ca/ca.crt"),
        "--server-name": "main.demo.harvest",
        "--token-file": str(aggregator.folder / "token"),
    }
    return [word for option, value in said.items() if option not in left_out for word in (option, value)]


def test_https_is_spoken_with_the_sites_ca_name_and_token(guarded: Running) -> None:
    ran = harvest("fs", "--json", *of(guarded))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [one["name"] for one in json.loads(ran.stdout)["filesystems"]] == ["home", "new", "old"]


def test_the_configuration_file_says_all_of_it_too(guarded: Running, tmp_path: Path) -> None:
    folder = tmp_path / "harvest"
    folder.mkdir()
    said = dict(zip(*[iter(of(guarded))] * 2, strict=True))
    lines = [f'{option[2:].replace("-", "_")} = "{value}"' for option, value in said.items()]
    (folder / "config.toml").write_text("\n".join(["[[aggregator]]", *lines]))
    ran = harvest("servers", XDG_CONFIG_HOME=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        (
            "--token-file",
            "it wants its HTTP token, and was given none or another one: name the file that holds it with",
        ),
        ("--ca", "its certificate is not trusted here"),
        ("--server-name", "its certificate is not of 127.0.0.1: name the one that it has with --server-name"),
    ],
)
def test_whatever_is_missing_is_named(guarded: Running, left_out: str, told: str) -> None:
    ran = harvest("fs", *of(guarded, left_out))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert told in ran.stderr


def test_a_wrong_token_is_said_to_be_wrong_and_doctor_says_so_too(guarded: Running, tmp_path: Path) -> None:
    said = [*of(guarded, "--token-file"), "--token-file", str(token(tmp_path, "another-token-than-this"))]
    ran = harvest("jobs", *said)
    assert ran.returncode == 3
    assert "was given none or another one" in ran.stderr
    doctor = harvest("doctor", *said)
    assert doctor.returncode == 1
    assert "--token-file or HARVEST_TOKEN_FILE" in doctor.stdout
    assert TOKEN not in doctor.stdout + ran.stderr


def test_a_token_that_others_can_read_is_refused(guarded: Running, tmp_path: Path) -> None:
    path = token(tmp_path, TOKEN)
    path.chmod(0o644)
    ran = harvest("fs", *of(guarded, "--token-file"), HARVEST_TOKEN_FILE=str(path))
    assert ran.returncode == 2
    assert f"others can read the token file {path}: chmod 600 {path}" in ran.stderr


def test_plain_http_where_https_is_spoken_is_told_what_to_write(guarded: Running) -> None:
    port = guarded.url.rstrip("/").rpartition(":")[2]
    ran = harvest("fs", "--url", f"http://127.0.0.1:{port}")
    assert ran.returncode == 3
    assert "if it speaks HTTPS there, write https://" in ran.stderr


def test_doctor_says_that_no_agent_ever_came(guarded: Running) -> None:
    ran = harvest("doctor", *of(guarded))
    assert ran.returncode == 1
    assert "no sweep was closed yet" in ran.stdout.splitlines()[0]
    assert "oss1: its agent was never here" in ran.stdout


@contextlib.contextmanager
def answering(text: bytes) -> Iterator[str]:
    """Listen, and say the same to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed: the test is over
                while True:
                    other, _ = listener.accept()
                    with other:
                        other.recv(65536)
                        other.sendall(text)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def http(body: bytes, *, status: int = 200, length: int | None = None) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body) if length is None else length, body)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (http(b"<html>"), "its answer is no JSON: is this the HTTP address of an aggregator?"),
        (http(b'{"', length=100), "its answer broke off"),
        (http(b"\xff\xfe"), "its answer is no JSON"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (b"", "if it speaks HTTPS there, write https://"),
        (http(b'{"error":"\\u001b"}', status=500), "it answers 500: \\x1b"),
        (http(b"[]"), "its answer is not what an aggregator says"),
        (http(b"{}"), "its answer is not what an aggregator says"),
        (http(b'{"filesystems":5,"jobs":7,"clients":3}'), "an aggregator's answer has another shape"),
    ],
    ids=range(9),
)
def test_whoever_is_no_aggregator_is_told_so(text: bytes, told: str) -> None:
    with answering(text) as url:
        for command in (("fs",), ("job", "1")):
            ran = harvest(*command, "--url", url)
            assert (ran.returncode, ran.stdout) == (3, "")
            assert told in ran.stderr


def test_ctrl_c_ends_it_at_once_though_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT_SECONDS)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        heeding = ["env", "--default-signal=INT", HARVEST]  # who started the tests may have them ignore it
        process = subprocess.Popen([*heeding, "fs", "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with listener.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, out, errors) == (130, b"", b"")


def test_who_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        (reply,) = Asker([Aggregator(url=url)], seconds=0.1)([(url, "/healthz")])
    assert (reply.status, reply.trouble) == (0, "no answer within 0.1 s")


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [HARVEST, "completion", "bash"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (2, "harvest: cannot write: No space left on device\n")
