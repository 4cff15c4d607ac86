"""The aggregator's HTTP side: who may ask, which routes there are, and how errors look."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from harvest_aggregator.answers import BadParameterError, answer
from harvest_aggregator.api import PREFIX, Api
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.published import Published
from harvest_aggregator.records import Records
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.sinks.contract import Sink
from harvest_aggregator.sinks.prometheus import Prometheus
from harvest_aggregator.standing import standing
from harvest_site.model import Site
from harvest_site.parts import unimplemented

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What anybody may ask: nothing in it is anybody's business but Kubernetes'."""


def app(
    source: Callable[[], Published],
    *,
    site: Callable[[], Site],
    readiness: Callable[[], list[str]],
    metrics: Metrics,
    records: Records,
    token: str | None,
    warnings: Callable[[], list[str]] = list,
    sinks: Callable[[], Sequence[Health]] = tuple,
    relays: Callable[[], Sequence[tuple[str, str]]] = tuple,
    find_sink: Callable[[str], Sink | None] = lambda _: None,
) -> Starlette:
    """Return what answers HTTP.

    ``readiness`` gives the reasons why the aggregator cannot do its work now, none if it can; ``warnings`` what
    somebody should know all the same, beside the parts of the site that are not built yet; ``relays`` the troubles of
    those that come here.
    """

    def healthz(_: Request) -> Response:
        return answer({"alive": True})

    def readyz(_: Request) -> Response:
        reasons = readiness()
        content = {"ready": not reasons, "reasons": reasons, "warnings": [*warnings(), *_warnings(site())]}
        return answer(content, status=503 if reasons else 200)

    def status(_: Request) -> Response:
        return answer(standing(site(), source(), sinks(), relays()))

    def own_metrics(request: Request) -> Response:
        text, media_type = metrics.exposition(accept=request.headers.get("accept", ""))
        return Response(text, media_type=media_type)

    def sink_metrics(request: Request) -> Response:
        found = find_sink(request.path_params["sink"])
        if not isinstance(found, Prometheus):
            raise HTTPException(404, "the site has no prometheus sink of that name")
        headers = request.headers
        who = f"{request.client.host if request.client else ''} {headers.get('user-agent', '')}"
        accept, encodings = headers.get("accept", ""), headers.get("accept-encoding", "")
        shown = found.scrape(who, accept=accept, encodings=encodings)
        if shown is None:
            raise HTTPException(503, "no sweep was closed since the aggregator was started, or the sink was changed")
        encoded = {"Content-Encoding": shown.encoding} if shown.encoding else {}
        return Response(shown.body, media_type=shown.media_type, headers={"Vary": "Accept, Accept-Encoding", **encoded})

    answering = Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", own_metrics),
            Route("/metrics/{sink}", sink_metrics),
            Route(f"{PREFIX}status", status),
            *Api(source, site, records).routes,
        ],
        middleware=[Middleware(_Guard, token=token)] if token is not None else [],
        exception_handlers={
            HTTPException: _refused,
            BadParameterError: _not_understood,
            LedgerError: _not_now,
            Exception: _failed,
        },
    )
    answering.router.redirect_slashes = False
    return answering


def _warnings(site: Site) -> list[str]:
    return [f"the site asks for `{part}`, which this version does not do yet" for part in unimplemented(site)]


class _Guard:
    """Lets those in who know the token."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS or self._knows(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        refusal = answer(
            {"error": "this needs the header `Authorization: Bearer TOKEN`, with the aggregator's HTTP token"},
            status=401,
            headers={"WWW-Authenticate": 'Bearer realm="harvest"'},
        )
        await refusal(scope, receive, send)

    def _knows(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = f"{scheme.capitalize()} {token.strip()}".encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._expected)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - Starlette calls it for no other
    return answer({"error": error.detail}, status=error.status_code, headers=error.headers)


async def _not_understood(_: Request, error: Exception) -> Response:
    assert isinstance(error, BadParameterError)  # noqa: S101 - as above
    return answer(error.content, status=400)


async def _not_now(_: Request, error: Exception) -> Response:
    return answer({"error": str(error)}, status=503)


async def _failed(_: Request, __: Exception) -> Response:
    return answer({"error": "the aggregator failed to answer this; its log says why"}, status=500)
