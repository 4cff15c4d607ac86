"""The truth as JSON."""

import json
from pathlib import Path
from typing import Any

from harvest_sim.clock import NSECS
from harvest_sim.lives import Subject
from harvest_sim.site import Site
from harvest_sim.truth import Amount, TotalKey

_NONE = Amount(0, 0)


def truth_report(site: Site) -> dict[str, Any]:
    """Return what was done and shown, by the ids that a perfect reader gets to know."""
    return {
        "seconds": site.now_ns / NSECS,
        "events": dict(sorted(site.truth.events.items())),
        "lives": sum(1 for _ in site.truth.select()),
        "lives_not_shown_whole": len(site.truth.unshown()),
        "returns": _returns(site),
        "jobs": _entries(site, Subject.JOB),
        "exports": _entries(site, Subject.EXPORT),
    }


def write_report(site: Site, path: Path) -> None:
    """Write the truth to a file, at once."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(json.dumps(truth_report(site)))
    draft.replace(path)


def _entries(site: Site, subject: Subject) -> list[dict[str, Any]]:
    shown = site.truth.shown(subject, readable=True)
    entries: dict[tuple[str, str, bytes], dict[str, Any]] = {}
    for key, done in site.truth.done(subject, readable=True).items():
        entry = entries.setdefault(
            (key.fs, key.kind.value, key.key),
            # bytes that are not UTF-8 as surrogate escapes, like the agent's own JSON
            {"fs": key.fs, "kind": key.kind.value, subject.value: key.key.decode(errors="surrogateescape"), "ops": []},
        )
        entry["ops"].append(_op_entry(key, done, shown.get(key, _NONE)))
    return list(entries.values())


def _op_entry(key: TotalKey, done: Amount, shown: Amount) -> dict[str, Any]:
    return {
        "op": key.op,
        "unit": key.unit,
        "done": {"samples": done.samples, "sum": done.total},
        "shown": {"samples": shown.samples, "sum": shown.total},
    }


def _returns(site: Site) -> dict[str, int]:
    """Count how jobs came back on the same mount, by the samples that were first and last shown."""
    counts = {"lower": 0, "equal": 0, "higher": 0}
    for before, after in site.truth.successions():
        if before.shown and after.shown:
            old = sum(samples for _, samples, _ in before.shown[-1].values)
            new = sum(samples for _, samples, _ in after.shown[0].values)
            counts["lower" if new < old else "equal" if new == old else "higher"] += 1
    return counts
