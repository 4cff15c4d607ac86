"""The demo's table: what Lustre shows now, what each job really did, and what Harvest says."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from harvest_sim.lives import Life, Subject
from harvest_sim.ops import Kind
from harvest_sim.site import Site

_ROWS = 14
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(slots=True)
class Row:
    """One job: bytes on OSTs, and operations on MDTs."""

    lives: int = 0
    now: "Counter[str]" = field(default_factory=Counter)
    done: "Counter[str]" = field(default_factory=Counter)
    told: "Counter[str]" = field(default_factory=Counter)


def rows_of(site: Site, jobs: Iterable[Mapping[str, Any]]) -> dict[str, Row]:
    """Put the truth and Harvest's answer side by side."""
    rows: dict[str, Row] = {}
    for life in site.truth.select(Subject.JOB):
        row = rows.setdefault(life.readable_key.decode(errors="surrogateescape"), Row())
        row.lives += 1
        amounts = _amounts(life)
        row.done.update(amounts)
        if not life.is_over:
            row.now.update(amounts)
    for job in jobs:
        row = rows.setdefault(job["job"], Row())
        for work in job["filesystems"].values():
            row.told["bytes"] += work["ost"]["read_bytes"] + work["ost"]["write_bytes"]
            row.told["ops"] += sum(op["samples"] for op in work["mdt"]["ops"].values())
    return rows


def _amounts(life: Life) -> dict[str, int]:
    if life.scope.kind is Kind.MDT:
        return {"ops": sum(samples for samples, _ in life.done().values())}
    return {"bytes": sum(total for index, (_, total) in life.done().items() if life.ops[index].unit == "bytes")}


def table(rows: Mapping[str, Row], *, title: str, caption: str) -> Table:
    """Return the jobs that did most, as a table."""
    shown = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
    shown.add_column("\njob", overflow="ellipsis", max_width=12, no_wrap=True)
    shown.add_column("re-\ncords", justify="right")
    for first, what in (("bytes", "shown now"), ("ops", "shown now")):
        shown.add_column(f"{first}\n{what}", justify="right", style="yellow", no_wrap=True)
        shown.add_column("\ndone", justify="right", no_wrap=True)
        shown.add_column("\nHarvest", justify="right", no_wrap=True)
    shown.add_column("", justify="left", no_wrap=True)
    ranked = sorted(rows.items(), key=lambda item: (item[1].done["bytes"], item[1].done["ops"]), reverse=True)
    for name, row in ranked[:_ROWS]:
        equal = row.told == row.done
        shown.add_row(
            *(printable(name), str(row.lives)),
            *(size(numbers["bytes"]) for numbers in (row.now, row.done, row.told)),
            *(f"{numbers['ops']:,}" for numbers in (row.now, row.done, row.told)),
            "[green]exact[/]" if equal else "[dim]soon[/]",
        )
    return shown


def hints(url: str) -> str:
    """Say how to look at it with the command that people have."""
    return f"""
In another terminal:

  export HARVEST_URL={url}
  .venv/bin/harvest top                       # who does most, now; keys change what is shown
  .venv/bin/harvest top --server mds1         # who is on mds1
  .venv/bin/harvest jobs --sort write_bytes   # the jobs that have written most
  .venv/bin/harvest job 1000000               # what did that one do?
  .venv/bin/harvest user emma                 # … and all of hers? She is in two accounts
  .venv/bin/harvest doctor                    # is anything wrong?
  curl {url}/metrics/prom     # what Prometheus is shown of all this
"""


def printable(name: str) -> str:
    """Return a job's id as a terminal can show it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("[", "\\[")


def size(amount: int) -> str:
    """Return bytes with a unit."""
    number = float(amount)
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError
