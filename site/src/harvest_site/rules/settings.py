"""Settings that must fit each other: times, servers, sinks, ports."""

import itertools
from collections.abc import Iterator
from typing import Final

from harvest_site.fields import Duration, shown
from harvest_site.model import Spec
from harvest_site.placement import Service
from harvest_site.quantities import duration_cel
from harvest_site.rules.rule import Finding, Path, Rule


def _deadline(spec: Spec) -> Iterator[Finding]:
    if spec.deadline_seconds >= spec.interval_seconds:
        yield (
            ("deadline",),
            f"it must be less than the interval, which is {Duration.written(spec.interval_seconds)}",
        )


def _client_intervals(spec: Spec) -> Iterator[Finding]:
    for index, filesystem in enumerate(spec.filesystems):
        if filesystem.clients.enabled and filesystem.clients.interval_seconds < spec.interval_seconds:
            yield (
                ("filesystems", index, "clients", "interval"),
                f"it is less than the site's interval, which is {Duration.written(spec.interval_seconds)}",
            )


def _same_fsname(spec: Spec) -> Iterator[Finding]:
    for (_, first), (index, second) in itertools.combinations(enumerate(spec.filesystems), 2):
        if first.fsname == second.fsname and (shared := sorted(first.server_names & second.server_names)):
            where = ", ".join([*shared[:3], *(["…"] if len(shared) > 3 else [])])
            yield (
                ("filesystems", index, "servers"),
                f"{shown(first.name)} has targets {first.fsname}-* on {where}, too",
            )


def _sink_kinds(spec: Spec) -> Iterator[Finding]:
    for index, sink in enumerate(spec.sinks):
        if [sink.ganglia, sink.influxdb, sink.prometheus].count(None) != 2:
            yield ("sinks", index), f"the sink {shown(sink.name)} is not of one kind"


def _services(spec: Spec) -> Iterator[tuple[Path, Service]]:
    yield ("service",), spec.service
    for index, aggregator in enumerate(spec.aggregators):
        if aggregator.service is not None:
            yield ("aggregators", index, "service"), aggregator.service


def _node_port_types(spec: Spec) -> Iterator[Finding]:
    for path, service in _services(spec):
        if service.node_port is not None and service.type != "NodePort":
            yield (*path, "nodePort"), f"a {service.type} has none"


def _node_ports(spec: Spec) -> Iterator[Finding]:
    taken: set[int] = set()
    for index, aggregator in enumerate(spec.aggregators):
        port = (aggregator.service or spec.service).node_port
        if port is not None and port in taken:
            yield ("aggregators", index, "service"), f"another aggregator has node port {port}"
        taken |= {port} if port is not None else set()


_PORT: Final = (
    "(has({0}.service) ? (has({0}.service.nodePort) ? {0}.service.nodePort : 0) : "
    "(has(self.service.nodePort) ? self.service.nodePort : 0))"
)

RULES: Final = (
    Rule(
        id="deadline",
        at=("",),
        reads=("interval", "deadline"),
        check=_deadline,
        cel=f"""
            !has(self.deadline) || [{duration_cel("self.interval")}].all(ms, ms < 0 ||
                {duration_cel("self.deadline")} < ms)
        """,
        message="write a deadline shorter than the interval, or leave it out",
    ),
    Rule(
        id="client-intervals",
        at=("",),
        reads=("interval", "filesystems"),
        check=_client_intervals,
        cel=f"""
            [{duration_cel("self.interval")}].all(site, self.filesystems.all(f, !f.clients.enabled ||
                [{duration_cel("f.clients.interval")}].all(ms, ms < 0 || ms >= site)))
        """,
        message="write clients: {interval: …} as long as the interval or longer",
    ),
    Rule(
        id="same-fsname",
        at=("",),
        reads=("filesystems",),
        check=_same_fsname,
        cel="""
            self.filesystems.all(a, self.filesystems.all(b, a.name >= b.name ||
                (has(a.fsname) ? a.fsname : a.name) != (has(b.fsname) ? b.fsname : b.name) ||
                !a.servers.exists(s, s in b.servers)))
        """,
        message="give file systems of one fsname servers of their own: their targets have the same names",
    ),
    Rule(
        id="sink-kind",
        at=("sinks[]",),
        reads=("sinks",),
        check=_sink_kinds,
        cel="[has(self.ganglia), has(self.influxdb), has(self.prometheus)].exists_one(given, given)",
        message="write exactly one of ganglia, influxdb and prometheus",
    ),
    Rule(
        id="node-port-type",
        at=("service", "aggregators[].service"),
        reads=("service", "aggregators"),
        check=_node_port_types,
        cel="!has(self.nodePort) || self.type == 'NodePort'",
        message="write type: NodePort, or leave nodePort out",
    ),
    Rule(
        id="node-ports-once",
        at=("",),
        reads=("service", "aggregators"),
        check=_node_ports,
        cel=f"""
            self.aggregators.all(a, {_PORT.format("a")} == 0 ||
                self.aggregators.exists_one(b, {_PORT.format("b")} == {_PORT.format("a")}))
        """,
        message="give each aggregator a service with a nodePort of its own, or leave nodePort out",
    ),
)
