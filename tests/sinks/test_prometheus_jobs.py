"""Jobs that do exactly so much a second, in a real aggregator and a real Prometheus."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from demo.processes import free_port
from support.feeding import Server, next_tick, told
from support.processes import LIMIT_SECONDS, Running, running
from support.prometheus import Labels, Prometheus, scraping

SITE = """
interval: 1s
filesystems: [{{name: home, servers: [oss1, mds1], clients: {{enabled: false}}}}]
clusters: [{{name: vu, filesystems: [home], slurm: {{server: slurm1}}}}]
sinks: [{{name: prom, prometheus: {{{settings}}}}}]
"""
_SHORT_HOLD = """
from harvest_aggregator.sinks import scrapes
scrapes.HOLD_SECONDS = {seconds}
"""
"""Python runs this at its start: what takes two minutes otherwise takes a few seconds."""


def played(folder: Path, settings: str, scene: Callable[[Running, Prometheus], Awaitable[None]]) -> None:
    """Run an aggregator, a Prometheus that scrapes it every second, and a scene."""
    http = f"127.0.0.1:{free_port()}"
    with (
        running(folder, "--http", http, site=SITE.format(settings=settings)) as here,
        scraping(folder / "prometheus", f"{http}/metrics/prom") as prometheus,
    ):
        asyncio.run(_limited(scene(here, prometheus)))


async def _limited(scene: Awaitable[None]) -> None:
    async with asyncio.timeout(240):
        await scene


READ = "sum by(jobid)(irate(lustre_job_read_bytes_total[1m])!=0)"
WRITTEN = "sum by(jobid)(irate(lustre_job_write_bytes_total[1m])!=0)"
METADATA = "round(sum by(target,jobid)(irate(lustre_job_stats_total[1m])>=1))"
"""What prometheus-cluster-exporter asks."""
QUEUE = {
    1: ("ann", "physics", "RUNNING"),
    2: ("ann", "physics", "RUNNING"),
    3: ("ann", "climate", "RUNNING"),
    4: ("bob", "climate", "RUNNING"),
}
PER_SECOND = {
    b"1": {"read_bytes": 7 << 20, "write_bytes": 3 << 20, "open": 11, "close": 11},
    b"2": {"read_bytes": 1 << 30, "getattr": 5000},
    b"3": {"write_bytes": 12345, "mkdir": 3, "rename": 2},
    b"4": {"read_bytes": 1, "write_bytes": 2 << 30, "open": 70},
    b"cp.1000": {"read_bytes": 99 << 20},
}


Sums = dict[tuple[str, ...], float]
"""By account and user, of operations also by target."""


def test_the_cluster_exporters_queries_give_the_right_numbers_per_account_and_user(tmp_path: Path) -> None:
    expected = {
        **{f"{way}, {how}": true_sums(f"{way}_bytes") for way in ("read", "write") for how in ("asked", "shown")},
        **{f"metadata, {how}": true_sums("open", "close", "getattr", "mkdir", "rename") for how in ("asked", "shown")},
        "programs": {("cp", "", "1000"): float(99 << 20)},
    }

    async def scene(here: Running, prometheus: Prometheus) -> None:
        oss, mds = Server("oss1", "home-OST0000"), Server("mds1", "home-MDT0000")
        slurm = await told(here, "slurm1", QUEUE, start=await next_tick())
        for server in (oss, mds):
            await server.connect(here)
        end = time.monotonic() + LIMIT_SECONDS
        found: dict[str, Sums] = {}
        last = 0
        while found != expected and time.monotonic() < end:
            tick = await next_tick()
            seconds, last = tick - last if last else 1, tick  # a slow machine leaves ticks out
            for job, does in PER_SECOND.items():
                done = {name: amount * seconds for name, amount in does.items()}
                oss.does(job, **{name: amount for name, amount in done.items() if name.endswith("bytes")})
                mds.does(job, **{name: amount for name, amount in done.items() if not name.endswith("bytes")})
            await asyncio.gather(oss.sweep(tick), mds.sweep(tick))
            found = await asyncio.to_thread(answers, prometheus)
        assert found == expected
        await asyncio.gather(*(agent.close() for agent in (slurm, oss.agent, mds.agent) if agent is not None))

    played(tmp_path, "perJob: all, perUser: all", scene)


def true_sums(*names: str) -> Sums:
    sums: Counter[tuple[str, ...]] = Counter()
    for job, does in PER_SECOND.items():
        if job.isdigit():
            user, account, _ = QUEUE[int(job)]
            target = () if names[0].endswith("bytes") else ("home-MDT0000",)
            sums[account, user, *target] += sum(does.get(name, 0) for name in names)
    return {who: float(amount) for who, amount in sums.items() if amount}


def answers(prometheus: Prometheus) -> dict[str, Sums]:
    """Ask as the cluster exporter does, and what Harvest shows itself."""
    labels = ("account", "user", "target")
    found = {
        "metadata, asked": by_owner(prometheus.query(METADATA)),
        "metadata, shown": by_labels(prometheus.query("cluster_job_metadata_operations"), *labels),
        "programs": by_labels(
            prometheus.query("cluster_proc_read_throughput_bytes"), "proc_name", "group_name", "user_name"
        ),
    }
    for way, query in (("read", READ), ("write", WRITTEN)):
        found[f"{way}, asked"] = by_owner(prometheus.query(query))
        found[f"{way}, shown"] = by_labels(prometheus.query(f"cluster_job_{way}_throughput_bytes"), *labels[:2])
    return found


def by_owner(answer: dict[Labels, float]) -> Sums:
    """Add up by account and user, as the cluster exporter does: by the queue; programs are not jobs."""
    sums: Counter[tuple[str, ...]] = Counter()
    for labels, value in answer.items():
        of = dict(labels)
        if of["jobid"].isdecimal():
            user, account, _ = QUEUE[int(of["jobid"])]
            sums[account, user, *((of["target"],) if "target" in of else ())] += value  # type: ignore[assignment]
    return dict(sums)


def by_labels(answer: dict[Labels, float], *names: str) -> Sums:
    return {tuple(dict(labels).get(name, "") for name in names): value for labels, value in answer.items()}


def test_who_enters_and_leaves_the_first_loses_and_doubles_nothing_in_sum_with_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SHORT_HOLD.format(seconds=10.0))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    oss = Server("oss1", "home-OST0000")
    shown: dict[str, list[float]] = {}

    async def scene(here: Running, prometheus: Prometheus) -> None:
        start = await next_tick()
        queue = dict.fromkeys((1, 2, 3), ("ann", "physics", "RUNNING"))
        slurm = await told(here, "slurm1", queue, start=start)
        await oss.connect(here)

        async def sweep(**written: int) -> None:
            for job, amount in written.items():
                oss.does(job.removeprefix("j").encode(), write_bytes=amount)
            await oss.sweep(await next_tick())
            shown.clear()
            shown.update(await asyncio.to_thread(series, prometheus))

        async def until(who: str, has: Callable[[list[float]], bool], **written: int) -> None:
            end = time.monotonic() + LIMIT_SECONDS
            while not has(shown.get(who, [])):
                assert time.monotonic() < end, (who, shown)
                await sweep(**written)

        async def kill() -> None:
            nonlocal slurm
            here.process.kill()
            here.process.wait()
            await asyncio.to_thread(here.start)
            await oss.connect(here)
            slurm = await told(here, "slurm1", queue, start=start)

        async def ends(number: int) -> None:
            nonlocal slurm
            queue[number] = ("ann", "physics", "COMPLETED")
            await slurm.close()
            slurm = await told(here, "slurm1", queue, start=start)

        await sweep(j1=1)  # before anybody has series: where `other` begins
        await until("other", bool)
        await until("1", lambda values: values[-1:] >= [1.0], j1=1000, j2=10)
        assert "2" not in shown
        await kill()
        await until("1", lambda values, before=shown["1"][-1]: values[-1] > before, j1=1000, j2=10)  # type: ignore[misc]
        await ends(1)
        await until("2", lambda values: values[-1:] >= [1.0], j2=10, j3=5)
        await kill()
        first = shown["1"][-1]
        await sweep(j1=7, j2=10, j3=5)  # late
        await ends(2)
        await until("3", lambda values: values[-1:] >= [1.0], j3=5)
        await kill()
        total = float(sum(done["write_bytes", "bytes"][1] for done in oss.done.values()))
        await until("3", lambda _: sum(values[-1] - values[0] for values in shown.values()) == total - 1)
        assert shown["1"][-1] == first, "what came late is in `other`"
        assert [values[0] for who, values in shown.items() if who != "other"] == [0.0, 0.0, 0.0]
        resets = await asyncio.to_thread(prometheus.query, "resets(lustre_job_write_bytes_total[1h])")
        assert set(resets.values()) == {0.0}
        print("\n" + ", ".join(f"{who}: {values[0]:.0f} to {values[-1]:.0f}" for who, values in shown.items()))
        await asyncio.gather(*(agent.close() for agent in (slurm, oss.agent) if agent is not None))

    played(tmp_path, "perJob: top, topK: 1", scene)


def series(prometheus: Prometheus) -> dict[str, list[float]]:
    """Return all that was ever shown of what jobs wrote, by job."""
    found = prometheus.samples("lustre_job_write_bytes_total")
    return {dict(labels)["jobid"]: [value for _, value in samples] for labels, samples in found.items()}
