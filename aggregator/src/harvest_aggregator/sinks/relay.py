"""The relay: what one cluster's nodes did on some file systems, told to that cluster's own aggregator."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

import grpc
import structlog
from typing_extensions import override

from harvest.v1.stream_pb2 import DESCRIPTOR, RelayRequest, RelayResponse
from harvest_aggregator.published import Published
from harvest_aggregator.relays.outgoing import Needed, head, needed, pictures
from harvest_aggregator.relays.pictures import Picture, parts
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Pause, Plan, Sink, Written
from harvest_pki.certificates import load_bundle
from harvest_pki.checks import days_left
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls, read_tls
from harvest_pki.identities import Identity, Kind, site_of_ca
from harvest_site.clusters import Cluster
from harvest_site.model import Relay as Asked
from harvest_site.model import Site
from harvest_site.references import secret_folder

_METHOD: Final = f"/{DESCRIPTOR.services_by_name['RelayService'].full_name}/Relay"
_CALL_SECONDS: Final = 20.0
_NIDS_MAX: Final = 1 << 18
_CERTIFICATE_DAYS: Final = 14
_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # else a new connection waits for the back-off of the old one
    ("grpc.max_receive_message_length", 1 << 20),
)
_NEVER_TAKEN: Final = {
    grpc.StatusCode.PERMISSION_DENIED: "",
    grpc.StatusCode.UNIMPLEMENTED: "it is an aggregator that takes no relays: update it",
}
"""What is wrong until somebody changes something, in the words of the other side where it has any."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPlan(Plan):
    """What the site says of one relay."""

    asked: Asked
    site: str
    cluster: Cluster
    periods: Mapping[str, int]
    """How often the nodes of each file system are read, in seconds; those of the others are not."""
    tls: Path | None

    @override
    def build(self) -> "Relay":
        return Relay(self)


def relay_plans(site: Site, secrets: Path | None, *, own_site: str) -> dict[str, Plan]:
    """Return what each relay of a site is told, by the name that it has among sinks: none of those has a blank."""
    clusters = {cluster.name: cluster for cluster in site.spec.clusters}
    return {
        f"relay {one.cluster}": RelayPlan(
            asked=one,
            site=own_site,
            cluster=clusters[one.cluster],
            periods={
                of.name: of.clients.interval_seconds
                for of in site.spec.filesystems
                if of.name in one.filesystems and of.clients.enabled
            },
            tls=None if secrets is None else secret_folder(secrets, one.tls_secret_ref),
        )
        for one in site.spec.relays
    }


def certificate_warnings(ends: Mapping[str, datetime], now: datetime) -> Iterator[str]:
    """Return which relays soon have no certificate that is valid, a sentence each."""
    for cluster, end in sorted(ends.items()):
        left = days_left(end, now)
        if left < _CERTIFICATE_DAYS:
            when = "has expired" if now >= end else f"ends in {left} days"
            yield f"the certificate of relay {cluster} {when}: its receiver makes another (`harvest relay-bundle`)"


class Receiver(Protocol):
    """The other aggregator, as far as it is needed."""

    def tell(self, picture: Picture) -> RelayResponse:
        """Tell a picture; raises grpc.RpcError."""


class _Channel:
    """A connection to the other aggregator."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._call: grpc.StreamUnaryMultiCallable[RelayRequest, RelayResponse] = channel.stream_unary(
            _METHOD,
            request_serializer=RelayRequest.SerializeToString,
            response_deserializer=RelayResponse.FromString,
        )

    def tell(self, picture: Picture) -> RelayResponse:
        """Tell a picture."""
        return self._call(parts(picture), timeout=_CALL_SECONDS)


@contextmanager
def connected(address: str, server_name: str, tls: Tls) -> Iterator[Receiver]:
    """Open a connection; whoever listens there must have the name, and a certificate of a CA in ``ca.crt``."""
    with grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate),
        options=(*_OPTIONS, ("grpc.ssl_target_name_override", server_name)),
    ) as channel:
        yield _Channel(channel)


Connect = Callable[[str, str, Tls], AbstractContextManager[Receiver]]
"""Opens a connection to an address, whose holder must have a name; the files are read anew each time."""


class Relay(Sink[Needed]):
    """Tells each sweep's nodes. The latest suffices after any outage: only the newest sweep is worth sending."""

    room_sweeps = 1

    def __init__(self, plan: RelayPlan, *, connect: Connect = connected) -> None:
        self._plan = plan
        self._connect = connect
        self._is_own = lru_cache(_NIDS_MAX)(plan.cluster.owns)
        self._heads = {
            name: head(
                software=version("harvest-aggregator"),
                site=plan.site,
                cluster=plan.cluster,
                filesystem=name,
                period_seconds=period_seconds,
            )
            for name, period_seconds in plan.periods.items()
        }
        self._told: dict[str, int] = {}
        """Ticks, by file system."""
        self._refusals: dict[str, str] = {}
        self._taken: dict[str, bool] = {}
        self._said = ""
        """What was refused last, and is not logged again."""

    @override
    def needed(self, published: Published) -> Needed:
        return needed(published, self._heads)

    @override
    def write(self, sweep: Needed, pause: Pause) -> Written:
        unread = set(self._plan.asked.filesystems) - set(self._heads)
        if unread:
            names = ", ".join(sorted(unread))
            return Written(Outcome.REJECTED, f"the nodes of {names} are not read: set `clients.enabled` there")
        new = list(pictures(sweep, self._heads, self._is_own, self._told))
        if not new:
            return self._written()
        where = self._plan.asked.endpoint
        try:
            with self._connect(where, *self._trusted()) as receiver:
                for picture in new:
                    self._take(picture, receiver.tell(picture))
        except PkiError as error:
            return Written(Outcome.KEPT, str(error))
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code in _NEVER_TAKEN:
                return self._refused(Outcome.REJECTED, _NEVER_TAKEN[code] or details or "")
            return Written(Outcome.KEPT, f"{where} did not take it: {details}")
        return self._written()

    def _take(self, picture: Picture, answer: RelayResponse) -> None:
        name = picture.head.filesystem
        self._told[name] = picture.head.tick_seconds
        self._refusals[name] = "; ".join(one.message for one in answer.refusals)
        self._taken[name] = bool(answer.nodes) or not answer.refusals

    def _written(self) -> Written:
        reasons = [reason for _, reason in sorted(self._refusals.items()) if reason]
        if not reasons:
            self._said = ""
            return ACCEPTED
        return self._refused(Outcome.ACCEPTED if any(self._taken.values()) else Outcome.REJECTED, "; ".join(reasons))

    def _refused(self, outcome: Outcome, reason: str) -> Written:
        """Log another reason, also where there was one before: of sinks in trouble only the first is logged."""
        where = self._plan.asked.endpoint
        if reason != self._said:
            _log.warning("relay refused", cluster=self._plan.cluster.name, endpoint=where, reason=reason)
        self._said = reason
        return Written(outcome, f"{where} refused: {reason}")

    def _trusted(self) -> tuple[str, Tls]:
        """Return the name that the other aggregator must have, and our files for it; raises PkiError."""
        if self._plan.tls is None:
            raise PkiError("the certificate of a relay is a Secret (`tlsSecretRef`): give --secrets DIR")
        tls = read_tls(self._plan.tls)
        site = site_of_ca(load_bundle(tls.ca)[0])
        return Identity(site=site, kind=Kind.AGGREGATOR, name=self._plan.asked.aggregator).text, tls
