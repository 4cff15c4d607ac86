"""Clusters: which nodes are theirs, which jobs, and what their nodes are called."""

import re
from functools import cached_property
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from harvest_core.job_ids import JobIdFormat
from harvest_core.lustre.names import parse_nid
from harvest_site.fields import Distinct, FilesystemNames, HostName, Lnets, Model, Name, Shape, refused, shown
from harvest_site.nids import NID_RANGE_INSTEAD, NID_RANGE_PATTERN, NidRange
from harvest_site.references import MungeSecretRef, SlurmConfigRef

_NID_CHARACTERS_MAX: Final = 80
_JOB_NUMBER_MAX: Final = 999_999_999_999
_CODES: Final = "(%([.][1-9][0-9]?)?[eghHpu]|%([.][1-9][0-9]?)?j[?]?)"


def _nid_range(text: str) -> str:
    try:
        NidRange.parse(text)
    except ValueError as error:
        raise refused(f"{shown(text)} will not do: {error}") from None
    return text


def _job_id_format(text: str) -> str:
    if JobIdFormat.compile(text) is None:
        raise refused(f"{text!r} has a field twice, which cannot be read back: write each code once")
    return text


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise refused(f"{text!r} is no regular expression ({error}): write one that matches whole NIDs") from None
    return text


Nid = Annotated[
    str,
    Field(max_length=_NID_CHARACTERS_MAX),
    Shape("[0-9A-Fa-f.:]{1,45}@[a-z][a-z0-9]{0,24}", "the NID of one node as servers print it, such as 10.1.0.7@o2ib"),
]
JobNumber = Annotated[int, Field(ge=0, le=_JOB_NUMBER_MAX)]
Template = Annotated[
    str,
    Field(max_length=200),
    Shape(r"([A-Za-z0-9._:-]|\\[1-9])+", r"a name in which \1 to \9 stand for the groups of nid, such as vu\1"),
]


class JobIds(Model):
    """How the job ids of a cluster look in Lustre."""

    format: Annotated[
        str,
        Field(max_length=64),
        Shape(
            rf"([^%\s]|{_CODES})*{_CODES}([^%\s]|{_CODES})*",
            "the cluster's jobid_name with at least one of Lustre's codes %e %g %h %H %j %p %u",
        ),
        AfterValidator(_job_id_format),
    ] = "%j"
    """The clients' `jobid_name`, with Lustre's codes `%e %g %h %H %j %p %u`."""

    range: tuple[JobNumber, JobNumber] | None = None
    """First and last number that `%j` can be: ids outside are not this cluster's. Absent: any text."""

    @cached_property
    def compiled(self) -> JobIdFormat:
        """The format, ready to read ids with."""
        compiled = JobIdFormat.compile(self.format)
        if compiled is None:
            raise ValueError(self.format)
        return compiled


class SlurmSidecar(Model):
    """An agent with the `slurm` collector in the aggregator's Pod."""

    image: Annotated[
        str,
        Field(max_length=255),
        Shape("[A-Za-z0-9][A-Za-z0-9._:/@-]*", "the name of an image, with its tag or digest"),
    ]
    """Image with harvest-agent and the site's Slurm commands."""

    munge_secret_ref: MungeSecretRef
    """Secret with the cluster's munge key."""

    config_ref: SlurmConfigRef
    """ConfigMap with the cluster's `slurm.conf`."""


class Slurm(Model):
    """Who reports the cluster's job table: exactly one of the two."""

    server: HostName | None = None
    """Name of the agent whose `slurm` collector reports this cluster."""

    sidecar: SlurmSidecar | None = None
    """Run that agent beside the aggregator."""


class Dns(Model):
    """Ask the DNS for the name of the NID's address."""


class HostPattern(Model):
    """Names made from the NID."""

    nid: Annotated[str, Field(max_length=200), AfterValidator(_expression)]
    r"""Regular expression for a whole NID, such as `10\.1\.0\.(\d+)@o2ib`."""

    host: Template
    r"""Name of the node, with `\1` for the first group."""

    address: Template | None = None
    """Its ganglia address, likewise. Absent: the NID's."""


class HostEntry(Model):
    """One node by hand."""

    nid: Nid
    """NID as servers print it."""

    host: HostName
    """Name of the node."""

    address: Annotated[str, Field(max_length=253), Shape("[A-Za-z0-9._:-]+", "an address, such as 10.2.0.7")] | None = (
        None
    )
    """Its ganglia address. Absent: the NID's."""


class HostRule(Model):
    """A way from NIDs to names: exactly one of the three."""

    dns: Dns | None = None
    """`{}`: ask the DNS for the name of the NID's address."""

    pattern: HostPattern | None = None
    """Make the name from the NID."""

    table: Annotated[tuple[HostEntry, ...], Field(min_length=1, max_length=4096)] | None = None
    """Nodes by hand."""


class Cluster(Model):
    """Nodes that belong together, and the jobs on them."""

    name: Name
    """The cluster's name, as people know it."""

    lnets: Lnets = ()
    """Lustre networks whose clients are all this cluster's nodes."""

    nids: Annotated[
        tuple[
            Annotated[
                str,
                Field(max_length=_NID_CHARACTERS_MAX),
                Shape(NID_RANGE_PATTERN, NID_RANGE_INSTEAD),
                AfterValidator(_nid_range),
            ],
            ...,
        ],
        Distinct(),
        Field(max_length=32),
    ] = ()
    """NID ranges that are this cluster's, on networks that it shares: `10.1.[0-3].*@o2ib`, `fd00:1::/64@tcp`."""

    filesystems: FilesystemNames = ()
    """File systems that it mounts: names under `filesystems` or `accepts`."""

    job_ids: JobIds | None = None
    """How its job ids look. Absent: it claims those that no other cluster does, if it is the only such one."""

    slurm: Slurm | None = None
    """Where its job table comes from. Absent: no Slurm."""

    hosts: Annotated[tuple[HostRule, ...], Field(max_length=16)] = ()
    """From NIDs to host names: the first rule that knows an answer counts. Empty: the NID is the name."""

    @cached_property
    def nid_ranges(self) -> tuple[NidRange, ...]:
        """The ranges, ready to compare."""
        return tuple(map(NidRange.parse, self.nids))

    def owns(self, nid: str) -> bool:
        """Tell whether the client with this NID is one of the cluster's nodes."""
        parsed = parse_nid(nid)
        return parsed is not None and (
            parsed.network in self.lnets or any(nids.contains(nid) for nids in self.nid_ranges)
        )
