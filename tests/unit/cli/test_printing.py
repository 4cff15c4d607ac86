"""What becomes of lines that nobody reads."""

import io
import sys

import pytest
from rich.text import Text

from harvest_cli.printing import console, put


class _Closed(io.StringIO):
    """A pipe whose reader has gone: that is found out when something is pushed into it."""

    def flush(self) -> None:  # type: ignore[explicit-override]
        raise BrokenPipeError


def test_that_nobody_reads_any_more_is_told_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Closed())
    place = console()
    with pytest.raises(BrokenPipeError):
        put(place, Text("a line"))
