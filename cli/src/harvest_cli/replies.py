"""What an aggregator answered, and what that means for whoever asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from harvest_cli.units import name

Json = dict[str, Any]
_NO_SUCH_ROUTE: Final = "Not Found"
"""What an aggregator says of an address that it does not have; of things that it does not know it says more."""

_PREFIX: Final = "/api/v1/"
_CONTENTS: Final = {
    **{name: name for name in ("filesystems", "servers", "targets", "jobs", "clients")},
    "jobs/": "job",
    "users/": "user",
    "attribution": "rows",
    "/healthz": "alive",
    "/readyz": "ready",
}
"""What an answer must have in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One aggregator's answer to one question, or why there is none."""

    url: str
    path: str
    status: int = 0
    """Of HTTP; 0 if there was no answer."""
    content: Mapping[str, Any] = field(default_factory=dict)
    trouble: str = ""
    """Why there was no answer, and what to do."""
    date_seconds: float | None = None
    """What the aggregator's clock said."""

    @property
    def is_good(self) -> bool:
        """Whether it is what was asked for; other programs answer with 200, too."""
        route = self.path.removeprefix(_PREFIX).partition("?")[0]
        return self.status == 200 and _CONTENTS.get(route, _CONTENTS.get(route.partition("/")[0] + "/")) in self.content

    @property
    def error(self) -> str:
        """What the aggregator says is wrong."""
        return name(self.content.get("error", f"status {self.status}"))

    @property
    def lacks_route(self) -> bool:
        """Whether this aggregator has no such thing to ask for: it is older than this command."""
        return (self.status == 404 and self.content.get("error") == _NO_SUCH_ROUTE) or (
            self.status == 400 and self.error.startswith("there is no parameter")
        )

    @property
    def is_unknown(self) -> bool:
        """Whether it does not know what was asked for."""
        return self.status == 404 and not self.lacks_route

    @property
    def is_question_wrong(self) -> bool:
        """Whether something in the question is not known to it, such as a file system's name."""
        return self.status == 400 and not self.lacks_route

    @property
    def told(self) -> str:
        """What is wrong, for a person."""
        if self.status == 0:
            return self.trouble
        if self.status == 401:
            return (
                "it wants its HTTP token, and was given none or another one: "
                "name the file that holds it with --token-file or HARVEST_TOKEN_FILE"
            )
        if self.lacks_route:
            what = self.error if self.status == 400 else f"there is no {self.path.partition('?')[0]}"
            return f"it is older than this command ({what}): update the aggregator"
        if self.status == 200:
            return "its answer is not what an aggregator says: is this its HTTP address?"
        return f"it answers {self.status}: {self.error}"


def at(*parts: str, **query: object) -> str:
    """Return the path of a question; what is not asked for is left out."""
    path = "/".join(quote(part, safe="", errors="surrogateescape").replace(".", "%2E") for part in parts[1:])
    asked = {key: value for key, value in query.items() if value not in {None, ""}}
    text = f"{_PREFIX}{parts[0]}" + (f"/{path}" if path else "")
    return f"{text}?{urlencode(asked, errors='surrogateescape')}" if asked else text
