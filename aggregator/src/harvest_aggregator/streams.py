"""Agents' streams: who comes in, who must go, and what is said to them."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import grpc
import structlog
from cryptography import x509
from structlog.typing import FilteringBoundLogger

from harvest.v1.stream_pb2 import DESCRIPTOR, Hello, StreamResponse
from harvest_aggregator.conversations import Context, Conversation
from harvest_aggregator.deliveries import Keeping
from harvest_aggregator.identity import Admission
from harvest_aggregator.limits import HELD_BYTES, HELLO_SECONDS, STALL_SECONDS
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.presence import Presence, Visit
from harvest_aggregator.refusals import DENIED, DeniedError, NonsenseError, RefusedError, ReplacedError, not_ready
from harvest_aggregator.requests import read_hello
from harvest_aggregator.room import Room
from harvest_aggregator.sessions import House, Session
from harvest_aggregator.welcomes import stays
from harvest_pki.certificates import load_certificate
from harvest_pki.errors import PkiError
from harvest_pki.identities import identity_of
from harvest_site.model import Site
from harvest_site.views import servers_of

_SERVICE: Final = DESCRIPTOR.services_by_name["HarvestService"].full_name


class Streams:
    """The gRPC service. Requests come as bytes: a batch is kept as it came."""

    def __init__(
        self, keeper: Keeping, site: Site, admission: Admission, *, metrics: Metrics, now: Callable[[], datetime]
    ) -> None:
        self._house = House(site, keeper, metrics, Presence(), Room(HELD_BYTES))
        self._admission = admission
        self._now = now
        self._sessions: dict[Visit, Session] = {}

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        """What a server serves."""
        return grpc.method_handlers_generic_handler(
            _SERVICE, {"Stream": grpc.stream_stream_rpc_method_handler(self._stream)}
        )

    @property
    def held_bytes(self) -> int:
        """How much came that is not durable yet."""
        return self._house.room.held_bytes

    @property
    def queued_sweeps(self) -> int:
        """How many came that are not durable yet; asked by other threads while streams come and go."""
        return sum(session.queued_sweeps for session in tuple(self._sessions.values()))

    @property
    def certificate_ends(self) -> dict[str, float]:
        """Until when the certificates are valid of the agents that are here; asked likewise."""
        return {
            session.visit.agent: session.certificate.not_valid_after_utc.timestamp()
            for session in tuple(self._sessions.values())
        }

    def admit(self, admission: Admission) -> None:
        """Act on a changed list of servers or changed CAs: cut the streams of those who would not be let in now."""
        self._admission = admission
        for session in self._sessions.values():
            self._cut_if_refused(session)

    async def change(self, site: Site) -> None:
        """Go on with a changed site, which the keeper has, and tell agents what is different for them."""
        before, self._house.site = self._house.site, site
        await asyncio.gather(*(_tell(session, before) for session in self._sessions.values()))

    def cut_expired(self) -> None:
        """Cut the streams whose certificates are valid no more."""
        now = self._now()
        for session in self._sessions.values():
            if session.certificate.not_valid_after_utc <= now:
                self._cut_if_refused(session)

    def cut_all(self, reason: RefusedError) -> None:
        """Send everybody away."""
        for session in self._sessions.values():
            session.end(reason)

    def _cut_if_refused(self, session: Session) -> None:
        if (why := self._admission.why_refused(session.certificate, self._now())) is not None:
            session.end(DeniedError(why))

    def _check(self, certificate: x509.Certificate) -> None:
        if (why := self._admission.why_refused(certificate, self._now())) is not None:
            raise DeniedError(why)
        if name_of(certificate) not in servers_of(self._house.site):
            # told that nothing is wanted, it would keep nothing
            raise not_ready("the site that lists this server is not in use yet")

    async def _stream(self, _: object, context: Context) -> None:
        conversation = Conversation(context)
        log = structlog.get_logger().bind(peer=conversation.peer)
        try:
            certificate = certificate_of(context)
            log = log.bind(agent=name_of(certificate))
            await self._serve(certificate, conversation, log)
        except DeniedError as error:
            self._house.metrics.refusals.labels(DENIED).inc()
            log.warning("agent denied", reason=str(error))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except RefusedError as error:
            self._house.metrics.refusals.labels(error.label).inc()
            log.warning("agent refused", reason=str(error))
            await _refuse(conversation, error, log)
        except grpc.aio.BaseError as error:  # it went away while it was written to
            log.info("agent gone", reason=str(error))
        except ReplacedError:
            log.info("agent began another stream")
            await context.abort(grpc.StatusCode.ABORTED, "another stream of this agent has begun")

    async def _serve(
        self, certificate: x509.Certificate, conversation: Conversation, log: FilteringBoundLogger
    ) -> None:
        self._check(certificate)
        hello = await _hello(conversation)
        if hello.agent != name_of(certificate):
            raise DeniedError(f"agent {hello.agent[:100]!a} came with the certificate of {name_of(certificate)}")
        self._check(certificate)  # the site may have changed while the Hello was waited for
        now_seconds = asyncio.get_running_loop().time()
        visit = Visit(
            agent=hello.agent,
            boot_id=hello.boot_id,
            heard_seconds=now_seconds,
            period_seconds=self._house.site.spec.interval_seconds,
        )
        before = self._house.presence.arrive(visit, stays(self._house.site, visit.agent, hello.targets), now_seconds)
        if before is not None:
            self._sessions[before].end(ReplacedError())
        session = Session(self._house, visit, hello, certificate=certificate, conversation=conversation)
        self._sessions[visit] = session
        self._house.keeper.connected(visit.agent, hello.targets)
        self._house.metrics.streams.set(len(self._sessions))
        log.info("agent came", software=hello.software, boot_id=hello.boot_id, targets=len(hello.targets))
        try:
            await session.run()
        finally:
            log.info("agent left")
            del self._sessions[visit]
            self._house.metrics.streams.set(len(self._sessions))
            self._house.presence.leave(visit)
            self._house.keeper.disconnected(visit.agent)


async def _tell(session: Session, before: Site) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await session.change_site(before)
    except RefusedError as error:
        session.end(error)
    except (TimeoutError, grpc.aio.BaseError):
        session.end(NonsenseError("the agent does not listen"))


async def _refuse(conversation: Conversation, error: RefusedError, log: FilteringBoundLogger) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await conversation.say_last(StreamResponse(refusal=error.refusal))
    except (TimeoutError, grpc.aio.BaseError) as trouble:
        log.info("agent did not hear why", reason=str(trouble) or "it does not listen")


async def _hello(conversation: Conversation) -> Hello:
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            data = await conversation.hear()
    except TimeoutError as error:
        raise NonsenseError(f"no Hello came within {HELLO_SECONDS:.0f} s") from error
    if data is None:
        raise NonsenseError("the stream ended before its Hello")
    return read_hello(data)


def certificate_of(context: Context) -> x509.Certificate:
    """Return the certificate with which somebody came; raises DeniedError."""
    try:
        return load_certificate(b"".join(context.auth_context()["x509_pem_cert"]))
    except (KeyError, PkiError) as error:
        raise DeniedError("the certificate cannot be read") from error


def name_of(certificate: x509.Certificate) -> str:
    """Return the name in a certificate, for people."""
    try:
        return identity_of(certificate).name
    except PkiError:
        return "?"
