"""jobHarvest's five views: its names and meanings, and what it got wrong done right."""

import pytest

from unit.aggregator.publishing import CREATE, PLACED, READ, TICK, client, published


def test_totals_have_every_operation_by_file_system_and_kind_of_server() -> None:
    answer = client().get("/api/v1/views/totals")
    assert answer.json() == {
        "33": {"scratch": {"oss": {"read_bytes": 0, "write_bytes": 5000, "iops": 0, "snapshot_time": TICK}}},
        "11": {
            "home": {
                "oss": {"read_bytes": 2000, "write_bytes": 500, "iops": 7, "create": 7, "snapshot_time": TICK},
                "mds": {"read_bytes": 30, "write_bytes": 0, "iops": 40, "open": 40, "snapshot_time": TICK},
            },
            "scratch": {"oss": {"read_bytes": 0, "write_bytes": 600, "iops": 1, "create": 1, "snapshot_time": TICK}},
        },
        "22": {"home": {"oss": {"read_bytes": 9000, "write_bytes": 0, "iops": 0, "snapshot_time": TICK - 60}}},
    }


def test_rates_have_the_same_shape_per_second() -> None:
    answer = client().get("/api/v1/views/rates").json()
    assert answer["11"] == {
        "home": {
            "oss": {"read_bytes": 100.0, "write_bytes": 0.0, "iops": 0.5, "create": 0.5, "snapshot_time": TICK},
            "mds": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0, "open": 2.0, "snapshot_time": TICK},
        },
        "scratch": {
            "oss": {"read_bytes": 0.0, "write_bytes": 50.0, "iops": 0.25, "create": 0.25, "snapshot_time": TICK}
        },
    }
    nothing = {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 0.0}
    assert answer["22"] == {"home": {"oss": {**nothing, "snapshot_time": TICK - 60}}}


def test_short_rates_have_every_file_system_for_every_job() -> None:
    answer = client().get("/api/v1/views/short").json()
    nothing = {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 0.0}
    assert answer["33"] == {
        "home": {"oss": nothing, "mds": nothing},
        "scratch": {"oss": {"read_bytes": 0.0, "write_bytes": 1000.0, "iops": 0.0}, "mds": nothing},
    }
    assert answer["22"] == {"home": {"oss": nothing, "mds": nothing}, "scratch": {"oss": nothing, "mds": nothing}}


def test_super_short_rates_are_the_sum_over_file_systems() -> None:
    answer = client().get("/api/v1/views/supershort").json()
    assert answer["11"] == {
        "oss": {"read_bytes": 100.0, "write_bytes": 50.0, "iops": 0.75},
        "mds": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0},
    }


def test_file_systems_have_the_rates_of_all_their_jobs() -> None:
    answer = client().get("/api/v1/views/filesystems")
    assert answer.json() == {
        "home": {
            "oss": {"read_bytes": 100.0, "write_bytes": 0.0, "iops": 0.5},
            "mds": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0},
        },
        "scratch": {
            "oss": {"read_bytes": 0.0, "write_bytes": 1050.0, "iops": 0.25},
            "mds": {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 0.0},
        },
    }


@pytest.mark.parametrize("view", ["totals", "rates", "short", "supershort"])
def test_views_by_job_are_cut_and_sorted_and_say_so(view: str) -> None:
    answer = client().get(f"/api/v1/views/{view}?sort=read_bytes&limit=1&fs=home")
    assert list(answer.json()) == ["22"]
    assert answer.headers["harvest-matched"] == "2"
    assert answer.headers["harvest-tick"] == str(TICK)


def test_an_id_that_is_no_text_is_a_key_all_the_same() -> None:
    source = published({("home", "OST"): {b"\xff/": {READ: (1, 5), CREATE: (1, 0)}}})
    answer = client(source).get("/api/v1/views/totals")
    assert answer.content == (
        b'{"\\udcff/":{"home":{"oss":{"read_bytes":5,"write_bytes":0,"iops":1,"create":1,"snapshot_time":%d}}}}'
        % (TICK - 60)
    )


def test_views_of_a_target_or_server_have_those_who_did_something_there_and_their_rates_there() -> None:
    asked = client(PLACED)
    (on_target,) = asked.get("/api/v1/views/rates?target=scr-OST0000").json().items()
    assert on_target == (
        "33",
        {"scratch": {"oss": {"read_bytes": 0.0, "write_bytes": 750.0, "iops": 0.0, "snapshot_time": TICK}}},
    )
    nothing = {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 0.0}
    short = asked.get("/api/v1/views/supershort?target=home-MDT0000").json()
    assert list(short) == ["22", "11"]
    assert short["11"] == {"oss": nothing, "mds": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0}}
    assert asked.get("/api/v1/views/totals?target=scr-OST0000").json() == {
        "33": asked.get("/api/v1/views/totals").json()["33"]
    }
    assert asked.get("/api/v1/views/short?server=oss2").json() == {}
