"""All aggregators as one: who is asked what, who did not answer, and what that means."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harvest_cli.merging import (
    job_key,
    merged_clients,
    merged_filesystems,
    merged_jobs,
    merged_rows,
    merged_users,
    tick,
)
from harvest_cli.replies import Json, Reply, at
from harvest_cli.work import attributed, sorted_jobs, weight

Ask = Callable[[Iterable[tuple[str, str]]], list[Reply]]
"""Ask (address, path) all at once; the answers come in the same order."""

_LIMIT: Final = 200
_GROWTH: Final = 8
_SAMPLE: Final = 1000
"""Where an aggregator cannot add up by itself, so many of its busiest jobs are added up here."""


SHAPE_ERRORS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What comes of an answer of another shape than the one that is documented."""


class UnreachableError(Exception):
    """Nobody answered; the message says why, one line for each."""


class WrongQuestionError(Exception):
    """What was asked for makes no sense to anybody; the message says what would."""


class TooOldError(Exception):
    """No aggregator has this yet; the message says of each why not."""


class NotKnownError(Exception):
    """Nobody knows what was asked for."""


@dataclass(slots=True)
class Aggregators:
    """Those that are configured, and what was found out about them on the way."""

    urls: Sequence[str]
    ask: Ask
    troubles: dict[str, str] = field(default_factory=dict)
    """By address, why something of it is missing in what is shown."""
    silent: set[str] = field(default_factory=set)
    """Who did not answer at all, and is not waited for a second time."""
    notes: list[str] = field(default_factory=list)
    """What else somebody should know."""

    def get(self, path: str) -> list[Json]:
        """Ask everybody the same, and return the good answers; at least one."""
        return [dict(reply.content) for reply in self._good(path)]

    def _good(self, path: str) -> list[Reply]:
        replies = self.ask((url, path) for url in self.urls if url not in self.silent)
        self._note(replies)
        if good := [reply for reply in replies if reply.is_good]:
            return good
        for reply in replies:
            if reply.is_unknown:
                raise NotKnownError(reply.error)
        wrong = [reply for reply in replies if reply.is_question_wrong]
        if wrong:
            raise WrongQuestionError("\n".join(dict.fromkeys(reply.error for reply in wrong)))
        self.troubles.clear()  # the message has them all
        told = "\n".join(f"{reply.url}: {reply.told}" for reply in replies)
        raise TooOldError(told) if any(reply.lacks_route for reply in replies) else UnreachableError(told)

    def unanswered(self) -> list[Json]:
        """Return whose part is missing, for programs."""
        return [{"url": url, "error": error} for url, error in self.troubles.items()]

    def jobs(self, *, sort: str | None, limit: int, offset: int = 0, filters: Mapping[str, str | None]) -> Json:
        """Return jobs, in order; ``limit`` 0 is all."""
        if len(self.urls) == 1:
            (answer,) = self.get(at("jobs", **filters, sort=sort, limit=limit, offset=offset or None))
            return answer
        sort = sort or "rates.bytes"
        everything = not limit or bool(filters.get("server") or filters.get("target"))
        size = 0 if everything else offset + limit
        while True:
            replies = self._good(at("jobs", **filters, sort=sort, limit=size))
            jobs, is_certain = self._put_together(replies, size, sort, is_filtered=bool(filters.get("fs")))
            if is_certain:
                break
            size *= _GROWTH
        shown = jobs[offset : offset + limit] if limit else jobs[offset:]
        matched = max(len(jobs), *(reply.content["matched"] for reply in replies))  # at least: they share some
        return {
            "tick_seconds": tick(reply.content for reply in replies),
            "matched": matched,
            "shown": len(shown),
            "jobs": shown,
        }

    def _put_together(
        self, replies: Sequence[Reply], size: int, sort: str, *, is_filtered: bool
    ) -> tuple[list[Json], bool]:
        """Return jobs of several answers in order, and whether the first ones are certain to be these.

        An answer that is cut says nothing of a job that is not in it, so it is asked for by name; and nobody who is in
        no answer can have done more than the last of every one that was cut.
        """
        cut = [reply for reply in replies if reply.content["shown"] < reply.content["matched"]]
        if cut and is_filtered:
            return [], False  # a job asked for by name comes with all its file systems
        lists = [list(reply.content["jobs"]) for reply in replies]
        missing = {reply.url: _lacking(lists, reply.content["jobs"]) for reply in cut}
        jobs = sorted_jobs(merged_jobs([*lists, self._named(missing)]), sort)
        if not cut or sort == "job":
            return jobs, True
        unseen = sum(weight(reply.content["jobs"][-1], sort) for reply in cut)
        return jobs, len(jobs) >= size and weight(jobs[size - 1], sort) >= unseen

    def _named(self, missing: Mapping[str, Mapping[tuple[str, str], int | None]]) -> list[Json]:
        """Ask aggregators for jobs by name; who does not know when a job started is asked for any of that name."""
        named = [(url, key, start) for url, jobs in missing.items() for key, start in jobs.items()]
        replies = self.ask((url, at("jobs", *key, start=start)) for url, key, start in named)
        found = [dict(reply.content) for reply in replies if reply.is_good]
        pairs = zip(named, replies, strict=True)
        again = [
            (url, at("jobs", *key)) for (url, key, start), reply in pairs if reply.is_unknown and start is not None
        ]
        found += [dict(reply.content) for reply in self.ask(again) if reply.is_good and reply.content["start"] is None]
        for job in found:
            job.pop("tick_seconds", None)
        return found

    def job(self, job: str, *, cluster: str | None, start: int | None) -> list[Json]:
        """Return the jobs of that id: one for each cluster that has it, unless one is named."""
        clusters = [cluster] if cluster is not None else self.clusters()
        questions = [
            (url, at("jobs", each, job, start=start))
            for each in clusters
            for url in self.urls
            if url not in self.silent
        ]
        replies = self.ask(questions)
        self._note(replies)
        good = [dict(reply.content) for reply in replies if reply.is_good]
        found = merged_jobs([good])
        for one in found:
            one["tick_seconds"] = tick(good)
        if not found and not any(reply.is_unknown for reply in replies):
            told = "\n".join(f"{url}: {error}" for url, error in self.troubles.items())
            self.troubles.clear()  # the message has them all
            raise UnreachableError(told)
        return found

    def _note(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            if not (reply.is_good or reply.is_unknown or reply.is_question_wrong):
                self.troubles[reply.url] = reply.told
            if not reply.status:
                self.silent.add(reply.url)

    def clusters(self) -> list[str]:
        """Return the clusters of which anything is known, and the two names for "not known which"."""
        answers = self.get(at("jobs", limit=_LIMIT)) + self.get(at("clients"))
        named = [one["cluster"] for answer in answers for one in answer.get("jobs") or answer.get("clients") or []]
        return list(dict.fromkeys(["-", "ambiguous", *named]))

    def busiest(self) -> list[Json]:
        """Return the jobs that do most, to find names among them."""
        return merged_jobs(answer["jobs"] for answer in self.get(at("jobs", limit=_SAMPLE)))

    def user(self, user: str) -> Json:
        """Return one user's work."""
        answers = self.get(at("users", user))
        return {"tick_seconds": tick(answers), **merged_users(answers)}

    def attribution(self, by: str, filters: Mapping[str, str | None]) -> Json:
        """Return who does how much: by user, account or process."""
        try:
            answers = self.get(at("attribution", by=by, limit=0, **filters))
            rows = merged_rows((answer["rows"] for answer in answers), by)
            return {"tick_seconds": tick(answers), "by": by, "rows": rows}
        except TooOldError:
            pass  # what can be added up here is
        jobs = self.jobs(sort="rates.bytes", limit=_SAMPLE, filters=filters)
        if jobs["shown"] < jobs["matched"]:
            self.notes.append(
                f"of the {jobs['shown']} busiest of {jobs['matched']} jobs: the aggregator is too old to add up"
            )
        rows = merged_rows([[attributed(job, by) for job in jobs["jobs"]]], by, counted=operator.add)
        named = [row for row in rows if by != "process" or row["name"] is not None]
        return {"tick_seconds": jobs["tick_seconds"], "by": by, "rows": named}

    def clients(self, *, fs: str | None = None) -> Json:
        """Return what every node does."""
        answers = self.get(at("clients", fs=fs))
        return {"tick_seconds": tick(answers), "clients": merged_clients(answer["clients"] for answer in answers)}

    def filesystems(self) -> Json:
        """Return the file systems."""
        answers = self.get(at("filesystems"))
        shown = merged_filesystems(answer["filesystems"] for answer in answers)
        return {"tick_seconds": tick(answers), "filesystems": shown}

    def listed(self, what: str) -> Json:
        """Return servers or targets; each says which aggregator speaks of it, as two may know one differently."""
        replies = self._good(at(what))
        shown = [{**one, "aggregator": reply.url} for reply in replies for one in reply.content[what]]
        dates = [reply.date_seconds for reply in replies if reply.date_seconds is not None]
        return {
            "tick_seconds": tick(reply.content for reply in replies),
            what: shown,
            "now_seconds": max(dates, default=None),
        }


def _lacking(lists: Iterable[Iterable[Json]], have: Iterable[Json]) -> dict[tuple[str, str], int | None]:
    """Return the jobs of other answers that are not in this one, with their starts."""
    mine = {job_key(job) for job in have}
    return {job_key(job): job.get("start") for each in lists for job in each if job_key(job) not in mine}
