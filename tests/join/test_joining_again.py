"""A join that breaks off after its token was taken is brought to its end by the same token: processes and TLS."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harvest_pki.folders import read_tls
from support.joining import Joined, Serving, server
from support.processes import LIMIT_SECONDS, Running, wait_for

KILLED_AT = """
import os, signal, sys
from harvest_agent import __main__
from harvest_agent.joining import command, folders
setattr({place}, {name!r}, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
sys.exit(__main__.main(sys.argv[1:]))
"""
KEY_BYTES = 241
"""Of a key in a file: certificates have more."""


def tried(
    machine: Joined, joining: Serving, token: str, *options: str, program: tuple[str, ...] = ("-m", "harvest_agent")
) -> int:
    """Join as far as it goes; return the exit code."""
    files = ("--config", str(machine.config), "--state", str(machine.state))
    words = [sys.executable, *program, "join", joining.address, "--token-file", "-", *files]
    return subprocess.run(
        [*options, *words], input=token, text=True, capture_output=True, check=False, timeout=LIMIT_SECONDS
    ).returncode


def joins_of(joining: Serving, name: str) -> int:
    """Return how many certificates a server got with tokens."""
    return [event["server"] for event in joining.events("a server joined")].count(name)


@pytest.mark.parametrize(
    ("place", "name", "server_name"),
    [
        pytest.param("folders.TlsLink", "take", "oss1", id="nothing-written"),
        pytest.param("command", "_write_config", "oss2", id="certificate-written"),
        pytest.param("folders.KeptKey", "forget", "oss3", id="all-written"),
    ],
)
def test_who_is_killed_after_the_token_was_taken_joins_with_it_again(
    tmp_path: Path, site: Running, joining: Serving, place: str, name: str, server_name: str
) -> None:
    machine, (token,) = Joined(tmp_path), joining.tokens(server_name)
    program = ("-c", KILLED_AT.format(place=place, name=name))
    assert tried(machine, joining, token, program=program) == -signal.SIGKILL
    assert joins_of(joining, server_name) == 1
    other = Joined(tmp_path / "other")
    assert "was used already" in other.join(joining.address, token).stderr  # it is good for one key alone
    ran = machine.join(joining.address, token)
    assert ran.returncode == 0, ran.stderr
    assert joins_of(joining, server_name) == 2
    assert sorted(path.name for path in machine.state.iterdir()) == sorted(["tls", str(machine.tls.readlink())])
    machine.start()
    try:
        wait_for(lambda: server(site, server_name)["connected"], "the server to be connected")
    finally:
        machine.kill()


def test_who_has_no_room_for_a_certificate_joins_with_the_same_token_once_there_is(
    tmp_path: Path, joining: Serving
) -> None:
    machine, (token,) = Joined(tmp_path), joining.tokens("oss4")
    before = joins_of(joining, "oss4")
    assert tried(machine, joining, token, "prlimit", f"--fsize={KEY_BYTES}") == 2
    assert joins_of(joining, "oss4") == before + 1
    assert not machine.tls.exists()
    assert machine.join(joining.address, token).returncode == 0
    read_tls(machine.tls)


def test_who_cannot_write_the_configuration_joins_with_the_same_token_once_he_can(
    tmp_path: Path, joining: Serving
) -> None:
    machine, (token,) = Joined(tmp_path), joining.tokens("oss4")
    machine.config.mkdir(parents=True)
    ran = machine.join(joining.address, token, "--force")
    assert (ran.returncode, "cannot read" in ran.stderr) == (2, True), ran.stderr
    machine.config.rmdir()
    ran = machine.join(joining.address, token)
    assert ran.returncode == 0, ran.stderr
    read_tls(machine.tls)
