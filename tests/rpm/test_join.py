"""A server with the package joins its site, and its unit renews the certificate under the unit's restrictions."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from packing.rpm import RELEASES, Package
from support.joining import SITE, server, serving, written
from support.processes import LIMIT_SECONDS, running, wait_for
from support.records import job_stats, put, record
from support.rpm_root import machine

EL9 = Package(RELEASES[1], "x86_64")
PATIENCE = 180.0


def test_a_server_joins_and_its_unit_renews_the_certificate(tmp_path: Path, packages: Mapping[Package, Path]) -> None:
    here = machine(tmp_path)
    installed = here.rpm("-i", "--nodeps", packages[EL9])
    assert installed.returncode == 0, installed.stderr
    put(here.lustre, "proc/fs/lustre/version", "lustre: 2.15.8\n")
    put(here.lustre, "proc/fs/lustre/obdfilter/fs-OST0000/instance", "7\n")
    put(here.lustre, "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", job_stats(record("a", written=3)))
    site_folder = tmp_path / "site"
    site_folder.mkdir()
    with running(site_folder, site=SITE) as site, serving(site, "--lifetime", "20s") as joining:
        (token,) = joining.tokens("oss1")
        (here.root / "root/token").write_text(token)
        state = here.root / "var/lib/harvest-agent"
        user = state.stat().st_uid
        unheard = here.run("harvest-agent", "join", "127.0.0.1:1", "--token-file", "/root/token")
        assert (unheard.returncode, "does not answer" in unheard.stderr) == (2, True), unheard.stderr
        (kept,) = state.glob(".joining-*")
        assert (kept.stat().st_mode & 0o777, kept.stat().st_uid) == (0o600, user)
        joined = here.run("harvest-agent", "join", joining.address, "--token-file", "/root/token")
        assert joined.returncode == 0, joined.stderr
        assert not kept.exists()

        group = (here.root / "etc/harvest").stat().st_gid
        tls = here.root / "var/lib/harvest-agent/tls"
        config = here.root / "etc/harvest/agent.toml"
        told = {path: path.stat() for path in (tls / "tls.key", tls / "tls.crt", config)}
        assert user != 0
        assert [(one.st_mode & 0o777, one.st_uid) for one in told.values()] == [
            (0o600, user),
            (0o644, user),
            (0o640, 0),
        ]
        assert told[config].st_gid == group != 0
        first = (tls / "tls.key").read_bytes()

        with config.open("a") as file:
            file.write('\n[lustre]\nroot = "/lustre"\n')
        log = tmp_path / "agent.log"
        with log.open("wb") as file:
            agent = subprocess.Popen(here.service(), stderr=file)
        try:
            wait_for(lambda: server(site, "oss1")["connected"], "the server to be connected", seconds=PATIENCE)
            wait_for(lambda: b"join.renewed" in log.read_bytes(), "a renewal", seconds=PATIENCE)
            wait_for(lambda: b"TLS files changed" in log.read_bytes(), "another stream", seconds=PATIENCE)
            wait_for(lambda: written(site) == 3, "what the job wrote", seconds=PATIENCE)
        finally:
            agent.terminate()
            code = agent.wait(LIMIT_SECONDS)
        assert code == 0, log.read_text()
        assert (tls / "tls.key").read_bytes() != first
        assert ((tls / "tls.key").stat().st_mode & 0o777, (tls / "tls.key").stat().st_uid) == (0o600, user)
        assert b"renewing the certificate" not in log.read_bytes()
