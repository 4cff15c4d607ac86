"""What the benches found, as Markdown."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
_BEGIN = "<!-- measured: written by tests/bench/run.py --write -->"
_END = "<!-- /measured -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What something may cost, and what it did cost."""

    what: str
    limit: float
    measured: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Tell whether it cost no more than it may."""
        return self.measured <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one bench found."""

    markdown: str
    budgets: Sequence[Budget]


def say(message: str) -> None:
    """Tell a waiting person how far it is."""
    print(f"[bench] {message}", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up; the first column is text, the others are numbers."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        "| "
        + " | ".join(f"{cell:{'<' if column == 0 else '>'}{widths[column]}}" for column, cell in enumerate(line))
        + " |"
        for line in (lines[0], rule, *lines[1:])
    )


def machine() -> str:
    """Describe where and when this is measured, without names."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = found[1] if found else platform.machine()
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores of {processor}, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} before the run."
    )


def page(where: str, results: Sequence[Measured]) -> str:
    """Return everything that was found, the budgets first."""
    budgets = table(
        ("budget", "limit", "measured", "met"),
        (
            (
                budget.what,
                *(f"{number:.3g}{budget.unit}" for number in (budget.limit, budget.measured)),
                _answer(budget),
            )
            for result in results
            for budget in result.budgets
        ),
    )
    return "\n\n".join((where, "## Budgets", budgets, *(result.markdown for result in results)))


def write(text: str) -> None:
    """Replace what the last run put into the page."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{PAGE.name} lacks its markers: {_BEGIN} and {_END}")
    PAGE.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}")


def _answer(budget: Budget) -> str:
    return "yes" if budget.met else "**no**"
