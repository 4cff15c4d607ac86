"""Whose job an id is."""

import pytest

from harvest_core.job_ids import JobIdFormat
from harvest_core.jobs.identity import ClusterIds, Identities, Identity, JobName, Process

NUMBER = JobIdFormat.compile("%j")
DETAILED = JobIdFormat.compile("%j:%u:%H")


def cluster(
    name: str, filesystem: str, form: JobIdFormat | None = None, numbers: tuple[int, int] | None = None
) -> ClusterIds:
    return ClusterIds(cluster=name, filesystems=frozenset({filesystem}), format=form, range=numbers)


def test_a_site_without_clusters_says_what_an_id_looks_like_and_no_more() -> None:
    nobody = Identities()
    assert nobody.of("home", b"123") == Identity(JobName("-", b"123"), number=123)
    assert nobody.of("home", b"cp.1000") == Identity(JobName("-", b"cp.1000"), process=Process("cp", 1000))
    assert nobody.of("home", b"\xff\xfe") == Identity(JobName("-", b"\xff\xfe"))


def test_the_only_cluster_without_a_format_claims_what_is_on_its_file_systems() -> None:
    site = Identities([cluster("vu", "home")])
    assert site.of("home", b"123").name == JobName("vu", b"123")
    assert site.of("home", b"cp.1000").name == JobName("vu", b"cp.1000")
    assert site.of("gdata", b"123").name == JobName("-", b"123")


def test_two_clusters_that_nothing_tells_apart_are_ambiguous() -> None:
    site = Identities([cluster("vu", "home"), cluster("xe", "home")])
    assert site.of("home", b"123") == Identity(JobName("ambiguous", b"123"), number=123)


def test_ranges_tell_clusters_apart() -> None:
    site = Identities(
        [
            cluster("vu", "home", form=NUMBER, numbers=(1, 999)),
            cluster("xe", "home", form=NUMBER, numbers=(1000, 1999)),
        ]
    )
    assert site.of("home", b"999").name.cluster == "vu"
    assert site.of("home", b"1000").name.cluster == "xe"
    assert site.of("home", b"2000").name.cluster == "-"
    assert site.of("home", b"cp.1000") == Identity(JobName("ambiguous", b"cp.1000"), process=Process("cp", 1000))


def test_a_format_claims_its_own_and_leaves_the_rest_to_the_one_that_has_none() -> None:
    site = Identities([cluster("vu", "home", form=JobIdFormat.compile("vu.%j")), cluster("xe", "home")])
    assert site.of("home", b"vu.77") == Identity(JobName("vu", b"77"), number=77)
    assert site.of("home", b"77") == Identity(JobName("xe", b"77"), number=77)


def test_one_job_has_many_ids_where_they_name_nodes_and_users() -> None:
    site = Identities([cluster("vu", "home", form=DETAILED)])
    assert site.of("home", b"123:1000:n1") == site.of("home", b"123:1000:n2")
    assert site.of("home", b"123:1000:n1") == Identity(JobName("vu", b"123"), number=123)


def test_outside_a_job_such_a_format_names_no_process_unless_it_has_one() -> None:
    with_process = Identities([cluster("vu", "home", form=JobIdFormat.compile("%j:%e:%u"))])
    assert with_process.of("home", b":cp:1000").name == JobName("vu", b"cp.1000")
    assert Identities([cluster("vu", "home", form=DETAILED)]).of("home", b":1000:n1").name == JobName("vu", b":1000:n1")


def test_where_any_text_may_be_a_job_a_process_is_still_one() -> None:
    site = Identities([cluster("vu", "home", form=NUMBER)])
    assert site.of("home", b"cp.1000") == Identity(JobName("vu", b"cp.1000"), process=Process("cp", 1000))
    assert site.of("home", b"12.pbs1") == Identity(JobName("vu", b"12.pbs1"))


def test_a_number_through_which_the_cut_may_have_gone_names_no_job() -> None:
    site = Identities([cluster("vu", "home", form=JobIdFormat.compile("abcdefghijklmnopqrstuvwx.%j"))])
    cut = b"abcdefghijklmnopqrstuvwx.123456"
    assert len(cut) == 31
    assert site.of("home", cut) == Identity(JobName("vu", cut))
    assert site.of("home", cut[:-1]) == Identity(JobName("vu", b"12345"), number=12345)


@pytest.mark.parametrize("job", [b"0", b"4294967296", b"99999999999999"])
def test_a_number_that_slurm_cannot_have_is_only_an_id(job: bytes) -> None:
    assert Identities().of("home", job).number is None


def test_what_was_told_is_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_core.jobs.identity._REMEMBERED", 10)
    site = Identities([cluster("vu", "home")])
    for number in range(100):
        assert site.of("home", b"%d" % number).name == JobName("vu", b"%d" % number)
    assert len(site._told) <= 10  # noqa: SLF001 - nothing else shows it


def test_of_jobs_that_are_over_nothing_is_remembered() -> None:
    site = Identities([cluster("vu", "home"), cluster("xe", "data")])
    for number in range(100):
        site.of("home", b"%d" % number)
        site.of("data", b"%d" % number)
    site.keep({JobName("vu", b"7")})
    assert site._told.keys() == {("home", b"7")}  # noqa: SLF001 - nothing else shows it


def test_programs_beyond_a_bound_are_their_users_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_core.jobs.identity.PROCESSES_MOST", 2)
    site = Identities([cluster("vu", "home")])
    assert [site.of("home", job).name.job for job in (b"a.1", b"b.1", b"c.1", b"d.2", b"a.1")] == [
        b"a.1",
        b"b.1",
        b"other.1",
        b"other.2",
        b"a.1",
    ]
    site.keep({JobName("vu", b"b.1"), JobName("vu", b"other.1"), JobName("vu", b"other.2")})
    assert site.of("home", b"e.1").name.job == b"e.1"
    assert site.of("home", b"a.1") == Identity(JobName("vu", b"other.1"), process=Process("other", 1))
    assert site.of("home", b"123").number == 123
