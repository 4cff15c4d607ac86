from collections.abc import Callable
from random import Random

from harvest_sim import workloads
from harvest_sim.lives import EndReason, Subject
from harvest_sim.ops import Kind
from harvest_sim.player import Player
from harvest_sim.site import Site
from harvest_sim.truth import Amount, TotalKey
from harvest_sim.workloads import Operation, Stage
from unit.sim.building import OST, lone_target, partners, text_of

WRITE = TotalKey("fs", Kind.OST, b"1", "write_bytes", "bytes")


def test_done_and_shown_are_summed_over_lives_mounts_and_targets() -> None:
    site = partners("2.12.9")
    site.add_target("fs-OST0001", ["oss2"])
    site.mounted(OST).bulk(b"1", "write", 10)
    text_of(site, "oss1", "job_stats")
    site.clear(OST)
    site.mounted(OST).bulk(b"1", "write", 100)
    text_of(site, "oss1", "job_stats")
    site.fail_over(OST, "oss2")
    site.mounted(OST).bulk(b"1", "write", 1000)
    site.mounted("fs-OST0001").bulk(b"1", "write", 10_000)
    assert site.truth.done()[WRITE] == Amount(4, 11_110)
    assert site.truth.shown()[WRITE] == Amount(2, 110)
    text_of(site, "oss2", "OST0000/job_stats")
    text_of(site, "oss2", "OST0001/job_stats")
    assert site.truth.shown() == site.truth.done()


def test_rows_tell_every_op_of_every_life() -> None:
    site, target = lone_target("2.12.9")
    target.bulk(b"1", "write", 10)
    text_of(site, "oss1", "job_stats")
    target.bulk(b"1", "write", 10)
    target.do(b"1", "punch")
    rows = [
        (row.life.number, row.op.name, row.done_samples, row.done_sum, row.shown_samples, row.shown_sum)
        for row in site.truth.rows()
    ]
    number = rows[0][0]
    assert rows == [(number, "write_bytes", 2, 20, 1, 10), (number, "punch", 1, 0, 0, 0)]


def test_readable_totals_join_ids_that_look_the_same() -> None:
    site, target = lone_target("2.12.9")
    target.bulk(b"a\n", "write", 1)
    target.bulk(b"a\t", "write", 2)
    assert site.truth.done(readable=True) == {WRITE._replace(key=b"a?"): Amount(2, 3)}
    assert len(site.truth.done()) == 2


def test_a_life_knows_why_it_ended() -> None:
    site = partners("2.12.9")
    ends: list[Callable[[], None]] = [
        lambda: site.clear(OST),
        lambda: site.remount(OST),
        lambda: site.crash("oss1"),
    ]
    for end in ends:
        site.mounted(OST).do(b"1", "punch")
        end()
    assert [life.end_reason for life in site.truth.select()] == [
        EndReason.CLEARED,
        EndReason.UNMOUNTED,
        EndReason.CRASHED,
    ]


def test_successions_are_lives_of_one_job_on_one_mount() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    site.clear(OST)
    target.do(b"1", "punch")
    [(before, after)] = site.truth.successions()
    assert before.is_over
    assert not after.is_over


def test_exports_have_lives_too() -> None:
    site, target = lone_target("2.12.9")
    site.connect("fs", "9@tcp")
    target.bulk(b"1", "write", 10, nid="9@tcp")
    text_of(site, "oss1", "9@tcp/stats")
    target.exports.clear()
    target.bulk(b"1", "write", 5, nid="9@tcp")
    key = WRITE._replace(key=b"9@tcp")
    assert site.truth.done(Subject.EXPORT)[key] == Amount(2, 15)
    assert site.truth.shown(Subject.EXPORT)[key] == Amount(1, 10)
    assert [life.end_reason for life in site.truth.select(Subject.EXPORT, key=b"9@tcp")] == [EndReason.CLEARED, None]


def busy_site(seed: int) -> tuple[Site, Stage]:
    rng = Random(seed)
    site = Site(rng)
    for name, version in (("a", "2.12.9"), ("b", "2.15.4"), ("c", "2.17.0")):
        site.add_server(name, version)
    osts = ["fs-OST0000", "fs-OST0001"]
    for target, server in (*zip(osts, "ab", strict=True), ("fs-MDT0000", "c")):
        site.add_target(target, [server], cleanup_interval_seconds=4)
    return site, Stage(rng=rng, osts=osts, mdts=["fs-MDT0000"], nids=["1@tcp", "2@tcp"], cleanup_seconds=4)


def everything(stage: Stage) -> list[list[Operation]]:
    return [
        list(workloads.checkpointing(stage, b"11", start=0, end=40, period=3)),
        list(workloads.metadata_storm(stage, b"12", start=0, end=40)),
        list(workloads.quiet_then_active(stage, b"13", start=0, end=40)),
        list(workloads.equal_returns(stage, b"14", start=0, end=40)),
        list(workloads.login_processes(stage, start=0, end=40)),
        list(workloads.short_jobs(stage, start=0, end=40)),
    ]


def test_nothing_that_is_read_in_time_is_ever_lost() -> None:
    site, stage = busy_site(3)
    plans = everything(stage)
    player = Player(site, *(iter(plan) for plan in plans))
    second = 0
    while not player.is_done:
        second += 1
        player.play_until(second * 10**9)
        for server in site.servers:
            for path, file in site.files(server).items():
                if path.endswith("job_stats"):
                    file.read()
    assert site.truth.shown() == site.truth.done()
    assert site.truth.events["evicted"] > 100
    written = sum(op.size_bytes * op.times for plan in plans for op in plan if op.op == "write")
    assert sum(amount.total for key, amount in site.truth.done().items() if key.op == "write_bytes") == written
