"""Certificates that live for seconds are renewed by a running agent, whatever happens around it."""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from harvest_pki.certificates import fingerprint, load_bundle, load_certificate
from harvest_pki.checks import issued_by
from harvest_pki.folders import CaFolder, read_tls
from support.joining import SITE, Joined, agent, server, serving, started, written
from support.processes import running, wait_for

PATIENCE = 120.0
"""For what takes some lifetimes on a machine that is busy."""


def certificate_end(here: Joined) -> float:
    return load_certificate((here.tls / "tls.crt").read_bytes()).not_valid_after_utc.timestamp()


def test_a_certificate_is_renewed_again_and_again_and_after_its_end(tmp_path: Path) -> None:
    """While the CA is away the agent keeps trying and says so; once it is back, the stream goes on exactly."""
    with (
        running(tmp_path, site=SITE) as site,
        serving(site, "--lifetime", "9s") as joining,
        started(tmp_path, joining) as here,
    ):
        seen = {here.serial}

        def renewed(count: int) -> bool:
            seen.add(here.serial)
            return len(seen) > count

        wait_for(lambda: renewed(2), "a second renewal", seconds=PATIENCE)
        wait_for(lambda: here.said().count("join.renewed") >= 2, "the log to say so", seconds=PATIENCE)
        here.show(a=2)
        wait_for(lambda: written(site) == 2, "what the job wrote", seconds=PATIENCE)

        joining.stop()
        last = here.serial
        wait_for(lambda: time.time() > certificate_end(here), "the certificate's end", seconds=PATIENCE)
        here.show(a=3)
        wait_for(lambda: "renewing the certificate fails: " in here.said(), "a problem", seconds=PATIENCE)
        assert here.serial == last
        joining.start()
        wait_for(lambda: here.serial != last, "a renewal after the end", seconds=PATIENCE)
        wait_for(lambda: written(site) == 3, "what the job wrote meanwhile", seconds=PATIENCE)
        assert len(joining.events("a certificate was renewed")) >= 3
        assert joining.events("renewing was refused") == []


def test_who_cannot_renew_says_so_everywhere_long_before_the_end(tmp_path: Path) -> None:
    """In the aggregator's API, from which `harvest doctor` reads, in its metric, and in the server's own doctor."""
    with running(tmp_path, site=SITE) as site, serving(site) as joining:
        here = Joined(tmp_path / "oss1")
        assert here.join(joining.address, *joining.tokens("oss1")).returncode == 0
        joining.stop()
        here.start()
        try:
            wait_for(lambda: server(site, "oss1").get("problems"), "the agent to say what is wrong", seconds=PATIENCE)
            (problem,) = server(site, "oss1")["problems"]
            assert problem.startswith("renewing the certificate fails: ")
            assert problem.endswith("It is valid for 89 days more")
            with urllib.request.urlopen(f"{site.url}metrics") as page:  # noqa: S310
                lines = page.read().decode().splitlines()
            (line,) = [line for line in lines if line.startswith("harvest_agent_certificate_end_seconds{")]
            assert (line.split()[0], float(line.split()[1])) == (
                'harvest_agent_certificate_end_seconds{agent="oss1"}',
                certificate_end(here),
            )
            said = agent("doctor", "--config", str(here.config), "--root", str(here.root)).stdout
            assert f"its certificate ends in 89 days, renewed at {joining.address}" in said
            joining.start()
            wait_for(lambda: not server(site, "oss1")["problems"], "the agent to be well", seconds=PATIENCE)
        finally:
            here.kill()


def test_a_full_disk_leaves_the_old_certificate_is_told_and_mended_by_itself(tmp_path: Path) -> None:
    """The agent's own child: it may write a key, which is short, and no certificate, as on a disk that fills up."""
    with running(tmp_path, site=SITE) as site, serving(site, "--lifetime", "3s") as joining:
        here = Joined(tmp_path / "oss1")
        assert here.join(joining.address, *joining.tokens("oss1")).returncode == 0
        before, asked = here.serial, json.dumps({"address": joining.address, "folder": str(here.tls)})

        def looked(*limit: str) -> dict[str, Any]:
            child = [*limit, sys.executable, "-m", "harvest_agent.joining.looking"]
            ran = subprocess.run(child, input=asked, capture_output=True, text=True, check=True)
            said: dict[str, Any] = json.loads(ran.stdout)
            return said

        wait_for(lambda: time.time() > certificate_end(here), "the certificate's end", seconds=PATIENCE)
        said = looked("prlimit", "--fsize=241")
        assert "File too large" in said["problem"]
        assert "It expired on" in said["problem"]
        assert here.serial == before
        read_tls(here.tls)
        assert sorted(path.name for path in here.state.iterdir()) == sorted(["tls", str(here.tls.readlink())])
        assert [one["event"] for one in looked()["events"]] == ["join.renewed"]
        assert here.serial != before


def test_a_rotation_of_the_ca_reaches_agents_by_itself(tmp_path: Path) -> None:
    with (
        running(tmp_path, site=SITE) as site,
        serving(site, "--lifetime", "15s") as joining,
        started(tmp_path, joining) as here,
    ):
        wait_for(lambda: server(site, "oss1")["connected"], "the server to be connected", seconds=PATIENCE)
        ca = CaFolder(site.data / "ca")
        (old,) = ca.bundle()
        joining.ca("rotate")
        new = ca.load().certificate

        def own() -> bool:
            return issued_by(load_certificate((here.tls / "tls.crt").read_bytes()), new)

        wait_for(own, "a certificate of the new CA", seconds=PATIENCE)
        assert load_bundle((here.tls / "ca.crt").read_bytes()) == (new, old)
        joining.ca("issue-server")
        joining.ca("rotate", "--finish")
        wait_for(
            lambda: load_bundle((here.tls / "ca.crt").read_bytes()) == (new,),
            "the old CA to be trusted no more",
            seconds=PATIENCE,
        )
        serial = here.serial
        wait_for(lambda: here.serial != serial, "a renewal after the rotation", seconds=PATIENCE)
        here.show(a=4)
        wait_for(lambda: written(site) == 4, "what the job wrote", seconds=PATIENCE)
        assert fingerprint(new) != fingerprint(old)


def test_who_is_taken_out_of_the_site_is_cut_off_and_renews_no_more(tmp_path: Path) -> None:
    with (
        running(tmp_path, site=SITE) as site,
        serving(site, "--lifetime", "9s") as joining,
        started(tmp_path, joining) as here,
    ):
        wait_for(lambda: server(site, "oss1")["connected"], "the server to be connected", seconds=PATIENCE)
        site.change(SITE.replace("oss[1-4]", "oss[2-4]"))
        wait_for(lambda: "oss1 is not listed in site demo" in here.said(), "the agent to be refused", seconds=PATIENCE)
        wait_for(lambda: joining.events("renewing was refused"), "a renewal to be refused", seconds=PATIENCE)
        wait_for(
            lambda: "renewing the certificate is refused: " in here.said(), "the agent to say it", seconds=PATIENCE
        )
        assert "oss1 is not listed" in joining.events("renewing was refused")[0]["reason"]
        site.change(SITE)
        wait_for(lambda: joining.events("a certificate was renewed"), "a renewal", seconds=PATIENCE)
