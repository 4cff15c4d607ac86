"""Formats that are told apart really are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_site.clusters import JobIds
from harvest_site.rules.jobs import told_apart


def ids(text: str, first: int | None = None, last: int = 0) -> JobIds:
    return JobIds.model_validate({"format": text, "range": None if first is None else (first, last)})


def claims(cluster: JobIds, job: bytes) -> bool:
    parts = cluster.compiled.parse(job)
    if parts is None or cluster.range is None:
        return parts is not None
    number = parts.job or ""
    return number.isascii() and number.isdigit() and cluster.range[0] <= int(number) <= cluster.range[1]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (ids("%j"), ids("%j"), False),
        (ids("%j", 1, 9), ids("%j", 10, 19), True),
        (ids("%j", 1, 9), ids("%j", 9, 19), False),
        (ids("%j", 1, 9), ids("%j"), False),
        (ids("%j", 1, 9), ids("%j:%u"), True),
        (ids("%j"), ids("%j:%u"), False),
        (ids("%j", 1, 9), ids("%u%j", 10, 19), False),
        (ids("%j", 1, 9), ids("1%j", 10, 19), False),
        (ids("%j", 1, 9), ids("x%j?%H", 10, 19), False),
        (ids("a.%j"), ids("b.%j"), True),
        (ids("a.%j"), ids("a.b.%j"), False),
        (ids("%j.a"), ids("%.5j.b"), True),
        (ids("%j.a"), ids("%j.b.a"), False),
        (ids("%j.a"), ids("%j?.b"), False),
        (ids("%e.%u"), ids("%e.%u"), False),
    ],
)
def test_clusters_are_told_apart_by_numbers_or_by_the_text_around(a: JobIds, b: JobIds, apart: bool) -> None:  # noqa: FBT001
    assert told_apart(a, b) == told_apart(b, a) == apart


TEXTS = st.sampled_from(
    ["%j", "%j:%u", "%u%j", "%j.a", "%j.b", "a%j", "b%j", "1%j", "%j?%H", "%j?.a", "%e.%u", "%.3j1", "%j%u"]
)
SPANS = st.sampled_from([None, (1, 20), (21, 99), (15, 30)])
CLUSTERS = st.tuples(TEXTS, SPANS).map(lambda pair: ids(pair[0]) if pair[1] is None else ids(pair[0], *pair[1]))


@settings(derandomize=True, deadline=None, database=None)
@given(CLUSTERS, CLUSTERS, st.text("012ab.:x", min_size=1, max_size=6))
def test_no_id_is_claimed_by_two_clusters_that_are_told_apart(a: JobIds, b: JobIds, job: str) -> None:
    if told_apart(a, b):
        assert not (claims(a, job.encode()) and claims(b, job.encode()))
