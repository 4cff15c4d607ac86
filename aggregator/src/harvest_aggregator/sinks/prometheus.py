"""The prometheus sink: all that counts, as one text per closed sweep that every scraper gets."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeVar

from typing_extensions import override

from harvest_aggregator.answers import printed
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.clients import Client
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.naming import naming_of
from harvest_aggregator.published import Published, TargetTotals
from harvest_aggregator.showing import (
    JOB,
    ROWS_AT_ONCE,
    Raw,
    Row,
    Showing,
    job_name,
    job_subject,
    loaded,
    noted,
    subject_text,
)
from harvest_aggregator.sinks import prometheus_lines as names
from harvest_aggregator.sinks import prometheus_shares as shares
from harvest_aggregator.sinks import prometheus_totals as totals
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Pause, Plan, Sink, Written
from harvest_aggregator.sinks.prometheus_cells import Moment
from harvest_aggregator.sinks.prometheus_rates import Group, Rates, is_well, owner_of, program_of
from harvest_aggregator.sinks.prometheus_series import ALL, TOP, Book, Entry, Picture, Series, Subject
from harvest_aggregator.sinks.prometheus_text import OPENMETRICS, TEXT, Block, Rendering, lines
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS, Scrapes
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import JobName
from harvest_site import sinks as settings
from harvest_site.model import Site

SUBJECTS_MOST: Final = 100_000
"""`all` means no more jobs, clients or users than this: the rest is in `other`."""
_TARGET, _CLIENT, _USER = "target", "client", "user"
_STALE_INTERVALS: Final = 3
"""A sweep that is so old says nothing of the present."""

_Answer = TypeVar("_Answer")


class Ask(Protocol):
    """Asks whoever keeps the ledger what was shown, or tells it."""

    def __call__(self, run: Callable[[Showing], _Answer]) -> Future[_Answer]:
        """Have something done there."""


def nobody(run: Callable[[Showing], _Answer]) -> Future[_Answer]:  # noqa: ARG001 - whatever it is
    """Ask nobody: there is no ledger."""
    done: Future[_Answer] = Future()
    done.set_exception(LedgerError("there is no ledger"))
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusPlan(Plan):
    """What the site says of one prometheus sink."""

    name: str
    asked: settings.Prometheus
    stale_seconds: float
    ask: Ask = field(compare=False)

    @override
    def build(self) -> "Prometheus":
        return Prometheus(self)


def planned(sink: settings.Sink, site: Site, ask: Ask) -> PrometheusPlan:
    """Return the plan of a sink that is of this kind."""
    assert sink.prometheus is not None  # noqa: S101 - the table asks no other
    return PrometheusPlan(
        name=sink.name,
        asked=sink.prometheus,
        stale_seconds=_STALE_INTERVALS * site.spec.interval_seconds + site.spec.deadline_seconds,
        ask=ask,
    )


class Answer(NamedTuple):
    """What a scraper gets."""

    body: bytes
    media_type: str
    encoding: str | None


class _Part(NamedTuple):
    """One kind of subject that is shown."""

    series: Series
    writer: names.Writer


class Prometheus(Sink):
    """Shows the newest sweep. What was shown before it is in the ledger: another one goes on from there."""

    room_sweeps = 1

    def __init__(
        self,
        plan: PrometheusPlan,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._wall = wall
        self._scrapes = Scrapes()
        self._catalogues = Catalogues()
        self._unnamed: dict[str, float] = {}
        """Clients without a name, and since when."""
        self._turn = 0
        self._parts: dict[str, _Part] | None = None
        """Nothing until it is known what was shown."""
        self._number = 0
        self._rendering: Rendering | None = None
        """Replaced as a whole."""

    @override
    def needed(self, published: Published) -> Published:
        return published

    @override
    def write(self, published: Published, pause: Pause) -> Written:
        try:
            self._rendering = self._rendered(published)
        except (LedgerError, CancelledError) as error:
            self._parts = None  # who knows what was written of it
            return Written(Outcome.KEPT, f"cannot note what is shown: {error}")
        except BaseException:
            self._parts = None
            raise
        return ACCEPTED

    def scrape(self, who: str, *, accept: str, encodings: str) -> Answer | None:
        """Answer a scraper; nothing before the first sweep. From any thread."""
        rendering, now = self._rendering, self._clock()
        if rendering is None:
            return None
        is_open, is_zipped = "application/openmetrics-text" in accept, _takes_gzip(encodings)
        is_stale = now - rendering.made_at > self._plan.stale_seconds
        body = rendering.body(openmetrics=is_open, zipped=is_zipped, is_stale=is_stale)
        if not is_stale:
            self._scrapes.note(who, rendering.number, now)
        return Answer(body, OPENMETRICS if is_open else TEXT, "gzip" if is_zipped else None)

    def _rendered(self, published: Published) -> Rendering:
        now = self._clock()
        self._number += 1
        moment = Moment(
            self._number,
            now,
            int(self._wall()),
            self._scrapes.gap_seconds(now),
            self._scrapes.seen_by_all(now),
        )
        parts = self._parts = self._parts or self._loaded(moment)
        catalogue = self._catalogues.of(published.closed, published.identities, published.earlier, published.over)
        crowd = totals.Crowd(published, catalogue)
        by_target = published.by_target or {}
        unnamed = {client.nid for client in published.clients if client.host is None}
        self._unnamed = {nid: since for nid, since in self._unnamed.items() if nid in unnamed}
        asked = self._plan.asked
        called = totals.Names(naming_of(published.identities), self._renamed)
        pictures: Mapping[str, Callable[[], Picture]] = {
            _TARGET: lambda: totals.targets(by_target),
            JOB: lambda: totals.jobs(by_target, crowd, self._watch, called, everybody=asked.per_job == ALL),
            _CLIENT: lambda: shares.clients(published, self._named, everybody=asked.per_client == ALL),
            _USER: lambda: shares.users(published, catalogue, everybody=asked.per_user == ALL),
        }
        counters: list[Block] = []
        for kind, (series, writer) in parts.items():
            shown = series.step(
                pictures[kind](), _Notes(self._plan.ask, self._plan.name, self._turn, kind, self._wall), moment
            )
            if kind == _TARGET:
                counters += names.filesystems(series, shown)
            counters += writer.blocks(series, shown)
        infos = _target_infos(published)
        jobs = [_job_infos(parts[JOB].series, crowd)] if JOB in parts else []
        gauges = [infos, *jobs, *self._gauges(published, crowd)]
        stale = [infos, lines("cluster_exporter_scrape_ok", [((), 0)])]
        return Rendering(self._number, self._clock(), published.tick_seconds or 0, counters, gauges, stale)

    def _loaded(self, moment: Moment) -> dict[str, _Part]:
        asked = self._plan.asked
        kinds = {_TARGET: (ALL, names.TARGETS), JOB: (asked.per_job, names.JOBS)}
        kinds |= {_CLIENT: (asked.per_client, names.CLIENTS), _USER: (asked.per_user, names.USERS)}
        wanted = {kind: one for kind, one in kinds.items() if one[0] in {ALL, TOP}}
        self._turn = self._plan.ask(lambda showing: showing.attach(self._plan.name, list(wanted))).result()
        rows = list(self._rows())
        parts = {}
        for kind, (mode, called) in wanted.items():
            limit = SUBJECTS_MOST if mode == ALL else asked.top_k
            series = Series(mode=mode, limit=limit, begins_at_once=kind == _TARGET)
            mine = {
                _subject(row.kind, row.subject): Entry(dict(row.cells), row.labels) for row in rows if row.kind == kind
            }
            series.load(mine, moment)
            parts[kind] = _Part(series, names.Writer(called))
        return parts

    def _rows(self) -> Iterator[Row]:
        page = self._page(None)
        while page:
            yield from map(loaded, page)
            page = self._page(page[-1])

    def _page(self, after: Raw | None) -> Sequence[Raw]:
        return self._plan.ask(lambda showing: showing.rows(self._plan.name, after)).result()

    def _watch(self, jobs: Sequence[JobName]) -> Mapping[Place, TargetTotals]:
        return self._plan.ask(lambda showing: showing.watch(self._plan.name, jobs)).result()

    def _renamed(self) -> Sequence[totals.ByTarget]:
        return self._plan.ask(lambda showing: showing.renamed(self._plan.name)).result()

    def _named(self, client: Client) -> tuple[str, ...] | None:
        """Return what a client is called; nothing while somebody may still say. Then its NID is its name."""
        if client.host is None and self._clock() - self._unnamed.setdefault(client.nid, self._clock()) < HOLD_SECONDS:
            return None
        return client.host or client.nid, client.cluster or ""

    def _gauges(self, published: Published, crowd: totals.Crowd) -> list[Block]:
        asked = self._plan.asked
        rates = Rates(published, crowd, self._clock)
        most = {ALL: SUBJECTS_MOST, TOP: asked.top_k}
        groups = [
            (Group("cluster_job", owner_of, most.get(asked.per_user, 0)), "retrieve_user_name_info"),
            (Group("cluster_proc", program_of, most.get(asked.per_process, 0)), "retrieve_group_name_info"),
        ]
        found = [gauge for group, stage in groups if group.most for gauge in rates.gauges(group, stage)]
        return [
            *(lines(gauge.family, gauge.values.items()) for gauge in found),
            lines("cluster_exporter_scrape_ok", [((), int(is_well(published)))]),
            lines(
                "cluster_exporter_stage_execution_seconds",
                [((stage,), round(seconds, 6)) for stage, seconds in rates.stage_seconds.items()],
            ),
        ]


def _takes_gzip(encodings: str) -> bool:
    wanted = [one.replace(" ", "").lower().partition(";q=") for one in encodings.split(",")]
    return any(name == "gzip" and (not quality or quality.strip("0.")) for name, _, quality in wanted)


def _target_infos(published: Published) -> Block:
    return lines(
        "harvest_target_info",
        [((one.filesystem, one.kind.lower(), one.target, one.server), 1) for one in published.targets if one.server],
    )


def _job_infos(series: Series, crowd: totals.Crowd) -> Block:
    found = []
    for at, subject in series.subjects.items():
        if isinstance(subject, JobName) and at not in series.away:
            number = crowd.catalogue.number.get(subject)
            person = None if number is None else crowd.people.person(number)
            user, account = (person.user or "", person.account or "") if person else ("", "")
            found.append(((subject.cluster, printed(subject.job), user, account), 1))
    return lines("harvest_job_info", found)


class _Notes(Book):
    """What is written of one kind, by whoever keeps the ledger."""

    def __init__(self, ask: Ask, sink: str, turn: int, kind: str, wall: Callable[[], float]) -> None:
        self._ask = ask
        self._sink = sink
        self._turn = turn
        self._kind = kind
        self._wall = wall

    @override
    def former(self, subjects: Sequence[Subject]) -> Mapping[Subject, Entry]:
        keys = [subject_text(_key(subject)) for subject in subjects]
        found = {}
        for first in range(0, len(keys), ROWS_AT_ONCE):
            for row in map(loaded, self._former(keys[first : first + ROWS_AT_ONCE])):
                entry = Entry(dict(row.cells), row.labels, row.left_seconds)
                found[_subject(self._kind, row.subject)] = entry
        return found

    def _former(self, keys: Sequence[str]) -> Sequence[Raw]:
        return self._ask(lambda showing: showing.former(self._sink, self._kind, keys)).result()

    @override
    def keep(self, entries: Mapping[Subject, Entry]) -> None:
        note = noted(
            [
                Row(self._kind, _key(subject), entry.cells, entry.labels, entry.left_seconds)
                for subject, entry in entries.items()
            ]
        )
        now = self._wall()
        self._ask(lambda showing: showing.keep(self._sink, self._turn, note, now)).result()


def _key(subject: Subject) -> tuple[str, ...]:
    """Return a subject as it is written."""
    if isinstance(subject, JobName):
        return job_subject(subject)
    return subject if isinstance(subject, tuple) else (str(subject),)


def _subject(kind: str, key: tuple[str, ...]) -> Subject:
    if kind == JOB and key:
        return job_name(key)
    return key[0] if kind == _CLIENT and key else key
