import pytest

from harvest_sim.lives import EndReason
from unit.sim.building import OST, ids_in, lone_target, text_of


@pytest.mark.parametrize("version", ["2.5.3", "2.12.9", "2.14.55", "2.15.6", "2.16.1", "2.17.0"])
def test_2_3_clear_frees_all_records(version: str) -> None:
    site, target = lone_target(version)
    target.do(b"1", "punch")
    target.do(b"2", "punch")
    site.clear(OST)
    assert target.jobs.records == {}
    assert {life.end_reason for life in site.truth.select()} == {EndReason.CLEARED}


@pytest.mark.parametrize("version", ["2.14.56", "2.15.0", "2.15.5", "2.15.54"])
def test_2_3_clear_removes_only_idle_jobs_in_2_14_56_to_2_15_5(version: str) -> None:
    site, target = lone_target(version)
    target.do(b"idle", "punch")
    site.advance(500)
    target.do(b"busy", "punch")
    site.advance(101)
    site.clear(OST, b"clear\n")
    assert list(target.jobs.records) == [b"busy"]


def test_2_3_an_id_frees_one_record() -> None:
    site, target = lone_target("2.12.9")
    target.do(b"1", "punch")
    target.do(b"2", "punch")
    site.clear(OST, b"1\n")
    site.clear(OST, b"unknown\n")
    assert ids_in(text_of(site, "oss1", "job_stats")) == [b"2"]


def test_1_2_a_quoted_id_frees_one_record_from_2_15_55() -> None:
    site, target = lone_target("2.16.1")
    target.do(b"a b", "punch")
    site.clear(OST, rb'"a\x20b"')
    assert target.jobs.records == {}


def test_1_2_an_empty_id_is_never_logged_but_the_target_counts_it() -> None:
    site, target = lone_target("2.16.1")
    target.do(b"", "punch", 3)
    assert target.jobs.records == {}
    assert b"punch" in text_of(site, "oss1", "OST0000/stats")
