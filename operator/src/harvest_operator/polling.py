"""Asks every aggregator how it stands: at most once a minute each, and never many at once."""

import asyncio
import json
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Final

import aiohttp

from harvest_operator.agenda import SiteKey
from harvest_operator.names import HTTP_PORT
from harvest_operator.plan import Target
from harvest_operator.reports import NoAnswer, Report, parsed

Answer = Report | NoAnswer
Ask = Callable[[SiteKey, Target], Awaitable[Answer]]

ADDRESS: Final = f"{{service}}.{{namespace}}.svc:{HTTP_PORT}"
_EVERY_SECONDS: Final = 60.0
_PACE_SECONDS: Final = 1.0
"""Between two questions: hundreds of aggregators are asked less often, not faster."""
_LIMIT_SECONDS: Final = 10.0
_LIMIT_BYTES: Final = 1 << 20


@dataclass
class Poller:
    """Who is to be asked, and what they said last."""

    ask: Ask
    changed: Callable[[SiteKey], None]
    """Called with a site of which something is to be told."""
    _targets: dict[SiteKey, tuple[Target, ...]] = field(default_factory=dict)
    _answers: dict[SiteKey, dict[str, Answer]] = field(default_factory=dict)
    _asked: dict[tuple[SiteKey, str], float] = field(default_factory=dict)

    def follow(self, key: SiteKey, targets: tuple[Target, ...]) -> None:
        """Ask these from now on, and forget others of the site."""
        self._targets[key] = targets
        names = {one.aggregator for one in targets}
        self._answers[key] = {name: one for name, one in self.reports(key).items() if name in names}
        for asked in [asked for asked in self._asked if asked[0] == key and asked[1] not in names]:
            del self._asked[asked]

    def forget(self, key: SiteKey) -> None:
        """Ask no more."""
        self.follow(key, ())
        del self._targets[key], self._answers[key]

    def reports(self, key: SiteKey) -> Mapping[str, Answer]:
        """Return what a site's aggregators said last."""
        return self._answers.get(key, {})

    async def run(self) -> None:
        """Ask for ever, whoever was asked longest ago first."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if (due := self._due()) is not None:
                    key, target = due
                    self._asked[key, target.aggregator] = asyncio.get_running_loop().time()
                    tasks.create_task(self._question(key, target))
                await asyncio.sleep(_PACE_SECONDS)

    def _due(self) -> tuple[SiteKey, Target] | None:
        """Return whom to ask now: who was never asked, or longest ago, and at least a minute."""
        everybody = [(key, one) for key, targets in self._targets.items() for one in targets]
        first = min(everybody, key=lambda pair: self._when(*pair), default=None)
        is_due = first is not None and self._when(*first) <= asyncio.get_running_loop().time() - _EVERY_SECONDS
        return first if is_due else None

    def _when(self, key: SiteKey, target: Target) -> float:
        return self._asked.get((key, target.aggregator), -math.inf)

    async def _question(self, key: SiteKey, target: Target) -> None:
        said = await self.ask(key, target)
        if target not in self._targets.get(key, ()):
            return  # meanwhile it is another one, or none
        before = self._answers[key].get(target.aggregator)
        self._answers[key][target.aggregator] = said
        if before is None or _essence(before) != _essence(said):
            self.changed(key)


@asynccontextmanager
async def asking(address: str) -> AsyncIterator[Ask]:
    """Give what asks an aggregator; ``address`` is its host and port, ``{service}`` and ``{namespace}`` filled in."""
    connector = aiohttp.TCPConnector(force_close=True)  # they close idle connections before they are asked again
    timeout = aiohttp.ClientTimeout(total=_LIMIT_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def ask(key: SiteKey, target: Target) -> Answer:
            return await _answer(session, address.format(service=target.service, namespace=key[0]), target)

        yield ask


async def _answer(session: aiohttp.ClientSession, address: str, target: Target) -> Answer:
    """Ask one aggregator; whatever goes wrong is its answer."""
    try:
        async with session.get(
            f"https://{address}/api/v1/status",
            headers={"Authorization": f"Bearer {target.token}"},
            ssl=_trusting(target.ca),
            server_hostname=target.server_name,
            allow_redirects=False,
        ) as response:
            if response.status != HTTPStatus.OK:
                return NoAnswer(f"it answers {response.status}")
            text = b""
            while len(text) <= _LIMIT_BYTES and (more := await response.content.readany()):
                text += more
            return parsed(json.loads(text) if len(text) <= _LIMIT_BYTES else None)
    except aiohttp.ClientConnectorDNSError:
        return NoAnswer("its Service has no address")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError) as error:
        return NoAnswer(f"it does not answer ({type(error).__name__})")


def _essence(said: Answer) -> object:
    """Return what is worth a look at the site: the time of the last sweep alone is not."""
    if isinstance(said, NoAnswer):
        return said.why
    return said.connected, said.expected, said.missing, said.last_sweep is None, said.sinks, said.relays, said.slurm


@lru_cache(maxsize=1024)
def _trusting(ca: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ca.decode())
    return context
