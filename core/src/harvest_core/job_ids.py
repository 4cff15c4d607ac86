"""What a job id says: a Slurm number, a process and its user, or whatever the site's ``jobid_name`` puts together.

Clients fill in the format; servers cut the result at 31 bytes. A field that the cut may have hit is told apart.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from harvest_core.lustre.job_stats import ID_BYTES_MAX

_FIELDS: Final = {
    "e": ("executable", r"[^\n]{1,15}"),
    "g": ("gid", r"[0-9]+"),
    "h": ("host", r"[A-Za-z0-9_.-]+"),
    "H": ("host", r"[A-Za-z0-9_-]+"),
    "j": ("job", r"[^\n]*?"),
    "p": ("pid", r"[0-9]+"),
    "u": ("uid", r"[0-9]+"),
}
_CODE = re.compile(r"%(?:\.([1-9][0-9]?))?([eghHjpu])((?<=j)\?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdParts:
    """The fields of one id; ``None`` where the format has none, or the cut left nothing of it."""

    job: str | None = None
    """The value of the site's job variable, such as a Slurm number; empty for a process outside any job."""
    executable: str | None = None
    uid: str | None = None
    gid: str | None = None
    host: str | None = None
    pid: str | None = None
    doubtful: str | None = None
    """The field that may be incomplete: the id is as long as an id can be, and this is its last one."""


@dataclass(frozen=True, slots=True)
class JobIdFormat:
    """A ``jobid_name`` such as ``%j:%u:%H``, ready to read ids with."""

    text: str
    patterns: tuple[tuple[re.Pattern[str], str | None], ...]
    """The whole format first, then what cuts leave of it; each with the field that the cut went through."""

    @classmethod
    def compile(cls, text: str) -> Self | None:
        """Read a format; nothing if it holds a code that Lustre does not have. Blanks are dropped, as there."""
        dense = "".join(text.split())
        tokens: list[tuple[str, str | None]] = []
        optional_job = False
        at = 0
        while at < len(dense):
            code = _CODE.match(dense, at)
            if code is not None:
                field, pattern = _FIELDS[code[2]]
                if code[1] is not None:  # %.3h: at most three characters
                    least = 0 if field == "job" else 1
                    pattern = re.sub(r"(\{1,15\}|\+|\*\?)$", f"{{{least},{code[1]}}}", pattern)
                optional_job |= code[3] is not None
                tokens.append((pattern, field))
                at = code.end()
            elif dense[at] == "%":
                return None
            else:
                tokens.append((re.escape(dense[at]), None))
                at += 1
        if len({field for _, field in tokens if field}) < sum(field is not None for _, field in tokens):
            return None  # one field twice cannot be read back
        whole = "".join(_group(*token) for token in tokens)
        if optional_job:  # `%j?%H`: what follows stands only where there is no job; told apart by job ids being numbers
            before, _, after = whole.partition(_group(*next(token for token in tokens if token[1] == "job")))
            whole = before + "(?:" + _group(r"[0-9]+", "job") + "|" + after + ")"
            return cls(dense, ((re.compile(whole), None),))
        cuts = [
            (re.compile("".join(_group(*token) for token in tokens[: end + 1])), tokens[end][1])
            for end in range(len(tokens) - 1, -1, -1)
        ]
        return cls(dense, ((re.compile(whole), None), *cuts))

    def parse(self, job: bytes) -> JobIdParts | None:
        """Take an id apart; nothing if it was not made by this format."""
        text = job.decode("utf-8", "surrogateescape")
        full = len(job) >= ID_BYTES_MAX
        for number, (pattern, last) in enumerate(self.patterns):
            if number and not full:
                return None
            match = pattern.fullmatch(text)
            if match is not None:
                return JobIdParts(**match.groupdict(), doubtful=(last or self._last()) if full else None)
        return None

    def _last(self) -> str | None:
        return self.patterns[1][1] if len(self.patterns) > 1 else None


def _group(pattern: str, field: str | None) -> str:
    return pattern if field is None else f"(?P<{field}>{pattern})"


PROCESS: Final = JobIdFormat.compile("%e.%u")
"""What clients send outside any job: the process and its user."""


def guess(job: bytes) -> JobIdParts | None:
    """Read an id whose format is not known: a plain number is a job, ``name.uid`` a process, all else is unknown."""
    if re.fullmatch(rb"[0-9]{1,18}", job):
        return JobIdParts(job=job.decode())
    return PROCESS.parse(job) if PROCESS is not None else None
