"""Ids that nobody would choose, printed by the simulator (written apart from the parser), read back."""

import pytest

from harvest_core.lustre.job_stats import parse_job_stats
from harvest_sim.counters import Counter
from harvest_sim.ids import cut_id, readable_id
from harvest_sim.ops import Kind
from harvest_sim.text import job_stats_text, record_text
from harvest_sim.versions import IdRule, Version, traits

VERSIONS = [
    Version.parse(text)
    for text in ("2.5.3", "2.7.0", "2.12.9", "2.14.0", "2.15.0", "2.15.8", "2.15.51", "2.15.55", "2.16.1", "2.17.0")
]
LOSSLESS = [version for version in VERSIONS if traits(version).id_rule is not IdRule.QUESTION]

IDS = {
    "leading blanks": b"  lead",
    "inner blanks": b"two  blanks inside",
    "trailing blanks": b"trail  ",
    "one blank": b" ",
    "blanks only": b" " * 31,
    "quotes inside": b'say "hi" now',
    "quotes around": b'"quoted"',
    "quotes around a blank": b'"a b"',
    "only quotes": b'""',
    "one quote": b'"',
    "backslash": b"back\\slash",
    "trailing backslash": b"end\\",
    "colons": b":988:ds88:",
    "slashes": b"kworker/13:2.0",
    "percent": b"100%d%s%n",
    "text of an escape": b"\\x41",
    "quoted text of an escape": b'"\\x41"',
    "punctuation": b"a,b{c}[d]#e&f*g!h|i>j'k`l~m$n^o",
    "two-byte UTF-8": "caf\u00e9".encode(),
    "three-byte UTF-8": "\u20ac100.\u6570".encode(),
    "four-byte UTF-8": "\U0001f600.7".encode(),
    "Latin-1 letters": b"\xc0\xe9\xff",
    "Latin-1 signs": b"\xa0\xb7\xd7\xf7",
    "Latin-1 controls": b"\x80\x85\x9f",
    "ASCII controls": b"\x01\x1b[0m\x7f",
    "newline": b"line\nbreak",
    "leading newline": b"\nlate",
    "trailing newline": b"early\n",
    "only newlines": b"\n\n",
    "tab": b"tab\there",
    "leading tab": b"\tlead",
    "carriage return": b"back\r",
    "vertical tab and form feed": b"a\x0bb\x0cc",
    "31 bytes": b"abcdefghijklmnopqrstuvwxyz01234",
    "more than 31 bytes": b"SLURM_JOB_rack9_77120:0:rack9-node3.cluster",
    "cut inside two-byte UTF-8": b"abcdefghijklmnopqrstuvwxyz0123" + "\u00e9".encode(),
    "cut inside three-byte UTF-8": b"abcdefghijklmnopqrstuvwxyz012" + "\u20ac".encode(),
    "cut inside four-byte UTF-8": b"abcdefghijklmnopqrstuvwxyz01" + "\U0001f600".encode(),
    "31 bytes that are all escaped": b"\x01" * 31,
    "leading at": b"@login.1000",
    "at and colon": b"@login:1000",
    "looks like a record": b"- job_id: 7",
    "looks exactly like a record": b"- job_id:          7",
    "looks like a record behind a newline": b"a\n- job_id: 7",
    "looks exactly like a record behind a newline": b"a\n- job_id:          7",
    "looks like a record behind two newlines": b"a\n\n- job_id: 7",
    "looks like a time": b"snapshot_time:   5",
    "looks like a time behind a newline": b"a\nsnapshot_time: 5",
    "looks exactly like a time behind a newline": b"a\n  snapshot_time:   5",
    "looks like a header": b"job_stats:",
    "looks like a header behind a newline": b"a\njob_stats:",
    "looks like a counter": b"open: { samples: 1, unit: reqs }",
    "looks like a counter behind a newline": b"\n x: { samples: 1, unit: reqs }",
    "null": b"null",
    "tilde": b"~",
    "octal": b"0123",
    "underscores in a number": b"1_000",
    "decimal": b"1.10",
    "leading dash": b"-dash.5",
    "only a dash": b"-",
}


def perfect(version: Version, job_id: bytes) -> bytes:
    """Return what can be known of an id: raw text is all there, even behind a newline."""
    return cut_id(job_id) if traits(version).id_rule is IdRule.RAW else readable_id(version, job_id)


def record(version: Version, job_id: bytes, samples: int) -> bytes:
    return record_text(
        version,
        Kind.OST,
        job_id,
        {"punch": Counter.of([1] * samples)},
        snapshot_ns=1_700_000_000_000_000_005,
        start_ns=1_690_000_000_000_000_000,
    )


@pytest.mark.parametrize("job_id", IDS.values(), ids=IDS.keys())
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version.text}")
def test_an_id_comes_back_as_it_was_sent_and_its_neighbours_are_unharmed(version: Version, job_id: bytes) -> None:
    text = job_stats_text(version, [record(version, name, n) for n, name in enumerate((b"first", job_id, b"last"), 1)])
    parsed = parse_job_stats(text)
    found = [(r.job, [c.samples for c in r.counters if c.name == "punch"]) for r in parsed.records]
    assert found == [(b"first", [1]), (perfect(version, job_id), [2]), (b"last", [3])]
    assert {r.snapshot_time for r in parsed.records} == {parsed.records[0].snapshot_time}
    assert [(r.unread, r.doubtful) for r in parsed.records] == [((), ())] * 3


@pytest.mark.parametrize("version", LOSSLESS, ids=lambda version: f"{version.text}")
def test_where_no_byte_is_replaced_all_ids_of_a_file_come_back_in_their_order(version: Version) -> None:
    text = job_stats_text(version, [record(version, job_id, 1) for job_id in IDS.values()])
    assert [r.job for r in parse_job_stats(text).records] == [cut_id(job_id) for job_id in IDS.values()]


@pytest.mark.parametrize("version", [v for v in VERSIONS if v not in LOSSLESS], ids=lambda version: f"{version.text}")
def test_ids_that_print_alike_stay_records_of_their_own(version: Version) -> None:
    text = job_stats_text(version, [record(version, job_id, n) for n, job_id in enumerate((b"a\nb", b"a\tb"), 1)])
    found = [(r.job, [c.samples for c in r.counters if c.samples]) for r in parse_job_stats(text).records]
    assert found == [(b"a?b", [1]), (b"a?b", [2])]
