"""A site that is changed calls the same ids other jobs: what earlier runs and days did is in one place all the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harvest_aggregator.catalogue import Catalogues
from harvest_core.jobs.identity import JobName
from harvest_site.loading import load
from support.deliveries import START, Writer
from unit.aggregator.houses import MIB, SITE, House, written

_SITE = """
interval: 20s
filesystems: [{{name: home, servers: [oss1, oss2]}}]
clusters: [{}]
"""
NONE = load(_SITE.format(""))
RENAMED = load(_SITE.format("{name: vv, filesystems: [home], slurm: {server: slurm1}}"))
BY_NODE = load(_SITE.format('{name: vu, filesystems: [home], jobIds: {format: "%j:%H"}, slurm: {server: slurm1}}'))
MIDNIGHT = START - START % 86400 + 86400
LATER = 2000
NAMES = ("-", "vu", "vv")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def house(path: Path) -> Iterator[House]:
    made = House(path)
    yield made
    made.ledger.close()


def shown(house: House, job: bytes) -> dict[str, int]:
    """Return what is shown of a job that is not over, by cluster, in MiB."""
    catalogue = Catalogues().of(house.closed, house.following.identities, house.following.told()[1])
    (part,) = catalogue.parts
    amounts = part.measured("write_bytes", rates=False)
    return {
        cluster: int(amounts[part.row[number]]) // MIB
        for cluster in NAMES
        if (number := catalogue.number.get(JobName(cluster, job))) is not None
    }


def final(house: House, job: bytes) -> list[tuple[str, int, int]]:
    """Return its records: cluster, start and what was written, the newest first."""
    return [(name, one["start"], written(one)) for name in NAMES for one in house.records(job, name)]


def test_runs_of_a_cluster_that_is_renamed_are_counted_once(house: House) -> None:
    agent = Writer()
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, j7=5)
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, j7=8)
    house.change_site(RENAMED, START + 50)
    house.sweep(agent, START + 60, j7=9)
    assert shown(house, b"7") == {"vv": 4}
    assert house.following.told()[0] == {JobName("vv", b"7"): START + 30}
    house.slurm(7, "RUNNING", start=START + 70, cluster="vv")
    house.sweep(agent, START + 80, j7=11)
    assert shown(house, b"7") == {"vv": 2}
    assert final(house, b"7") == [("vu", START, 5), ("vv", START + 30, 4)]
    house.slurm(7, "COMPLETED", start=START + 70, end=START + 90, cluster="vv")
    house.sweep(agent, START + 2 * LATER, j8=1)
    assert final(house, b"7") == [("vu", START, 5), ("vv", START + 70, 2), ("vv", START + 30, 4)]
    assert list(house.ledger.runs()) == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_days_before_the_first_cluster_was_added_are_counted_once(path: Path, *, is_restarted: bool) -> None:
    agent, program = Writer(), "jcp.1000"
    house = House(path, NONE)
    house.sweep(agent, MIDNIGHT - 40, **{program: 5})
    house.sweep(agent, MIDNIGHT + 20, **{program: 7})
    assert final(house, b"cp.1000") == [("-", MIDNIGHT - 86400, 5)]
    if is_restarted:
        house.ledger.close()
        house = House(path, SITE)
    else:
        house.change_site(SITE, MIDNIGHT + 30)
    house.sweep(agent, MIDNIGHT + 40, **{program: 10})
    assert shown(house, b"cp.1000") == {"vu": 5}
    house.sweep(agent, MIDNIGHT + 86400 - 40, **{program: 12})
    house.sweep(agent, MIDNIGHT + 86400 + 20, **{program: 18})
    assert shown(house, b"cp.1000") == {"vu": 6}
    assert final(house, b"cp.1000") == [("-", MIDNIGHT - 86400, 5), ("vu", MIDNIGHT, 7)]
    house.ledger.close()


def test_a_day_that_ends_while_nobody_looks_and_the_cluster_gets_a_name_is_that_day_s(path: Path) -> None:
    agent = Writer()
    house = House(path, NONE)
    house.sweep(agent, MIDNIGHT - 40, **{"jcp.1000": 5})
    house.ledger.close()
    house = House(path, SITE)
    house.sweep(agent, MIDNIGHT + 20, **{"jcp.1000": 7})
    house.sweep(agent, MIDNIGHT + 40, **{"jcp.1000": 8})
    assert shown(house, b"cp.1000") == {"vu": 1}
    assert final(house, b"cp.1000") == [("vu", MIDNIGHT - 86400, 7)]  # as after any restart: cut at the first sweep
    house.ledger.close()


@pytest.mark.parametrize("restart", [False, True])
def test_ids_that_become_one_job_bring_what_their_earlier_runs_did(path: Path, *, restart: bool) -> None:
    agent = Writer()
    house = House(path, BY_NODE)
    first, second = "j7:n1", "j7:n2"
    house.slurm(7, "RUNNING")
    house.sweep(agent, START + 20, **{first: 5, second: 2})
    house.slurm(7, "RUNNING", start=START + 30)
    house.sweep(agent, START + 40, **{first: 8, second: 2})
    assert (shown(house, b"7"), final(house, b"7")) == ({"vu": 3}, [("vu", START, 7)])
    sites: list[Callable[[], House]] = [lambda: changed(house, NONE), lambda: changed(house, BY_NODE)]
    if restart:
        house.ledger.close()
        sites = [lambda: House(path, NONE), lambda: House(path, BY_NODE)]
    house = sites[0]()
    house.sweep(agent, START + 60, **{first: 9})
    assert (shown(house, b"7:n1"), shown(house, b"7:n2")) == ({"-": 4}, {"-": 0})
    if restart:
        house.ledger.close()
    house = sites[1]()
    house.sweep(agent, START + 80, **{second: 6})
    assert shown(house, b"7") == {"vu": 8}
    house.ledger.close()


def changed(house: House, site: object) -> House:
    house.change_site(site, START + 50)  # type: ignore[arg-type]
    return house
