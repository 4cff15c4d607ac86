"""Sinks in the running aggregator: started, changed and stopped with the site, and told of in /metrics and /readyz."""

import asyncio
import time
import urllib.request
from pathlib import Path

import pytest

from demo.processes import free_port
from harvest.v1.stream_pb2 import Batch
from support.processes import LIMIT_SECONDS, Running, running, wait_for
from support.uplinks import SITE, hello, sweep


def swept(seq: int) -> list[Batch]:
    """Return a sweep of the present: the second is of the last tick, the first of the one before."""
    batches = sweep(seq, "home-OST0000")
    tick = int(time.time()) // 20 * 20 + 20 * (seq - 2)
    for batch in batches:
        batch.tick_seconds = tick
    return batches


def numbers(here: Running) -> dict[str, float]:
    with urllib.request.urlopen(f"{here.url}metrics", timeout=LIMIT_SECONDS) as answer:  # noqa: S310
        rows = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line.startswith("harvest_sink_")]
    return {name: float(number) for name, number in rows}


def site(*names: str, port: int) -> str:
    sinks = ", ".join(f'{{name: {name}, ganglia: {{address: "127.0.0.1:{port}"}}}}' for name in names)
    return f"{SITE}sinks: [{sinks}]\n"


def accepted(here: Running, name: str) -> float:
    return numbers(here).get(f'harvest_sink_accepted_total{{sink="{name}"}}', 0.0)


def test_sinks_come_and_go_with_the_site_and_are_told_of(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, site=site("one", "two", port=port)) as here:
        status, said = here.get("readyz")
        assert status == 200
        assert not any("ganglia" in warning for warning in said["warnings"])

        async def sweeps() -> None:
            agent = here.agent("oss1")
            await agent.begin(hello("oss1", "home-OST0000"))
            await agent.say(*swept(1))
            assert await agent.acknowledged() == 1
            await asyncio.to_thread(
                wait_for, lambda: min(accepted(here, "one"), accepted(here, "two")) >= 1, "the sweep"
            )
            assert abs(numbers(here)['harvest_sink_last_success_seconds{sink="one"}'] - time.time()) < LIMIT_SECONDS
            here.change(site("one", "three", port=port))
            changed = "changed files are in use"
            await asyncio.to_thread(wait_for, lambda: here.events(changed), "the change")
            await agent.say(*swept(2))
            assert await agent.acknowledged() == 2
            await asyncio.to_thread(wait_for, lambda: accepted(here, "three") >= 1, "the new sink's sweep")
            await asyncio.to_thread(wait_for, lambda: accepted(here, "one") >= 2, "the old one's")
            assert {name for name in numbers(here) if "accepted" in name} == {
                'harvest_sink_accepted_total{sink="one"}',
                'harvest_sink_accepted_total{sink="three"}',
            }
            await agent.close()

        asyncio.run(sweeps())
        assert here.stop() == 0


def test_a_sink_in_trouble_is_a_warning_and_agents_are_served(tmp_path: Path) -> None:
    address = "255.255.255.255:8649"  # to which nobody may send who did not ask for it
    text = f'{SITE}sinks: [{{name: lost, ganglia: {{address: "{address}"}}}}]\n'
    with running(tmp_path, site=text) as here:

        async def sweeps() -> None:
            agent = here.agent("oss1")
            await agent.begin(hello("oss1", "home-OST0000"))
            await agent.say(*swept(1))
            assert await agent.acknowledged() == 1
            await agent.close()

        asyncio.run(sweeps())

        def warned() -> bool:
            status, said = here.get("readyz")
            assert status == 200
            return any(warning.startswith(f"sink lost: cannot send to {address}: ") for warning in said["warnings"])

        wait_for(warned, "the warning")
        assert here.stop() == 0


_NO_ANSWER = """
import socket, threading
asked = socket.getaddrinfo

def hang(host, *more, **options):
    if host == "{host}":
        open("{asked}", "w").close()
        threading.Event().wait({seconds})
    return asked(host, *more, **options)

socket.getaddrinfo = hang
"""
"""Python runs this at its start: a name server that does not answer, or takes its time."""


@pytest.mark.parametrize("seconds", [30, None], ids=["30 s per write", "for ever"])
def test_a_write_that_hangs_delays_no_sweep_no_other_sink_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int | None
) -> None:
    host = "gmond.invalid"
    asked = tmp_path / "asked"
    (tmp_path / "sitecustomize.py").write_text(_NO_ANSWER.format(host=host, asked=asked, seconds=seconds))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    hung, well = (
        f'{{name: {name}, ganglia: {{address: "{to}"}}}}'
        for name, to in (("hung", f"{host}:8649"), ("well", f"127.0.0.1:{free_port()}"))
    )
    with running(tmp_path, site=f"{SITE}sinks: [{hung}, {well}]\n") as here:

        async def sweeps() -> None:
            agent = here.agent("oss1")
            await agent.begin(hello("oss1", "home-OST0000"))
            for seq in (1, 2):
                await agent.say(*swept(seq))
                assert await agent.acknowledged() == seq
                await asyncio.to_thread(wait_for, lambda seq=seq: accepted(here, "well") >= seq, "the other sink")  # type: ignore[misc]
                await asyncio.to_thread(wait_for, asked.exists, "the write")
            await agent.close()

        asyncio.run(sweeps())
        assert accepted(here, "hung") == 0
        assert here.stop() == 0
        if seconds is None:
            assert [one["sink"] for one in here.events("a sink did not end in time and is left behind")] == ["hung"]
