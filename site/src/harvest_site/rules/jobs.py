"""Job ids: which cluster made one must be certain where clusters share a file system."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from harvest_site.clusters import JobIds
from harvest_site.fields import shown
from harvest_site.model import Spec
from harvest_site.rules.rule import Finding, Rule

_ONLY_CODES: Final = "(%([.][0-9]+)?[eghHjpu]|[0-9])*"


def told_apart(a: JobIds, b: JobIds) -> bool:
    """Tell whether no id can be of both: by its number, by the text around, or as a plain number."""
    if a.format == b.format and a.range is not None and b.range is not None:
        return a.range[1] < b.range[0] or b.range[1] < a.range[0]
    begin_a, begin_b = a.format.split("%")[0], b.format.split("%")[0]
    if not begin_a.startswith(begin_b) and not begin_b.startswith(begin_a):
        return True
    if "?" in a.format + b.format:  # what follows `%j?` is not in every id
        return False
    end_a, end_b = _end(a.format), _end(b.format)
    if not end_a.endswith(end_b) and not end_b.endswith(end_a):
        return True
    return (_is_number(a) and _is_marked(b)) or (_is_number(b) and _is_marked(a))


def _end(text: str) -> str:
    return re.sub("^([.][0-9]+)?[eghHjpu]", "", text.rpartition("%")[2])


def _is_number(ids: JobIds) -> bool:
    return ids.format == "%j" and ids.range is not None


def _is_marked(ids: JobIds) -> bool:
    return re.fullmatch(_ONLY_CODES, ids.format) is None


def _indistinguishable(spec: Spec) -> Iterator[Finding]:
    for (_, first), (index, second) in itertools.combinations(enumerate(spec.clusters), 2):
        shared = set(first.filesystems) & set(second.filesystems)
        if shared and first.job_ids and second.job_ids and not told_apart(first.job_ids, second.job_ids):
            yield (
                ("clusters", index, "jobIds"),
                f"on {', '.join(sorted(shared))} an id may also be a job of the cluster {shown(first.name)}",
            )


def _backwards(spec: Spec) -> Iterator[Finding]:
    for index, cluster in enumerate(spec.clusters):
        ids = cluster.job_ids
        if ids is not None and ids.range is not None and ids.range[0] > ids.range[1]:
            yield ("clusters", index, "jobIds", "range"), f"{list(ids.range)} runs backwards"


def _range_of_nothing(spec: Spec) -> Iterator[Finding]:
    for index, cluster in enumerate(spec.clusters):
        ids = cluster.job_ids
        if ids is not None and ids.range is not None and re.search("%([.][0-9]+)?j", ids.format) is None:
            yield ("clusters", index, "jobIds", "range"), f"the format {ids.format!r} has no job number"


def _slurm_kinds(spec: Spec) -> Iterator[Finding]:
    for index, cluster in enumerate(spec.clusters):
        if cluster.slurm is not None and (cluster.slurm.server is None) == (cluster.slurm.sidecar is None):
            given = "neither" if cluster.slurm.server is None else "both"
            yield ("clusters", index, "slurm"), f"{given} of server and sidecar given"


_BEGIN: Final = "{0}.jobIds.format.split('%')[0]"
_LAST: Final = "{0}.jobIds.format.find('[^%]*$')"
_END: Final = f"{_LAST}.substring({_LAST}.find('^([.][0-9]+)?[eghHjpu]').size())"
_NUMBER: Final = "({0}.jobIds.format == '%j' && has({0}.jobIds.range))"
_MARKED: Final = "!{0}.jobIds.format.matches('^" + _ONLY_CODES + "$')"


def _neither(text: str, test: str) -> str:
    a, b = text.format("a"), text.format("b")
    return f"(!{a}.{test}({b}) && !{b}.{test}({a}))"


RULES: Final = (
    Rule(
        id="job-ids-apart",
        at=("",),
        reads=("clusters",),
        check=_indistinguishable,
        cel=f"""
            self.clusters.all(a, !has(a.jobIds) || self.clusters.all(b, a.name >= b.name || !has(b.jobIds) ||
                !a.filesystems.exists(n, n in b.filesystems) ||
                (a.jobIds.format == b.jobIds.format && has(a.jobIds.range) && has(b.jobIds.range) &&
                    (a.jobIds.range[1] < b.jobIds.range[0] || b.jobIds.range[1] < a.jobIds.range[0])) ||
                {_neither(_BEGIN, "startsWith")} ||
                (!a.jobIds.format.contains('?') && !b.jobIds.format.contains('?') &&
                    ({_neither(_END, "endsWith")} ||
                     {_NUMBER.format("a")} && {_MARKED.format("b")} ||
                     {_NUMBER.format("b")} && {_MARKED.format("a")}))))
        """,
        message="write one format and ranges that do not overlap, or formats with the cluster's name, such as vu.%j",
    ),
    Rule(
        id="job-range-order",
        at=("clusters[].jobIds",),
        reads=("clusters",),
        check=_backwards,
        cel="!has(self.range) || self.range[0] <= self.range[1]",
        message="write the smaller number first",
    ),
    Rule(
        id="job-range-needs-job",
        at=("clusters[].jobIds",),
        reads=("clusters",),
        check=_range_of_nothing,
        cel="!has(self.range) || self.format.matches('%([.][0-9]+)?j')",
        message="write a format with %j, or leave the range out",
    ),
    Rule(
        id="slurm-kind",
        at=("clusters[].slurm",),
        reads=("clusters",),
        check=_slurm_kinds,
        cel="has(self.server) != has(self.sidecar)",
        message="write exactly one of server and sidecar, or leave slurm out",
    ),
)
