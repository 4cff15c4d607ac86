"""What ids say, by the formats that sites set."""

import pytest

from harvest_core.job_ids import JobIdFormat, JobIdParts, guess


def parse(text: str, job: str | bytes) -> JobIdParts | None:
    compiled = JobIdFormat.compile(text)
    assert compiled is not None
    return compiled.parse(job if isinstance(job, bytes) else job.encode())


def test_a_number_is_a_job() -> None:
    assert guess(b"815871") == JobIdParts(job="815871")


@pytest.mark.parametrize(
    ("job", "executable", "uid"),
    [
        (b"dd.0", "dd", "0"),
        (b"rsync_env.sh.30026", "rsync_env.sh", "30026"),
        (b"(sd-pam).0", "(sd-pam)", "0"),
        (b"kworker/13:2.0", "kworker/13:2", "0"),
        (b"has sp.touch.0", "has sp.touch", "0"),
    ],
)
def test_a_name_and_a_number_is_a_process_and_its_user(job: bytes, executable: str, uid: str) -> None:
    assert guess(job) == JobIdParts(executable=executable, uid=uid)


@pytest.mark.parametrize("job", [b"", b"lfs.0.", b":988:ds88", b"null", b"a\nb"])
def test_anything_else_is_unknown(job: bytes) -> None:
    assert guess(job) is None


def test_a_format_takes_ids_apart() -> None:
    assert parse("%j:%u:%H", "123:1000:node7") == JobIdParts(job="123", uid="1000", host="node7")
    assert parse("%e.%u.%j", "cp.1000.77") == JobIdParts(executable="cp", uid="1000", job="77")


def test_the_job_is_empty_outside_jobs() -> None:
    assert parse("%j:%u:%H", ":988:ds88") == JobIdParts(job="", uid="988", host="ds88")
    assert parse("%e.%u.%j", "lfs.0.") == JobIdParts(executable="lfs", uid="0", job="")


def test_blanks_of_a_format_are_dropped() -> None:
    assert parse("%e . %u", "cp.5") == JobIdParts(executable="cp", uid="5")


def test_a_width_bounds_a_field() -> None:
    assert parse("%j.%.3h", "7.nod") == JobIdParts(job="7", host="nod")
    assert parse("%j.%.3h", "7.node") is None


def test_a_bounded_job_may_be_empty_too() -> None:
    assert parse("%.3j.%u", ".1000") == JobIdParts(job="", uid="1000")


def test_a_question_mark_behind_anything_but_the_job_is_itself() -> None:
    assert parse("%u?%e", "5?cp") == JobIdParts(uid="5", executable="cp")


def test_a_fallback_stands_only_where_there_is_no_job() -> None:
    """`%j?%H` since 2.15.65."""
    assert parse("%j?%H", "4711") == JobIdParts(job="4711")
    assert parse("%j?%H", "login1") == JobIdParts(host="login1")


def test_an_id_of_31_bytes_may_be_cut_in_its_last_field() -> None:
    cut = "node_exporter:989:es-2-virt3-co"
    assert len(cut) == 31
    assert parse("%e:%u:%H", cut) == JobIdParts(
        executable="node_exporter", uid="989", host="es-2-virt3-co", doubtful="host"
    )


def test_a_cut_may_take_whole_fields_away() -> None:
    cut = "verylongexecuta.123456789012345"
    assert len(cut) == 31
    assert parse("%e.%u.%j", cut) == JobIdParts(executable="verylongexecuta", uid="123456789012345", doubtful="uid")


def test_an_id_that_is_not_cut_and_does_not_fit_is_unknown() -> None:
    assert parse("%j:%u:%H", "123:1000") is None


@pytest.mark.parametrize("text", ["%x", "%j:%", "%u.%u", "%h%H", "%.0h", "%.99999999999h"])
def test_a_format_that_cannot_be_read_back_is_refused(text: str) -> None:
    assert JobIdFormat.compile(text) is None


def test_bytes_that_are_no_text_survive() -> None:
    assert parse("%e.%u", b"caf\xe9.5") == JobIdParts(executable="caf\udce9", uid="5")
