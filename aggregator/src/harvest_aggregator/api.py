"""/api/v1: what is asked most, each answer from one closed sweep."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final
from urllib.parse import unquote

import numpy as np
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from typing_extensions import override

from harvest_aggregator import inventory, views
from harvest_aggregator.answers import BadParameterError, answer, encoded, printed
from harvest_aggregator.attribution import NOTHING_DONE, attributed, with_finished
from harvest_aggregator.catalogue import MEASURES, Catalogue, Catalogues, Integers
from harvest_aggregator.jobs import jobs
from harvest_aggregator.people import GROUPINGS, People
from harvest_aggregator.published import Published
from harvest_aggregator.questions import (
    GROUP_PARAMETERS,
    JOB_PARAMETERS,
    LIMIT,
    VIEW_PARAMETERS,
    Known,
    Question,
    checked,
    job_in_path,
    number,
    one_of,
)
from harvest_aggregator.records import Json, Records, former_of
from harvest_core.jobs.identity import UNKNOWN, JobName
from harvest_core.jobs.life import Life
from harvest_site.model import Site

PREFIX: Final = "/api/v1/"
_PIECE: Final = 200
"""So many jobs are put together at a time: between two pieces others have their turn."""


class _Anything(Convertor[str]):
    """The rest of a path, whatever it holds; Starlette's own ends at a line feed."""

    regex: ClassVar[str] = r"[\s\S]*"

    @override
    def convert(self, value: str) -> str:
        return value

    @override
    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


class Api:
    """Answers from what is published. Its methods run in threads: a long answer holds up no stream."""

    def __init__(self, source: Callable[[], Published], site: Callable[[], Site], records: Records) -> None:
        self._source = source
        self._site = site
        self._records = records
        self._catalogues = Catalogues()
        self.routes = [
            Route(f"{PREFIX}filesystems", self.filesystems),
            Route(f"{PREFIX}servers", self.servers),
            Route(f"{PREFIX}targets", self.targets),
            Route(f"{PREFIX}jobs", self.jobs),
            Route(f"{PREFIX}jobs/{{job:anything}}", self.job),
            Route(f"{PREFIX}users/{{user:anything}}", self.user),
            Route(f"{PREFIX}attribution", self.attribution),
            Route(f"{PREFIX}clients", self.clients),
            *(Route(f"{PREFIX}views/{name}", self.view(name)) for name in views.BY_JOB),
            Route(f"{PREFIX}views/filesystems", self.filesystem_rates),
        ]

    def filesystems(self, request: Request) -> Response:
        """Answer which file systems there are, and what was done on each."""
        checked(request.query_params, ())
        published = self._source()
        catalogue = self._catalogues.of(published.closed, published.identities)  # with what earlier runs did
        shown = inventory.filesystems(self._site(), published, catalogue)
        return answer({"tick_seconds": published.tick_seconds, "filesystems": shown})

    def servers(self, request: Request) -> Response:
        """Answer which servers there are, and how their agents are doing."""
        checked(request.query_params, ())
        published = self._source()
        return answer({"tick_seconds": published.tick_seconds, "servers": inventory.servers(self._site(), published)})

    def targets(self, request: Request) -> Response:
        """Answer which targets were seen, and how well they could be read."""
        checked(request.query_params, ())
        published = self._source()
        return answer({"tick_seconds": published.tick_seconds, "targets": inventory.targets(published)})

    def clients(self, request: Request) -> Response:
        """Answer what every client node does, as it was told last."""
        published = self._source()
        site = self._site()
        given = checked(request.query_params, ("fs", "cluster"))
        accepted = {name for one in site.spec.accepts for name in one.filesystems}
        one_of(given, "fs", "a file system of the site", accepted | {one.name for one in site.spec.filesystems})
        known = {UNKNOWN, *(cluster.name for cluster in site.spec.clusters)}
        one_of(given, "cluster", "a cluster of the site, or `-`", known)
        tick_seconds = None if published.nodes is None else published.nodes.tick_seconds
        shown = inventory.clients(published, filesystem=given.get("fs"), cluster=given.get("cluster"))
        return answer({"tick_seconds": tick_seconds, "clients": shown})

    def jobs(self, request: Request) -> Response:
        """Answer with the jobs that do most, or as asked."""
        published, catalogue, question = self._asked(request, JOB_PARAMETERS)
        if question.whose.get("state") == Life.FINAL:
            return self._final(published, question)
        here = _here(catalogue, question)
        matched, shown = _chosen(here or catalogue, question, People(published, catalogue))
        head = {"tick_seconds": published.tick_seconds, "matched": matched, "shown": len(shown)}

        def pieces() -> Iterator[list[Json]]:
            for start in range(0, len(shown), _PIECE):
                yield jobs(published, catalogue, shown[start : start + _PIECE], question.filesystem, here)

        return _told(_joined(encoded(head)[:-1] + b',"jobs":[', pieces(), b"]}"), len(shown))

    def _final(self, published: Published, question: Question) -> Response:
        """Answer with jobs that are over, those that ended last first."""
        if question.filesystem is not None or question.places is not None:
            raise BadParameterError("state", "jobs that are `final` cannot be asked for by `fs`, `server` or `target`")
        whose = {name: value for name, value in question.whose.items() if name != "state"}
        matched = self._records.matching(whose)
        left = max(matched - question.offset, 0)
        shown = min(question.limit, left) if question.limit else left
        over = self._records.each(whose, sort=question.sort, limit=shown, offset=question.offset)
        head = {"tick_seconds": published.tick_seconds, "matched": matched, "shown": shown}

        pieces = iter(lambda: list(islice(over, _PIECE)), [])
        return _told(_joined(encoded(head)[:-1] + b',"jobs":[', pieces, b"]}"), shown)

    def job(self, request: Request) -> Response:
        """Answer with one job."""
        start = checked(request.query_params, ("start",))
        started = "start" in start and number(start, "start", default=0) >= 0
        asked = job_in_path(request.scope["raw_path"], f"{PREFIX}jobs/")
        if asked is None:
            raise HTTPException(404, f"a job is {PREFIX}jobs/CLUSTER/ID, each percent-encoded (`/` in an id is %2F)")
        name = JobName(*asked)
        published = self._source()
        catalogue = self._catalogue(published)
        place = catalogue.number.get(name, catalogue.count)
        found = place < catalogue.count and place not in catalogue.over
        if found and started:
            found = published.starts.get(name) == int(start["start"])
        if found:
            (shown,) = jobs(published, catalogue, np.array([place]))
        else:
            over = [one for one in self._records.of(name) if not started or one["start"] == int(start["start"])]
            if not over:
                raise HTTPException(404, _not_known(catalogue, name))
            shown = over[0]
        return answer({"tick_seconds": published.tick_seconds, **shown})

    def user(self, request: Request) -> Response:
        """Answer with what one user does and did: in all, and by job."""
        given = checked(request.query_params, ("limit",))
        name = unquote(request.scope["raw_path"].decode("ascii").removeprefix(f"{PREFIX}users/"))
        published = self._source()
        catalogue = self._catalogue(published)
        people = People(published, catalogue)
        own = people.matching(catalogue.on(None), {"user": name})
        over = self._records.sums(name)
        finished = {owner: amounts for owner, amounts in published.finished.items() if owner.user == name}
        if not len(own) and not over["jobs"] and not finished:
            raise HTTPException(404, f"nobody called {name!r} is known to have done anything")
        limit = number(given, "limit", default=LIMIT)
        [done] = with_finished(attributed(catalogue, people, own, "user"), "user", finished) or [NOTHING_DONE]
        totals = {**{measure: done[measure] for measure in MEASURES}, "jobs": done["jobs"] + over["jobs"]}
        present = {account for one in own.tolist() if (account := people.person(one).account)}
        accounts = sorted(present | {owner.account for owner in finished if owner.account})
        shown = jobs(published, catalogue, catalogue.first(own, limit, filesystem=None, sort="rates.bytes"))
        head = {"tick_seconds": published.tick_seconds, "user": name, "accounts": accounts}
        return answer({**head, "totals": totals, "final": over, "rates": done["rates"], "jobs": shown})

    def attribution(self, request: Request) -> Response:
        """Answer who does how much: users, accounts, partitions, groups, or programs outside jobs."""
        published, catalogue, question = self._asked(request, GROUP_PARAMETERS)
        by = request.query_params.get("by", "user")
        if by not in GROUPINGS:
            raise BadParameterError("by", f"`by` must be one of {', '.join(GROUPINGS)}", allowed=GROUPINGS)
        people = People(published, catalogue)
        here = _here(catalogue, question) or catalogue
        matched = people.matching(here.on(question.filesystem), question.whose)
        rows = attributed(here, people, matched, by, question.filesystem)
        whose = {name: value for name, value in question.whose.items() if name != "state"}
        if question.places is None and question.whose.get("state", Life.FINAL) == Life.FINAL:
            finished = {
                owner: amounts
                for owner, amounts in published.finished.items()
                if all(getattr(owner, name) == wanted for name, wanted in whose.items())
            }
            rows = with_finished(rows, by, finished, question.filesystem)
        shown = rows[: question.limit] if question.limit else rows
        return answer({"tick_seconds": published.tick_seconds, "by": by, "matched": len(rows), "rows": shown})

    def view(self, name: str) -> Callable[[Request], Response]:
        """Return what answers with one of jobHarvest's views by job."""
        view = views.BY_JOB[name]

        def answered(request: Request) -> Response:
            published, catalogue, question = self._asked(request, VIEW_PARAMETERS)
            here = _here(catalogue, question) or catalogue
            parts = (catalogue if view is views.totals else here).only(question.filesystem)
            people = People(published, catalogue)
            matched, shown = _chosen(here, question, people)
            names = list(people.names(shown.tolist()))

            def pieces() -> Iterator[Json]:
                for start in range(0, len(shown), _PIECE):
                    piece = shown[start : start + _PIECE]
                    done = view(parts, piece)
                    if view is views.totals and published.before:
                        _add_former(done, [catalogue.jobs[number].name for number in piece], published, question)
                    yield dict(zip(names[start : start + _PIECE], done, strict=True))

            headers = {**_tick(published), "Harvest-Matched": str(matched)}
            return _told(_joined(b"{", pieces(), b"}"), len(shown), headers)

        return answered

    def filesystem_rates(self, request: Request) -> Response:
        """Answer with jobHarvest's view by file system."""
        checked(request.query_params, ())
        published = self._source()
        return answer(views.filesystems(self._catalogue(published)), headers=_tick(published))

    def _catalogue(self, published: Published) -> Catalogue:
        return self._catalogues.of(published.closed, published.identities, published.earlier, published.over)

    def _asked(self, request: Request, parameters: tuple[str, ...]) -> tuple[Published, Catalogue, Question]:
        published = self._source()
        catalogue = self._catalogue(published)
        site = self._site()
        known = Known(
            filesystems=inventory.names(site, catalogue),
            servers=inventory.server_names(site, published),
            targets=published.targets,
            clusters=[cluster.name for cluster in site.spec.clusters],
        )
        return published, catalogue, Question.parse(request.query_params, known, parameters)


def _here(catalogue: Catalogue, question: Question) -> Catalogue | None:
    """Return the catalogue of what was done on the targets that are asked for, if some are."""
    return None if question.places is None else catalogue.at(sorted(question.places))


def _chosen(catalogue: Catalogue, question: Question, people: People) -> tuple[int, Integers]:
    """Return how many jobs are meant, and which of them are shown, in order."""
    matched = people.matching(catalogue.on(question.filesystem), question.whose)
    until = question.offset + question.limit if question.limit else 0
    shown = catalogue.first(matched, until, filesystem=question.filesystem, sort=question.sort)
    return len(matched), shown[question.offset :]


def _add_former(done: Sequence[Json], names: Sequence[JobName], published: Published, question: Question) -> None:
    """Add to totals what jobs had done when their records were written."""
    for shown, name in zip(done, names, strict=True):
        former = former_of(published.starts.get(name), published.before.get(name, ()))
        if former is not None:
            views.add_former(shown, former, question.filesystem)


def _not_known(catalogue: Catalogue, name: JobName) -> str:
    """Say that there is no such job, and which clusters have one of this id."""
    others = sorted({one.name.cluster for one in catalogue.jobs[: catalogue.count] if one.name.job == name.job})
    hint = f"; there is one of {', '.join(map(repr, others))}" if others else f" (`{UNKNOWN}`: not known which)"
    return f"no job {printed(name.job)!r} is known of cluster {name.cluster!r}{hint}"


def _tick(published: Published) -> dict[str, str]:
    """Say which sweep an answer is from, where its shape has no place for that."""
    return {} if published.tick_seconds is None else {"Harvest-Tick": str(published.tick_seconds)}


def _joined(begin: bytes, pieces: Iterable[Json | list[Json]], end: bytes) -> Iterator[bytes]:
    """Yield one list, or one object, as JSON, put together from pieces of it."""
    yield begin
    between = b""
    for piece in pieces:
        yield between + encoded(piece)[1:-1]
        between = b","
    yield end


def _told(text: Iterator[bytes], jobs_shown: int, headers: dict[str, str] | None = None) -> Response:
    """Answer at once, or, if it is more than usual, in pieces as they are made."""
    if jobs_shown > LIMIT:
        return StreamingResponse(text, headers=headers, media_type="application/json")
    return Response(b"".join(text), headers=headers, media_type="application/json")
