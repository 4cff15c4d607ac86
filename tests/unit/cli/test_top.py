import itertools
from typing import Any

import pytest

from harvest_cli.replies import at
from harvest_cli.top import BYS, SORTS, Row, Shown, View, pressed, sheet, shown
from unit.cli.telling import TICK, A, B, Telling, job, silent, work


def utc(seconds: float | None) -> str:
    return f"t{seconds}"


@pytest.mark.parametrize(
    ("key", "sort"), [("r", "read"), ("w", "write"), ("o", "ops"), ("m", "metadata"), ("M", "metadata")]
)
def test_keys_sort(key: str, sort: str) -> None:
    assert pressed(View(by="user"), key) == View(by="user", sort=sort)


@pytest.mark.parametrize(
    ("key", "by"), [("j", "job"), ("u", "user"), ("a", "account"), ("n", "node"), ("p", "process")]
)
def test_keys_choose_what_a_line_is(key: str, by: str) -> None:
    assert pressed(View(sort="ops"), key) == View(by=by, sort="ops")


def test_q_ends_it_and_other_keys_change_nothing() -> None:
    assert pressed(View(), "q").is_over
    assert pressed(pressed(View(), "q"), "x").is_over
    for key in set(map(chr, range(256))) - set("rwomjuanpqRWOMJUANPQ"):
        assert pressed(View(), key) == View()


def test_every_key_is_one_thing() -> None:
    assert len({*(sort[0] for sort in SORTS), *(by[0] for by in BYS), "q"}) == len(SORTS) + len(BYS) + 1


JOBS = [
    job("1", "vu", user="ada", ost=work(rate=10)),
    job("2", "vu", user="ada", ost=work(rate=30)),
    job("3", "vu", user="bob", ost=work(rate=20)),
    job("idle", "vu", user="eve", ost=work(5)),
]


def names(view: View, last: Shown | None) -> list[str]:
    return [row[0] for row in sheet(view, last, zoned=utc).rows]


def test_only_who_does_something_is_shown_most_first() -> None:
    assert names(View(), shown(View(), Telling({A: JOBS}).aggregators)) == ["2", "3", "1"]
    assert names(View(limit=1), shown(View(limit=1), Telling({A: JOBS}).aggregators)) == ["2"]


def test_users_are_added_up() -> None:
    view = View(by="user")
    last = shown(view, Telling({A: JOBS}).aggregators)
    assert [(row.labels[0], row.numbers["read_bytes"]) for row in last.rows] == [("ada", 40), ("bob", 20)]


def test_an_aggregator_that_adds_up_itself_is_believed() -> None:
    rates = {"read_bytes": 1.0, "write_bytes": 2.0, "iops": 3.0, "metadata_ops": 4.0}
    row = {"name": "tar", "user": "ada", "group": "phys", "account": None, "jobs": 2, "rates": rates}
    told = {"tick_seconds": TICK, "by": "process", "rows": [row]}
    telling = Telling({}, {(A, at("attribution", by="process", limit=0, fs="home")): told})
    view = View(by="process", fs="home")
    last = shown(view, telling.aggregators)
    assert sheet(view, last, zoned=utc).rows == [("tar", "ada", "phys", "2", "1 B/s", "2 B/s", "3/s", "4/s")]


def client(nid: str, host: str | None, **rates: float | None) -> dict[str, Any]:
    nothing = dict.fromkeys(("read_bytes", "write_bytes", "oss_ops", "mds_ops"))
    return {"nid": nid, "host": host, "cluster": "vu", "live": True, "filesystems": {"home": {**nothing, **rates}}}


def test_the_nids_of_one_host_are_one_node() -> None:
    clients = [
        client("1@tcp", "vu1", oss_ops=1.0, mds_ops=2.0),
        client("2@tcp", "vu1", oss_ops=5.0),
        client("3@tcp", None, read_bytes=9.0),
    ]
    telling = Telling({}, {(A, at("clients")): {"tick_seconds": TICK, "clients": clients}})
    view = View(by="node", sort="ops", server="mds1")
    last = shown(view, telling.aggregators)
    assert sheet(view, last, zoned=utc).rows == [
        ("vu1", "vu", "-", "-", "8/s", "2/s"),
        ("3@tcp", "vu", "9 B/s", "-", "-", "-"),
    ]
    assert last.notes == ["what nodes do is not known by server or target: this is of all of them"]


@pytest.mark.parametrize(
    ("targets", "metadata"), [(["home-MDT0000"], 7.0), (["home-OST0000"], 0), (["home-OST0000", "home-MDT0000"], None)]
)
def test_on_a_server_operations_are_metadatas_if_all_its_targets_are(
    targets: list[str], metadata: float | None
) -> None:
    here = {
        "read_bytes": 0.0,
        "write_bytes": 1.0,
        "iops": 7.0,
        "ops": {"open": 2.0, "getattr": 5.0, "write_bytes": 9.0},
    }
    servers = {
        "tick_seconds": TICK,
        "servers": [{"name": "s1", "targets": targets}, {"name": "s2", "targets": ["x-MDT0"]}],
    }
    view = View(server="s1", sort="ops")
    last = shown(view, Telling({A: [job("1", here=here)]}, {(A, at("servers")): servers}).aggregators)
    (row,) = last.rows
    assert row.numbers["metadata_ops"] == metadata
    assert row.more == "getattr 5/s"
    made = sheet(view, last, zoned=utc)
    assert (made.columns[-1].head, made.rows[0][-1]) == ("MOST OFTEN", "getattr 5/s")
    assert made.title == "harvest top · by job, most ops first · server s1 · at t1700000000"


def test_a_target_says_by_its_name_what_it_is() -> None:
    here = {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 7.0, "ops": {}}
    telling = Telling({A: [job("1", here=here)]})
    last = shown(View(target="home-MDT0000"), telling.aggregators)
    assert (last.rows[0].numbers["metadata_ops"], last.rows[0].more) == (7.0, "-")


def row(name: str, read: float | None, write: float) -> Row:
    return Row((name, *"-----"), {"read_bytes": read, "write_bytes": write, "iops": 0.0, "metadata_ops": None})


LAST = Shown(view=View(), tick_seconds=5, rows=[row("a", 3, 1), row("b", 2, 2), row("c", None, 3)])


def test_what_is_there_is_sorted_anew_at_once() -> None:
    assert names(View(), LAST) == ["a", "b", "c"]
    assert names(View(sort="write"), LAST) == ["c", "b", "a"]


def test_while_something_else_is_asked_for_nothing_wrong_is_shown() -> None:
    for by, fs in itertools.product(BYS, (None, "home")):
        made = sheet(View(by=by, fs=fs), LAST, zoned=utc)
        is_same = (by, fs) == ("job", None)
        assert bool(made.rows) == is_same
        assert made.title.endswith("at t5" if is_same else "asking …")
    assert sheet(View(), None, zoned=utc).title.endswith("asking …")


def test_silence_is_not_told_as_idleness() -> None:
    idle = sheet(View(), Shown(view=View(), tick_seconds=5), zoned=utc)
    assert idle.notes == ["nobody does anything there now"]
    silence = sheet(View(), Shown(view=View(), is_answered=False), zoned=utc)
    assert (silence.notes, silence.title[-9:]) == ([], "no answer")


def test_who_does_not_answer_is_named() -> None:
    path = at("jobs", sort="rates.read_bytes", limit=20)
    last = shown(View(), Telling({A: JOBS}, {(B, path): silent(B, path)}).aggregators)
    assert last.troubles == [f"without {B}: nobody listens there"]


def test_who_does_nothing_of_what_is_sorted_by_comes_behind_by_what_else_is_done() -> None:
    def doing(name: str, **rates: float) -> dict[str, Any]:
        did = work()
        did["rates"] |= rates
        return job(name, ost=did)

    idle = [job(f"idle{number}") for number in range(50)]
    jobs = [*idle, doing("ops", iops=9.0), doing("writes", write_bytes=5.0), doing("writes more", write_bytes=6.0)]
    telling = Telling({A: [*jobs, doing("reads", read_bytes=1.0)]})
    view = View(limit=10)
    assert names(view, shown(view, telling.aggregators)) == ["reads", "writes more", "writes", "ops"]
    assert names(View(limit=3), shown(View(limit=3), telling.aggregators)) == ["reads", "writes more", "writes"]
