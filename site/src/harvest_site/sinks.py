"""Sinks: where closed sweeps go."""

from typing import Annotated, Literal

from pydantic import Field

from harvest_site.fields import ClusterNames, Distinct, Duration, Endpoint, Model, Name, Shape, Url
from harvest_site.references import CaSecretRef, SecretRef

Detail = Literal["client", "op", "process", "target", "user"]
Family = Literal["none", "top", "all"]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class Ganglia(Model):
    """Metrics of nodes, sent to gmond in their names."""

    address: Endpoint
    """A gmond's `host:port`, unicast or multicast."""

    clusters: ClusterNames = ()
    """Only nodes of these clusters. Empty: of all."""

    ttl: Annotated[int, Field(ge=1, le=255)] = 1
    """How many routers multicast may pass."""

    interface: Annotated[str, Shape("[A-Za-z0-9._:-]{1,45}", "the name or address of an interface")] | None = None
    """Interface that multicast leaves by. Absent: the system's choice."""

    dmax_seconds: Annotated[int, Duration("0s", "365d")] = Field(default=0, alias="dmax")
    """When gmond forgets a metric that is no longer sent; 0s: never."""

    heartbeat: bool = False
    """Also report nodes as alive that run no gmond of their own. A dead node then looks alive while Lustre knows it."""

    dry_run: bool = False
    """Send nothing: write to the aggregator's log what would be sent."""


class Influxdb(Model):
    """Points of jobs, in the measurement `lustre`."""

    url: Url
    """Address of the server."""

    org: _Text
    """Organisation."""

    bucket: _Text
    """Bucket; `database/retention-policy` for InfluxDB 1.8."""

    token_secret_ref: SecretRef
    """Secret with the token; `user:password` for InfluxDB 1.8."""

    ca_secret_ref: CaSecretRef | None = None
    """Secret with the certificate that signed the server's. Absent: the system's."""

    detail: Annotated[tuple[Detail, ...], Distinct()] = ()
    """What to write beyond totals per job and file system."""


class Prometheus(Model):
    """Metrics at the aggregator's own HTTP address."""

    per_job: Family = "none"
    """Series per job: for no job, for the `topK` busiest, or for all."""

    per_client: Family = "none"
    """Series per node, likewise."""

    per_user: Family = "top"
    """Series per account and user, likewise."""

    per_process: Family = "top"
    """Series per process name, user and group, likewise."""

    top_k: Annotated[int, Field(ge=1, le=100_000)] = 200
    """How many of each kind `top` shows; the rest is in `other`."""


class Sink(Model):
    """One place to send to: exactly one of the three kinds."""

    name: Name
    """Name of the sink, in messages and metrics."""

    ganglia: Ganglia | None = None
    """Send metrics of nodes to gmond."""

    influxdb: Influxdb | None = None
    """Write points of jobs to InfluxDB."""

    prometheus: Prometheus | None = None
    """Show metrics to Prometheus."""
