import pytest

from harvest_sim.ids import cut_id, id_from_command, job_id_text, readable_id
from harvest_sim.versions import Version

RAW, QUESTION, A, B = (Version.parse(text) for text in ("2.7.0", "2.12.9", "2.15.8", "2.16.1"))


@pytest.mark.parametrize(
    ("job_id", "raw", "question", "rule_a", "rule_b"),
    [
        (b"815871", b"815871", b"815871", b"815871", b"815871"),
        (b"has sp", b"has sp", b"has sp", rb'"has\x20sp"', rb'"has\x20sp"'),
        (b"kworker/13:2.0", b"kworker/13:2.0", b"kworker/13:2.0", rb'"kworker\x2F13\x3A2.0"', b'"kworker/13:2.0"'),
        (b"a/b", b"a/b", b"a/b", rb'"a\x2Fb"', b"a/b"),
        (b'a"b\\c', b'a"b\\c', b'a"b\\c', rb'"a\x22b\x5Cc"', rb'"a\x22b\x5Cc"'),
        (b"@weird", b"@weird", b"@weird", b"@weird", b'"@weird"'),
        (b"df@0@node", b"df@0@node", b"df@0@node", b"df@0@node", b"df@0@node"),
        (b"a\nb\tc", b"a\nb\tc", b"a?b?c", rb'"a\x0Ab\x09c"', rb'"a\x0Ab\x09c"'),
        (b"caf\xc3\xa9", b"caf\xc3\xa9", b"caf\xc3\xa9", b'"caf\xc3\\xA9"', b'"caf\xc3\\xA9"'),
        (b"\xd7\xf7\xff", b"\xd7\xf7\xff", b"\xd7\xf7\xff", b'"\\xD7\\xF7\xff"', b'"\\xD7\\xF7\xff"'),
        (b"\x80\x9f\xa0", b"\x80\x9f\xa0", b"??\xa0", rb'"\x80\x9F\xA0"', rb'"\x80\x9F\xA0"'),
        (b"\x7f", b"\x7f", b"?", rb'"\x7F"', rb'"\x7F"'),
        (b"-dash_1.5", b"-dash_1.5", b"-dash_1.5", b"-dash_1.5", b"-dash_1.5"),
    ],
)
def test_1_2_every_rule_to_the_byte(job_id: bytes, raw: bytes, question: bytes, rule_a: bytes, rule_b: bytes) -> None:
    assert [job_id_text(version, job_id) for version in (RAW, QUESTION, A, B)] == [raw, question, rule_a, rule_b]


def test_1_2_a_leading_at_sign_is_quoted_only_from_2_15_60() -> None:
    assert job_id_text(Version.parse("2.15.59"), b"@x") == b"@x"
    assert job_id_text(Version.parse("2.15.60"), b"@x") == b'"@x"'


def test_1_2_ids_are_cut_hard_at_31_bytes() -> None:
    assert cut_id(b"x" * 40) == b"x" * 31
    assert job_id_text(B, b"node_exporter:989:es-2-virt3-cosp") == b'"node_exporter:989:es-2-virt3-co"'
    assert cut_id("é".encode() * 16) == ("é".encode() * 16)[:31]


def test_1_2_a_perfect_reader_gets_escaped_ids_back_whole() -> None:
    hostile = bytes(range(1, 32))
    assert readable_id(A, hostile) == hostile
    assert readable_id(B, hostile) == hostile


def test_1_2_a_perfect_reader_cannot_undo_question_marks_nor_a_newline_in_a_raw_id() -> None:
    assert readable_id(QUESTION, b"line\nbreak") == b"line?break"
    assert readable_id(RAW, b"line\nbreak") == b"line"


def test_1_2_the_quoted_form_is_accepted_from_2_15_55() -> None:
    assert id_from_command(B, rb'"has\x20sp:1"' + b"\n") == b"has sp:1"
    assert id_from_command(A, b'"quoted"\n') == b'"quoted"'
