"""Aggregators that say what a test wants, without sockets."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from harvest_cli.aggregators import Aggregators
from harvest_cli.replies import Json, Reply
from harvest_cli.work import sorted_jobs

A, B = "http://a:8024", "http://b:8024"
TICK = 1_700_000_000


def work(read: int = 0, write: int = 0, iops: int = 0, *, rate: float = 0.0, **ops: int) -> Json:
    """Return what was done on one kind of target; ``rate`` is read per second."""
    return {
        "read_bytes": read,
        "write_bytes": write,
        "iops": iops,
        "rates": {"read_bytes": rate, "write_bytes": 0.0, "iops": 0.0},
        "ops": {op: {"samples": samples, "sum": 0} for op, samples in ops.items()},
    }


def job(name: str, cluster: str = "-", *, fs: str = "home", ost: Json | None = None, **more: Any) -> Json:  # noqa: ANN401
    """Return a job on one file system."""
    return {
        "job": name,
        "cluster": cluster,
        "start": None,
        "name": None,
        "state": None,
        "user": None,
        "account": None,
        "complete": True,
        "ambiguous_resets": 0,
        "ambiguous_bytes": 0,
        "ambiguous_samples": 0,
        "last_tick_seconds": TICK,
        "filesystems": {fs: {"ost": ost or work(), "mdt": work()}},
        **more,
    }


class Telling:
    """Answers as aggregators do: by address the jobs that it knows, and by path whatever else."""

    def __init__(self, jobs: Mapping[str, list[Json]], other: Mapping[tuple[str, str], Any] | None = None) -> None:
        self.jobs = jobs
        self.other = other or {}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, questions: Iterable[tuple[str, str]]) -> list[Reply]:
        """Answer all at once."""
        asked = list(questions)
        self.asked += asked
        return [self._reply(url, path) for url, path in asked]

    @property
    def aggregators(self) -> Aggregators:
        """Return them as commands see them."""
        urls = dict.fromkeys([*self.jobs, *(url for url, _ in self.other)])
        return Aggregators(tuple(urls), self)

    def _reply(self, url: str, path: str) -> Reply:
        told = self.other.get((url, path))
        if told is None and path.startswith("/api/v1/jobs") and url in self.jobs:
            told = self._jobs(url, path)
        if isinstance(told, Reply):
            return told
        if told is None:
            return Reply(url=url, path=path, status=404, content={"error": "Not Found"})
        return Reply(url=url, path=path, status=200, content=told, date_seconds=TICK + 5)

    def _jobs(self, url: str, path: str) -> Any:  # noqa: ANN401
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        named = parts.path.removeprefix("/api/v1/jobs").strip("/")
        if named:
            cluster, _, name = named.partition("/")
            found = [
                one
                for one in self.jobs[url]
                if (one["cluster"], one["job"]) == (unquote(cluster), unquote(name))
                and query.get("start", str(one["start"])) == str(one["start"])
            ]
            missing = Reply(url=url, path=path, status=404, content={"error": f"no job {unquote(name)!r} is known"})
            return {"tick_seconds": TICK, **found[-1]} if found else missing
        jobs = sorted_jobs(self.jobs[url], query.get("sort", "rates.bytes"))
        first, limit = int(query.get("offset", 0)), int(query.get("limit", 200))
        shown = jobs[first : first + limit] if limit else jobs[first:]
        return {"tick_seconds": TICK, "matched": len(jobs), "shown": len(shown), "jobs": shown}


def silent(url: str, path: str) -> Reply:
    """Return what is known of somebody who does not answer."""
    return Reply(url=url, path=path, trouble="nobody listens there")
