"""``run``: everything is started in order, told of changes, and stopped in order."""

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import structlog
from starlette.applications import Starlette

from harvest_aggregator.errors import LedgerError
from harvest_aggregator.files import OrderFiles, Orders
from harvest_aggregator.http import app
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.listening import Port
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.records import Records
from harvest_aggregator.refusals import NOT_READY, RefusedError
from harvest_aggregator.relays.receiving import Relays
from harvest_aggregator.relays.taking import relay_troubles
from harvest_aggregator.serving import Address, Serving, serving
from harvest_aggregator.sinks.contract import Plan
from harvest_aggregator.sinks.relay import certificate_warnings, relay_plans
from harvest_aggregator.sinks.running import Sinks
from harvest_aggregator.sinks.table import plans
from harvest_aggregator.slurm import slurm_warnings
from harvest_aggregator.streams import Streams
from harvest_pki.certificates import load_certificate
from harvest_pki.checks import days_left
from harvest_pki.errors import PkiError
from harvest_site.loading import SiteError
from harvest_site.parts import unimplemented

LEDGER: Final = "ledger.db"
"""In the data folder."""
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
"""How often a changed site is tried while the ledger cannot be read."""
_CERTIFICATE_DAYS: Final = 14
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a person chose."""

    files: OrderFiles
    data: Path
    secrets: Path | None = None
    grpc: str
    http: Address
    http_token: str | None


class Aggregator:
    """The running program: what it was told last, and how it is."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files = settings.files
        self._stamp = self._files.stamp()
        self._orders = self._files.read()
        self._certificate = self._orders.tls.certificate
        self._ledger_file = settings.data / LEDGER
        self._sinks = Sinks()
        self._keeper = Keeper(
            Ledger(self._ledger_file),
            self._orders.own,
            on_close=lambda sweep, now: self._metrics.sweep_closed(sweep, now_seconds=now),
            on_publish=self._sinks.offer,
            on_kept=lambda seconds: self._metrics.kept(seconds=seconds),
        )
        self._metrics = Metrics(
            lambda: self._keeper.published,
            version=version("harvest-aggregator"),
            site=lambda: self._orders.own,
            ledger_bytes=self._ledger_bytes,
            queued_sweeps=lambda: self._streams.queued_sweeps,
            is_ready=lambda: not self.readiness(),
            certificate_end=lambda: self._certificate_end().timestamp(),
            agents_until=lambda: self._streams.certificate_ends,
            relays_until=lambda: {cluster: end.timestamp() for cluster, end in self._orders.relay_ends.items()},
            sinks=self._sinks.healths,
        )
        self._relays = Relays(self._keeper, self._orders.admission, metrics=self._metrics, now=_now)
        self._streams = Streams(self._keeper, self._orders.own, self._orders.admission, metrics=self._metrics, now=_now)
        self._not_yet: str | None = "the ledger is being read"
        self._refused: str | None = None
        self._delayed: str | None = None
        self._changed: asyncio.Queue[Orders] = asyncio.Queue()
        self._look = asyncio.Event()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until a signal says stop; HTTP answers from the first moment to the last."""
        self._take_signals()
        async with serving(
            self._app(), self._settings.http, tls=self._files.tls, token=self._settings.http_token
        ) as http:
            _log.info("HTTP is served", url=http.url)
            await asyncio.to_thread(self._keeper.start)
            self._sinks.change(self._plans())
            try:
                await self._serve(http)
            finally:
                await asyncio.to_thread(self._keeper.stop)
                await asyncio.to_thread(self._sinks.stop)
        _log.info("stopped")

    async def _serve(self, http: Serving) -> None:
        port = Port((self._streams.handler, self._relays.handler), self._settings.grpc, self._orders.tls)
        await port.open()
        try:
            self._not_yet = None
            _log.info("agents may come", port=port.number)
            self._warn()
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(self._follow(), name="follow")
                while not self._stop.is_set():
                    await self._wait()
                    self._streams.cut_expired()
                    if self._files.stamp() != self._stamp:
                        await self._change(http, port)
                following.cancel()
        finally:
            self._not_yet = "it is being stopped"
            self._streams.cut_all(RefusedError(NOT_READY, "the aggregator is being stopped", retry_after_seconds=5))
            await port.close()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._look.wait()
        except TimeoutError:
            return
        self._look.clear()

    async def _change(self, http: Serving, port: Port) -> None:
        """Go on with what the files say now; what makes no sense is refused, and the old stays in use.

        Who may come no more goes at once, whatever becomes of the rest.
        """
        self._stamp = self._files.stamp()
        try:
            orders = await asyncio.to_thread(self._files.read)
            http.reload()
        except (SiteError, PkiError, OSError) as error:
            self._refused = str(error)
            _log.error("changed files refused, the old ones stay in use", reason=str(error))
            return
        self._refused = None
        self._certificate = orders.tls.certificate
        port.show(orders.tls)
        self._streams.admit(orders.admission)
        self._relays.admit(orders.admission)
        self._changed.put_nowait(orders)

    async def _follow(self) -> None:
        """Bring the newest site into use. Its file systems come from the ledger: tried until that can be read."""
        while True:
            orders = await self._changed.get()
            while not await self._uses(orders):
                with suppress(TimeoutError):
                    orders = await asyncio.wait_for(self._changed.get(), _RETRY_SECONDS)

    async def _uses(self, orders: Orders) -> bool:
        try:
            await asyncio.wrap_future(self._keeper.change_site(orders.own))
        except LedgerError as error:
            if self._delayed is None:
                _log.error("a changed site waits for the ledger", reason=str(error))
            self._delayed = str(error)
            return False
        self._orders, self._delayed = orders, None
        self._sinks.change(self._plans())
        await self._streams.change(orders.own)
        _log.info("changed files are in use")
        self._warn()
        return True

    def readiness(self) -> list[str]:
        """Return why agents cannot be served now."""
        expired = _now() >= self._certificate_end()
        reasons = (
            self._not_yet,
            f"nothing can be made durable: {self._keeper.problem}" if self._keeper.problem else None,
            "the aggregator's certificate has expired: `harvest-aggregator ca issue-server`" if expired else None,
        )
        return [reason for reason in reasons if reason is not None]

    def warnings(self) -> list[str]:
        """Return what somebody should know although agents are served."""
        left = days_left(self._certificate_end(), _now())
        published = self._keeper.published
        return [
            *([f"changed files are refused, the old ones stay in use: {self._refused}"] if self._refused else []),
            *(
                [f"the changed site is not in use yet, it waits for the ledger: {self._delayed}"]
                if self._delayed
                else []
            ),
            *([f"the aggregator's certificate ends in {left} days"] if 0 <= left < _CERTIFICATE_DAYS else []),
            *self._sinks.warnings(),
            *certificate_warnings(self._orders.relay_ends, _now()),
            *(f"relay {name}: {trouble}" for name, trouble in self.relay_troubles()),
            *slurm_warnings(published.clusters, published.agents_here, _now().timestamp()),
        ]

    def relay_troubles(self) -> list[tuple[str, str]]:
        """Return what somebody should know of relays that come here: names, and what is wrong."""
        told = relay_troubles(self._orders.own, self._keeper.published.relayed, _now().timestamp())
        return [*self._orders.admission.unvouched.items(), *self._relays.troubles(), *told]

    def _plans(self) -> dict[str, Plan]:
        """Return what sinks and relays are told."""
        site, secrets = self._orders.own, self._settings.secrets
        return {
            **plans(site, secrets, self._keeper.ask_showing),
            **relay_plans(site, secrets, own_site=self._orders.admission.site),
        }

    def _warn(self) -> None:
        for part in unimplemented(self._orders.site):
            _log.warning("the site asks for something that this version does not do yet", part=part)
        for warning in self.warnings():
            _log.warning(warning)

    def _certificate_end(self) -> datetime:
        return load_certificate(self._certificate).not_valid_after_utc

    def _ledger_bytes(self) -> int:
        files = (self._ledger_file.with_name(LEDGER + end) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _app(self) -> Starlette:
        return app(
            lambda: self._keeper.published,
            site=lambda: self._orders.own,
            readiness=self.readiness,
            warnings=self.warnings,
            sinks=self._sinks.healths,
            relays=self.relay_troubles,
            find_sink=self._sinks.find,
            metrics=self._metrics,
            records=Records(self._ledger_file),
            token=self._settings.http_token,
        )

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop_soon, number)

    def _hang_up(self) -> None:
        self._stamp = ()
        self._look.set()

    def _stop_soon(self, number: int) -> None:
        _log.info("stopping; a second signal ends at once", signal=signal.Signals(number).name)
        for one in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        self._stop.set()
        self._look.set()


def _now() -> datetime:
    return datetime.now(UTC)
