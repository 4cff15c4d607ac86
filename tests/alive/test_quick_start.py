"""The README's way to a site without Kubernetes, done as it is written; only places differ, and Lustre is a folder."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alive.receiver import LIMIT_SECONDS, wait_for
from demo.processes import BIN, free_port
from support.records import job_stats, put, record

README = Path(__file__).parents[2] / "README.md"
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def blocks(kind: str, folder: Path) -> list[str]:
    """Return the README's blocks of a kind, below another folder and with other ports and a quicker interval."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"(?<![.\w])/(?=etc/|var/)", f"{folder}/", text) for text in found]


@contextmanager
def running(command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], stdout=file, stderr=file, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(LIMIT_SECONDS) == 0, log.read_text()


def done(command: str) -> None:
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert ran.returncode == 0, (command, ran.stderr)


def answer(question: str) -> Any:  # noqa: ANN401 - whatever the API says
    """Ask what a line with curl asks; it need not be installed."""
    url = re.search(r"http://[^\s']+", question)
    assert url is not None
    with urllib.request.urlopen(url[0], timeout=LIMIT_SECONDS) as told:  # noqa: S310 - our own loopback
        return json.load(told)


def test_the_readmes_steps_lead_to_a_site_that_knows_its_jobs(tmp_path: Path) -> None:
    grpc, http = free_port(), free_port()
    (site,), (config,) = blocks("yaml", tmp_path), blocks("toml", tmp_path)
    aggregator, agent, questions = (text.splitlines() for text in blocks("sh", tmp_path))
    put(tmp_path, "etc/harvest/site.yaml", site.replace("20s", "1s"))
    put(tmp_path, "root/proc/fs/lustre/obdfilter/scratch-OST0000/job_stats", job_stats(record("4711", written=3)))
    for step in aggregator[:-1]:
        done(step)
    (tmp_path / "var/lib/harvest/agents/oss1").rename(tmp_path / "etc/harvest-agent")
    more = f'[lustre]\nroot = "{tmp_path}/root"\n[spool]\ndirectory = "{tmp_path}/spool"\n'
    put(
        tmp_path, "etc/harvest-agent/agent.toml", config.replace("harvest.example.org:8023", f"127.0.0.1:{grpc}") + more
    )
    run = f"{aggregator[-1]} --grpc 127.0.0.1:{grpc} --http 127.0.0.1:{http}"
    asked = [question.replace(":8024", f":{http}") for question in questions]
    ready, servers, jobs = (question for question in asked if question.startswith("curl"))
    commands = [
        question.partition("#")[0] for question in asked if question.startswith(("harvest top", "harvest jobs"))
    ]

    with running(run, tmp_path / "aggregator.log"), running(agent[0], tmp_path / "agent.log"):
        wait_for(lambda: "agents may come" in (tmp_path / "aggregator.log").read_text(), "the aggregator")
        assert answer(ready)["ready"]
        wait_for(lambda: answer(jobs)["jobs"] != [], "the first sweep", 120)
        assert {one["name"]: one["connected"] for one in answer(servers)["servers"]}["oss1"]
        for command in commands:
            done(f"HARVEST_URL=http://127.0.0.1:{http} {command.replace('harvest top', 'harvest top --once')}")
        (job,) = answer(jobs)["jobs"]
        assert (job["job"], job["filesystems"]["scratch"]["ost"]["write_bytes"]) == ("4711", 3 << 20)
