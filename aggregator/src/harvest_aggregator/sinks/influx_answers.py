"""What an InfluxDB answers, and what that means for what was written. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from harvest_aggregator.sinks.contract import Outcome

NO_ANSWER, NO_TLS = -1, 0
"""In the place of a status."""
NO_TOKEN, TOO_LARGE = 401, 413
REJECTED: Final[Mapping[int, str]] = {
    400: "it makes no sense to the server",
    413: "one point alone is too large; several are sent again in halves",
    422: "a part was not taken: a field has another type there, or the bucket keeps nothing so old",
}
"""What was written is at fault: it is counted, and not tried again."""
KEPT: Final[Mapping[int, str]] = {
    NO_ANSWER: "is the address right, does it run, is a firewall between?",
    NO_TLS: "is its certificate signed by what `caSecretRef` names, and for this name?",
    401: "is the token of `tokenSecretRef` the right one?",
    403: "the token may not write to this bucket",
    404: "are `url`, `org` and `bucket` right?",
    429: "it wants to be asked less often",
    503: "it is busy or starting",
}
"""What somebody must mend, or passes by itself, and what to look at; so does every status that is not named here."""


class Code(IntEnum):
    """How ``influx-check`` ends."""

    GOOD = 0
    USAGE = 2
    UNREACHABLE = 3
    TLS = 4
    TOKEN = 5
    ORG = 6
    BUCKET = 7
    TIME = 8
    OTHER = 9


CODES: Final[Mapping[Code, str]] = {
    Code.GOOD: "every sink can be written to",
    Code.USAGE: "the command, the site or a file of the secrets is wrong",
    Code.UNREACHABLE: "nobody answers at the address",
    Code.TLS: "the server's certificate is not trusted, or it speaks no TLS",
    Code.TOKEN: "the token is refused, or may not write to the bucket",
    Code.ORG: "there is no such organisation",
    Code.BUCKET: "there is no such bucket",
    Code.TIME: "the clocks differ by more than a minute, or what is written is not there afterwards",
    Code.OTHER: "the server says something else, which is shown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an InfluxDB is, and what it is shown."""

    url: str
    org: str
    bucket: str
    token_file: Path | None
    """Nothing where there is no folder with secrets."""
    ca_file: Path | None


class SecretError(Exception):
    """A file of the site's secrets cannot be used; the message says why."""


class Answer(NamedTuple):
    """What came of a request."""

    status: int
    said: str = ""
    wait_seconds: float = 0.0
    is_its_own: bool = True
    """Whether InfluxDB said so, and not somebody between."""

    @property
    def outcome(self) -> Outcome:
        """What that means for what was written."""
        if 200 <= self.status < 300:
            return Outcome.ACCEPTED
        is_at_fault = self.status in REJECTED and (self.is_its_own or self.status == TOO_LARGE)
        return Outcome.REJECTED if is_at_fault else Outcome.KEPT

    def told(self, url: str) -> str:
        """Say it to a person."""
        what = f"{url} answers {self.status}" if self.status > 0 else f"{url} cannot be asked"
        hint = (REJECTED if self.outcome is Outcome.REJECTED else KEPT).get(self.status)
        return ": ".join(part for part in (what, self.said, hint) if part)
