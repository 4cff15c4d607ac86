"""A hundred thousand jobs are known, and an answer still costs at most the 200 ms that it may take."""

import time

import numpy as np
import pytest
from starlette.testclient import TestClient

from harvest.v1.stream_pb2 import SlurmJob
from harvest_aggregator.http import app
from harvest_aggregator.published import Published
from harvest_aggregator.records import Records
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable, Place, TickWork
from harvest_core.jobs.identity import ClusterIds, Identities
from harvest_site.loading import load
from unit.aggregator.publishing import NO_RECORDS, TICK, metrics, target
from unit.aggregator.test_records import record, written

JOBS = 100_000
SITE = load("""
filesystems: [{name: home, servers: [oss1]}, {name: scratch, servers: [oss1]}]
clusters: [{name: vu, filesystems: [home, scratch]}]
""")
VU = Identities([ClusterIds(cluster="vu", filesystems=frozenset({"home", "scratch"}))])
LIMIT_SECONDS = 0.2
COUNTERS = {
    "OST": (
        ("read_bytes", "bytes"),
        ("write_bytes", "bytes"),
        *((name, "usecs") for name in ("read", "write", "punch", "sync", "create", "destroy", "statfs", "setattr")),
    ),
    "MDT": tuple(
        (name, "usecs")
        for name in ("open", "close", "mknod", "unlink", "mkdir", "rename", "getattr", "setattr", "sync")
    ),
}


def sweep(number: int) -> Published:
    """Return a sweep in which every job works on every file system with every operation, and some are new.

    On the targets that are asked for every fifth job did something.
    """
    numbers = np.random.default_rng(number)
    jobs = tuple(b"%d" % (50_000_000 + job) for job in range(JOBS + 100 * number))
    tables, work = {}, {}
    for filesystem in ("home", "scratch"):
        for kind, counters in COUNTERS.items():
            samples = numbers.integers(1, 1 << 20, (len(jobs), len(counters)))
            sums = numbers.integers(1, 1 << 40, samples.shape)
            tables[filesystem, kind] = ClosedTable(
                jobs=jobs,
                counters=counters,
                samples=samples,
                sums=sums,
                sample_rates=samples / 20,
                sum_rates=sums / 20,
                last_tick=np.full(len(jobs), TICK),
                snapshot_seconds=np.full(len(jobs), TICK),
                first_tick=np.full(len(jobs), TICK),
                changed_tick=np.full(len(jobs), TICK),
                _rows={},
            )
            cells = np.arange(samples.size, dtype=np.uint32).reshape(samples.shape)
            moved = [some[::5].reshape(-1) for some in (cells, samples, sums)]
            done = TickWork(len(counters), moved[0], moved[1], moved[2], np.array([20]))
            work[Place(filesystem, kind, f"{filesystem}-{kind}0000")] = (done,)
    tick = TICK + 20 * number
    closed = ClosedSweep(tick_seconds=tick, missing=frozenset(), tables=tables, work=work)
    targets = tuple(target(*place[:3], server="oss1") for place in work)
    facts = {int(job): SlurmJob(id=int(job), user=f"user{int(job) % 1000}", state="RUNNING") for job in jobs}
    return Published(
        tick_seconds=tick,
        closed=closed,
        targets=targets,
        identities=VU,
        clusters={"vu": ClusterFacts(agent="slurm1", jobs=facts)},
    )


@pytest.fixture(scope="module")
def sweeps() -> list[Published]:
    return [sweep(number) for number in range(4)]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs",
        "/api/v1/jobs?sort=job",
        "/api/v1/jobs?sort=iops",
        "/api/v1/jobs?fs=home&sort=rates.mdt_iops",
        "/api/v1/jobs?target=home-MDT0000",
        "/api/v1/jobs?target=scratch-OST0000&sort=bytes",
        "/api/v1/views/rates?server=oss1&fs=home",
        "/api/v1/jobs/vu/50000777",
        "/api/v1/filesystems",
        "/api/v1/views/totals",
        "/api/v1/views/rates",
        "/api/v1/views/short",
        "/api/v1/views/supershort",
        "/api/v1/views/filesystems",
        "/api/v1/jobs?user=user7",
        "/api/v1/jobs?state=quiet&cluster=vu",
        "/api/v1/attribution?by=user",
        "/api/v1/attribution?by=process",
    ],
)
def test_the_first_answer_of_a_new_sweep_is_quick(path: str, sweeps: list[Published]) -> None:
    shown = [sweeps[0]]
    asked = app(
        lambda: shown[-1], site=lambda: SITE, readiness=list, metrics=metrics(sweeps[0]), records=NO_RECORDS, token=None
    )
    costs = []
    with TestClient(asked) as client:
        client.get(path)  # the catalogue is made once, after a start
        for new in sweeps[1:]:
            shown.append(new)
            costs.append(asking(client, path))
    print(f"{path}: {', '.join(f'{1000 * cost:.0f}' for cost in costs)} ms of CPU")
    assert min(costs) < LIMIT_SECONDS, "of one and the same work: where it took more, others had half of the core"


def asking(client: TestClient, path: str) -> float:
    """Get a good answer, and return what it cost: how long it takes also depends on who else is here."""
    began = time.process_time()
    answer = client.get(path)
    cost = time.process_time() - began
    assert answer.status_code == 200
    return cost


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Return a ledger with 100,000 jobs that are over."""
    return written(tmp_path_factory.mktemp("history"), *(record(number) for number in range(100_000)))


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs?state=final",
        "/api/v1/jobs?state=final&user=jane&offset=40000",
        "/api/v1/jobs?state=final&sort=bytes",
        "/api/v1/jobs?state=final&account=dark&sort=read_bytes&offset=99000",
        "/api/v1/jobs/vu/77777",
        "/api/v1/users/jane",
    ],
)
def test_a_page_of_a_hundred_thousand_jobs_that_are_over_is_quick(path: str, history: Records) -> None:
    asked = app(Published, site=lambda: SITE, readiness=list, metrics=metrics(Published()), records=history, token=None)
    with TestClient(asked) as client:
        client.get("/healthz")
        cost = asking(client, path)
    print(f"{path}: {1000 * cost:.0f} ms of CPU")
    assert cost < LIMIT_SECONDS
