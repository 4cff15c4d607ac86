"""Where relays come in: each call is one picture, taken or refused with the reason."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import grpc
import structlog
from google.protobuf.message import DecodeError
from structlog.typing import FilteringBoundLogger

from harvest.v1.stream_pb2 import DESCRIPTOR, RelayRefusal, RelayRequest, RelayResponse
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.identity import Admission
from harvest_aggregator.limits import RELAY_BYTES_MAX, RELAYS_AT_ONCE, STALL_SECONDS
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.refusals import DENIED, DeniedError, relay_label
from harvest_aggregator.relays.incoming import PROTOCOL
from harvest_aggregator.relays.pictures import Picture, PictureError, put_together
from harvest_aggregator.streams import certificate_of, name_of

_SERVICE: Final = DESCRIPTOR.services_by_name["RelayService"].full_name
_SAID_MAX: Final = 1000
_LATELY_SECONDS: Final = 600
"""A refusal is told so long; where the sender's period is known, three of these."""
_LATELY_PERIODS: Final = 3
Context = grpc.aio.ServicerContext[bytes, bytes]


class Taking(Protocol):
    """The keeper, as relays see it."""

    def take_relayed(self, relay: str, picture: Picture) -> Future[RelayResponse]:
        """Take in what a relay tells."""


class _Refusal(NamedTuple):
    """What was refused last."""

    reasons: tuple[str, ...]
    until_seconds: float
    """After that nobody needs to know any more."""


class Relays:
    """The gRPC service. Whether a relay may come is asked at every call: none is open for long."""

    def __init__(self, keeper: Taking, admission: Admission, *, metrics: Metrics, now: Callable[[], datetime]) -> None:
        self._keeper = keeper
        self._admission = admission
        self._metrics = metrics
        self._now = now
        self._room = asyncio.Semaphore(RELAYS_AT_ONCE)
        self._said: dict[tuple[str, str | None], _Refusal] = {}
        """What was refused lately, and is not logged again: by relay and file system; by relay alone where all was."""

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        """What a server serves."""
        return grpc.method_handlers_generic_handler(
            _SERVICE, {"Relay": grpc.stream_unary_rpc_method_handler(self._relay)}
        )

    def troubles(self) -> list[tuple[str, str]]:
        """Return which relays were refused lately, and why; may be asked from any thread."""
        now_seconds = self._now().timestamp()
        found = [(relay, one) for (relay, _), one in list(self._said.items()) if now_seconds < one.until_seconds]
        return [(relay, f"refused: {'; '.join(one.reasons)}") for relay, one in found]

    def admit(self, admission: Admission) -> None:
        """Act on a changed list of relays, or changed CAs."""
        self._admission = admission

    async def _relay(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        log = structlog.get_logger().bind(peer=context.peer())
        try:
            relay = self._admitted(context)
        except DeniedError as error:
            self._metrics.relay_refusals.labels(DENIED).inc()
            log.warning("relay denied", relay=_name(context), reason=str(error))
            self._remember((_name(context), None), (str(error),), _LATELY_SECONDS)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        log = log.bind(relay=relay)
        self._said.pop((relay, None), None)
        try:
            async with asyncio.timeout(STALL_SECONDS), self._room:
                answer = await self._answer(relay, messages, log)
        except TimeoutError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "it took too long")
        except LedgerError as error:
            log.warning("relay not taken", reason=str(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"nothing can be made durable: {error}")
        return answer.SerializeToString()

    def _admitted(self, context: Context) -> str:
        certificate = certificate_of(context)
        if (why := self._admission.why_relay_refused(certificate, self._now())) is not None:
            raise DeniedError(why)
        return name_of(certificate)

    async def _answer(self, relay: str, messages: AsyncIterator[bytes], log: FilteringBoundLogger) -> RelayResponse:
        try:
            picture = await asyncio.to_thread(put_together, await _read(messages))  # of many nodes: agents would wait
        except PictureError as error:
            answer = RelayResponse(refusals=[RelayRefusal(reason=PROTOCOL, message=str(error))])
            self._tell(relay, "", answer, log, _LATELY_SECONDS)
            return answer
        answer = await asyncio.wrap_future(self._keeper.take_relayed(relay, picture))
        seconds = max(_LATELY_SECONDS, _LATELY_PERIODS * picture.head.period_seconds)
        self._tell(relay, picture.head.filesystem[:100], answer, log, seconds)
        return answer

    def _tell(
        self, relay: str, filesystem: str, answer: RelayResponse, log: FilteringBoundLogger, seconds: float
    ) -> None:
        """Log what is refused, once, and that it is no more."""
        for one in answer.refusals:
            self._metrics.relay_refusals.labels(relay_label(one.reason)).inc()
        reasons = tuple(one.message for one in answer.refusals)
        if reasons == self._remember((relay, filesystem), reasons, seconds):
            return
        for reason in reasons:
            log.warning("relay refused", filesystem=filesystem, reason=reason, nodes_taken=answer.nodes)
        if not reasons:
            log.info("relay is taken again", filesystem=filesystem, nodes=answer.nodes)

    def _remember(self, key: tuple[str, str | None], reasons: tuple[str, ...], seconds: float) -> tuple[str, ...]:
        """Return what was refused lately."""
        now_seconds = self._now().timestamp()
        said = {of: one for of, one in self._said.items() if now_seconds < one.until_seconds}
        before = said.pop(key, None)
        if len(said) < _SAID_MAX and reasons:
            said[key] = _Refusal(reasons, now_seconds + seconds)
        self._said = said
        return () if before is None else before.reasons


def _name(context: Context) -> str:
    try:
        return name_of(certificate_of(context))
    except DeniedError:
        return "?"


async def _read(messages: AsyncIterator[bytes]) -> list[RelayRequest]:
    found: list[RelayRequest] = []
    size = 0
    async for data in messages:
        size += len(data)
        if size > RELAY_BYTES_MAX:
            raise PictureError(f"it has more than {RELAY_BYTES_MAX >> 20} MiB")
        try:
            found.append(RelayRequest.FromString(data))
        except DecodeError as error:
            raise PictureError("a message cannot be read") from error
    return found
