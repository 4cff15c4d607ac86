"""Damaged text into every parser: none may raise, and every line must be accounted for once."""

import os
import random
from pathlib import Path

from harvest_core.lustre.job_stats import lines_of, parse_job_stats
from harvest_core.lustre.lctl import parse_lctl
from harvest_core.lustre.names import parse_nid, parse_number, parse_target, parse_uuids, parse_version
from harvest_core.lustre.stats import parse_stats
from support.mutator import mutated

DATA = Path(__file__).parents[1] / "data" / "lustre"
LARGEST = 6000
"""Of one input: enough for two or three records, little enough for many inputs."""


def base_texts() -> list[bytes]:
    """Return the project's own cases and, where they are, captures of real servers."""
    folders = [DATA, *(Path(folder) for folder in [os.environ.get("HARVEST_CAPTURES")] if folder)]
    texts = [
        file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name.endswith(("stats", "stats.txt", "lctl.txt", "exports.txt"))
    ]
    return [text for text in texts if text]


def check(text: bytes) -> None:
    """Put one text through all parsers and count its lines."""
    lines = len(lines_of(text))
    jobs = parse_job_stats(text)
    found = jobs.structure_lines + len(jobs.unread)
    found += sum(len(job.counters) + job.structure_lines + len(job.unread) for job in jobs.records)
    assert found == lines
    assert all(len(job.doubtful) <= len(job.counters) for job in jobs.records)
    stats = parse_stats(text)
    assert stats.structure_lines + len(stats.counters) + len(stats.unread) == lines
    parameters, head = parse_lctl(text)
    rest = [parameter.name + b"=" + parameter.value for parameter in parameters]
    assert sorted(b"".join([head, *rest]).replace(b"\n", b"")) == sorted(text.replace(b"\n", b""))
    for parameter in parameters:
        assert parameter.parts is None or all(part != b"" for part in parameter.parts[:1])
    line = text[:40].decode("utf-8", "surrogateescape")
    parse_nid(line)
    parse_target(line)
    parse_version(line)
    parse_number(text[:20])
    parse_uuids(text[:100])


def fuzz(count: int, seed: int) -> None:
    """Check this many damaged texts; an input that fails is named by its number and can be made again."""
    texts = base_texts()
    assert len(texts) > 10
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        text = rng.choice(texts)
        if len(text) > LARGEST:
            start = rng.randrange(len(text) - LARGEST)
            text = text[start : start + LARGEST]
        text = mutated(text, rng)
        try:
            check(text)
        except Exception as error:
            raise AssertionError(f"input {seed}/{number} is not read: {text!r}") from error
    print(f"\n{count} damaged inputs from {len(texts)} texts: every line is a sample, structure or unread")
