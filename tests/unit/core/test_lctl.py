import pytest

from harvest_agent.sampling import sample_lctl
from harvest_core.lustre.lctl import Parameter, parse_lctl

RECORD = (
    b"- job_id:          7\n  snapshot_time:   1571000001\n  open:            { samples:           2, unit:  reqs }\n"
)


def test_a_value_on_the_same_line_is_read() -> None:
    parameters, head = parse_lctl(b"jobid_var=SLURM_JOB_ID\nobdfilter.fs-OST0000.instance=7\n")
    assert [(p.name, p.value.strip()) for p in parameters] == [
        (b"jobid_var", b"SLURM_JOB_ID"),
        (b"obdfilter.fs-OST0000.instance", b"7"),
    ]
    assert head == b""


def test_a_value_on_the_next_lines_is_read_whole() -> None:
    parameters, _ = parse_lctl(b"mdt.fs-MDT0000.job_stats=\njob_stats:\n" + RECORD + b"mdt.fs-MDT0000.instance=7\n")
    assert parameters[0] == Parameter(b"mdt.fs-MDT0000.job_stats", b"job_stats:\n" + RECORD)


def test_an_empty_job_stats_before_2_16_51_has_its_header_on_the_same_line() -> None:
    assert list(sample_lctl(b"mdt.fs-MDT0000.job_stats=job_stats:\n")) == []


def test_an_empty_parameter_from_2_17_is_a_name_without_value() -> None:
    parameters, _ = parse_lctl(b"mdt.a-MDT0000.job_stats=\nmdt.b-MDT0000.job_stats=\n")
    assert [p.value for p in parameters] == [b"", b""]
    assert list(sample_lctl(b"mdt.a-MDT0000.job_stats=\nmdt.b-MDT0000.job_stats=\n")) == []


def test_an_empty_text_holds_nothing() -> None:
    assert parse_lctl(b"") == ((), b"")
    assert list(sample_lctl(b"")) == []


def test_a_record_behind_a_header_on_the_name_line_is_read() -> None:
    (row,) = sample_lctl(b"mdt.fs-MDT0000.job_stats=job_stats:\n" + RECORD)
    assert (row["target"], row["job"], row["samples"]) == ("fs-MDT0000", "7", 2)


def test_the_last_line_may_lack_its_newline() -> None:
    text = b"mdt.fs-MDT0000.job_stats=\njob_stats:\n" + RECORD
    assert list(sample_lctl(text.rstrip(b"\n"))) == list(sample_lctl(text))


def test_text_before_the_first_name_is_returned_and_reported() -> None:
    text = b"error: get_param: no such thing\n\nmdt.fs-MDT0000.job_stats=\njob_stats:\n" + RECORD
    parameters, head = parse_lctl(text)
    assert (len(parameters), head) == (1, b"error: get_param: no such thing\n\n")
    unread, job = sample_lctl(text)
    assert unread == {"kind": "unread", "file": "lctl", "line": "error: get_param: no such thing"}
    assert job["kind"] == "job"


def test_values_without_names_are_never_given_to_a_target() -> None:
    rows = list(sample_lctl(b"job_stats:\n" + RECORD))
    assert [row["line"] for row in rows] == ["job_stats:", *RECORD.decode().splitlines()]
    assert {row["kind"] for row in rows} == {"unread"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (b"mdt.fs-MDT0000.job_stats", (b"mdt", b"fs-MDT0000", None, b"job_stats")),
        (b"obdfilter.fs-OST0000.exports.clear", (b"obdfilter", b"fs-OST0000.exports", None, b"clear")),
        (
            b"obdfilter.fs-OST0000.exports.10.0.0.1@tcp.stats",
            (b"obdfilter", b"fs-OST0000", b"10.0.0.1@tcp", b"stats"),
        ),
        (b"mdt.fs-MDT0000.exports.172.16.1.25@o2ib2.uuid", (b"mdt", b"fs-MDT0000", b"172.16.1.25@o2ib2", b"uuid")),
        (b"mdt.fs-MDT0000.exports.fd00:1::5@tcp.stats", (b"mdt", b"fs-MDT0000", b"fd00:1::5@tcp", b"stats")),
        (b"mdt.fs-MDT0000.exports.0@lo.ldlm_stats", (b"mdt", b"fs-MDT0000", b"0@lo", b"ldlm_stats")),
        (b"mdt.fs-MDT0000.exports.123@kfi.stats", (b"mdt", b"fs-MDT0000", b"123@kfi", b"stats")),
        (b"mdt.fs-MDT0000.exports.1f@<20:3>.stats", (b"mdt", b"fs-MDT0000", b"1f@<20:3>", b"stats")),
        (b"jobid_var", None),
        (b"one.dot", None),
    ],
)
def test_a_name_is_split_where_its_parts_are_known(
    name: bytes, parts: tuple[bytes, bytes, bytes | None, bytes] | None
) -> None:
    assert Parameter(name, b"").parts == parts


def test_lines_of_counters_are_never_taken_for_names() -> None:
    times = b"snapshot_time   : 5400.000000250 secs.nsecs\n"
    value = b"- job_id: a=b\n" + times + b"read_bytes 2 samples [bytes] 1 2 3\n  x=y: { a=b }\n"
    parameters, _ = parse_lctl(b"mdt.fs-MDT0000.job_stats=\n" + value + b"next.one.here=1\n")
    assert (len(parameters), parameters[0].value) == (2, value)


def test_only_jobs_and_clients_of_targets_become_rows() -> None:
    stats = b"open 3 samples [reqs]\n"
    others = [b"mdt.fs-MDT0000.md_stats", b"nodemap.lab.md_stats", b"llite.fs-ffff8aa0.stats", b"mds.MDS.mdt.stats"]
    text = b"".join(name + b"=\n" + stats for name in [*others, b"mdt.fs-MDT0000.exports.0@lo.ldlm_stats"])
    assert list(sample_lctl(text)) == []
    (row,) = sample_lctl(text + b"mdt.fs-MDT0000.exports.0@lo.stats=\n" + stats)
    assert (row["kind"], row["nid"], row["samples"]) == ("export", "0@lo", 3)


def test_a_value_that_is_not_supported_is_unread() -> None:
    (row,) = sample_lctl(b"mdt.fs-MDT0000.job_stats=not supported\nosd.fs-MDT0000.quota=not supported\n")
    assert row == {"kind": "unread", "file": "mdt.fs-MDT0000.job_stats", "line": "not supported"}


def test_only_the_chosen_file_system_is_taken_from_a_dump() -> None:
    names = [b"mdt.home-MDT0000.job_stats=\n", b"mdt.home2-MDT0000.job_stats=\n", b"mdt.my-home-MDT0000.job_stats=\n"]
    text = b"".join(name + b"job_stats:\n" + RECORD for name in names)
    assert [row["target"] for row in sample_lctl(text, ["home"])] == ["home-MDT0000"]
    assert [row["target"] for row in sample_lctl(text)] == ["home-MDT0000", "home2-MDT0000", "my-home-MDT0000"]


def test_an_old_id_with_a_newline_and_an_equals_sign_does_not_end_its_parameter() -> None:
    text = b"mdt.fs-MDT0000.job_stats=\njob_stats:\n" + RECORD.replace(b" 7\n", b" a\nb=c\n")
    (row,) = sample_lctl(text)
    assert (row["job"], row["samples"]) == ("a\nb=c", 2)


@pytest.mark.parametrize("job", [b"a\nb=c", b"a\nb\nc=d", b"a\n\nz=1", b"a\nx.y=z"])
def test_whatever_an_old_id_holds_costs_no_other_job(job: bytes) -> None:
    text = b"mdt.fs-MDT0000.job_stats=\njob_stats:\n" + RECORD.replace(b" 7\n", b" " + job + b"\n") + RECORD

    assert [row["job"] for row in sample_lctl(text)] == [job.decode(), "7"]


@pytest.mark.parametrize(
    "line", [b".".join([b"1"] * 5000), b"x.exports." * 5000, b"x.exports.a@" * 5000, b"a." * 50_000 + b"="]
)
def test_no_line_takes_long(line: bytes) -> None:
    """A line that is tried in many ways would take hours."""
    parameters, _ = parse_lctl(b"mdt.fs-MDT0000.job_stats=\n" + line + b"\n")

    assert parameters[0].parts == (b"mdt", b"fs-MDT0000", None, b"job_stats")
    for parameter in parameters:
        _ = parameter.parts
