"""Jobs out of JSON: of squeue, sacct and slurmrestd, old and new, and of the pyslurm child's lines."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from harvest_core.slurm.jobs import SHARED, Names, SlurmJob, job_of, text

_DECODER: Final = json.JSONDecoder(strict=False)
_JOB_MOST: Final = 16 << 20
"""No job takes so many characters: whatever does is no answer, and is not waited for."""
_LIST: Final = re.compile(r'"jobs"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[\s,]*")
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("job_id",),
    "array_id": ("array_job_id", "array.job_id"),
    "array_task": ("array_task_id", "array.task_id"),
    "het_leader": ("het_job_id", "het.job_id"),
    "het_offset": ("het_job_offset", "het.job_offset"),
    "name": ("name",),
    "user": ("user_name", "user", "association.user"),
    "uid": ("user_id",),
    "group": ("group_name", "group"),
    "gid": ("group_id",),
    "account": ("account",),
    "partition": ("partition",),
    "state": ("job_state", "state.current"),
    "submit_seconds": ("submit_time", "time.submission"),
    "start_seconds": ("start_time", "time.start"),
    "end_seconds": ("end_time", "time.end"),
    "restarts": ("restart_cnt",),
    "nodes": ("node_count", "allocation_nodes"),
    "exit_code": ("exit_code",),
}
"""Where slurmctld's jobs have what we want, and where the accounting database's do."""


class JsonJobs:
    """Reads the list ``jobs`` of one JSON object piece by piece: the whole is a hundred times what is kept."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[str, str] = {}
        self._characters = _Utf8()
        self._text = ""
        self._at = 0
        self._head: str | None = None
        """What came before the list; with what comes after it, this is an object again."""
        self._is_read = False
        self.unread = 0
        """Entries that are no job."""
        self.problem = ""
        """Why this is no answer at all."""

    def feed(self, piece: bytes) -> list[SlurmJob]:
        """Return the jobs that are complete with this piece."""
        if self.problem:
            return []
        self._text = self._text[self._at :] + self._characters.decoded(piece)
        self._at = 0
        if self._head is None and (found := _LIST.search(self._text)) is not None:
            self._head = self._text[: found.end()]
            self._at = found.end()
        jobs = [] if self._head is None or self._is_read else list(self._complete())
        if len(self._text) - self._at > _JOB_MOST:
            self.problem = f"no JSON as Slurm prints it: {self._shown()}"
        return jobs

    def end(self) -> list[SlurmJob]:
        """Return nothing more; say what was wrong with the whole."""
        if self.problem:
            return []
        try:
            said: Any = _DECODER.decode((self._head or "") + self._text[self._at :])
        except (ValueError, RecursionError):
            self.problem = f"the JSON ends too early, or is none: {self._shown()}"
            return []
        errors = said.get("errors") if isinstance(said, dict) else None
        if isinstance(errors, list) and errors:
            self.problem = "; ".join(_error(error) for error in errors[:3])
        elif self._head is None:
            self.problem = f"an answer without jobs: {self._shown()}"
        return []

    def _shown(self) -> str:
        return repr(self._text[self._at : self._at + 80])

    def _complete(self) -> Iterator[SlurmJob]:
        while (begin := _BETWEEN.match(self._text, self._at)) is not None:
            self._at = begin.end()
            if self._text.startswith("]", self._at):
                self._is_read = True
                return
            try:
                said, self._at = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):  # or the rest of it is still to come
                return
            job = self._job(said)
            if job is not None:
                yield job

    def _job(self, said: object) -> SlurmJob | None:
        job = None
        if isinstance(said, dict):
            found = {name: _at(said, places) for name, places in _PLACES.items()}
            found |= {
                name: self._known.setdefault(word, word) for name in SHARED if isinstance(word := found[name], str)
            }
            job = job_of(found, self._names)
        self.unread += job is None
        return job


class LineJobs:
    """Reads the pyslurm child's lines: a job each under the wire's names, or an error; the last one says that it is."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rest = b""
        self._is_whole = False
        self.unread = 0
        self.problem = ""

    def feed(self, piece: bytes) -> list[SlurmJob]:
        """Return the jobs of the lines that end in this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[:_JOB_MOST]
        return [job for line in lines if line.strip() and (job := self._job(line)) is not None]

    def end(self) -> list[SlurmJob]:
        """Return nothing more; say what was wrong with the whole."""
        if not self.problem and not self._is_whole:
            self.problem = f"the child ended too early{': ' + repr(self._rest[:80]) if self._rest else ''}"
        return []

    def _job(self, line: bytes) -> SlurmJob | None:
        try:
            said: Any = _DECODER.decode(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            said = None
        if isinstance(said, dict) and "error" in said:
            self.problem = text(said["error"])[:300] or "the child does not say what is wrong"
            return None
        if isinstance(said, dict) and "end" in said:
            self._is_whole = True
            return None
        job = job_of(said, self._names) if isinstance(said, dict) else None
        self.unread += job is None
        return job


class _Utf8:
    """Decodes pieces; a character may lie in two of them."""

    def __init__(self) -> None:
        self._rest = b""

    def decoded(self, piece: bytes) -> str:
        data = self._rest + piece
        whole = len(data)
        for back in range(1, min(4, whole) + 1):  # is the last character complete?
            byte = data[whole - back]
            if byte & 0xC0 != 0x80:
                length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                whole -= back if length > back else 0
                break
        self._rest = data[whole:]
        return data[:whole].decode("utf-8", "replace")


def _at(said: Mapping[str, object], places: tuple[str, ...]) -> object:
    for place in places:
        first, _, second = place.partition(".")
        value = said.get(first)
        if second:
            value = value.get(second) if isinstance(value, dict) else None
        if value is not None and not (isinstance(value, dict) and place in {"user", "group"}):
            return value
    return None


def _error(error: object) -> str:
    if not isinstance(error, dict):
        return text(str(error))[:200]
    said = [str(error[key]) for key in ("source", "error", "description") if error.get(key)]
    return text(": ".join(said) or str(error))[:200]
