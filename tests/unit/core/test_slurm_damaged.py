"""Answers of Slurm, damaged in all sorts of ways: never an exception, and whatever is read can be sent."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from harvest.v1.stream_pb2 import SlurmJob as Message
from harvest_core.slurm.answers import JsonJobs, LineJobs
from harvest_core.slurm.texts import SACCT, SQUEUE, TextJobs
from unit.core.slurm_names import Nobody

RECORDED = Path(__file__).parents[2] / "data/slurm/22.05"
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 1e300, float("nan"), float("-inf"), "", "N/A", "x" * 5000),
    *(
        "\ud800",
        "\x00",
        [],
        [[]],
        {},
        {"number": None},
        {"set": True, "number": 1 << 70},
        ["RUNNING", None],
        {"id": {}},
    ),
)


def readers() -> list[JsonJobs | LineJobs | TextJobs]:
    texts = [TextJobs(tuple(columns.values()), Nobody()) for columns in (SQUEUE, SACCT)]
    return [JsonJobs(Nobody()), LineJobs(Nobody()), *texts]


def feed_all(data: bytes, chance: random.Random) -> None:
    for reader in readers():
        jobs = []
        rest = data
        while rest:
            size = chance.randint(1, 20000)
            jobs += reader.feed(rest[:size])
            rest = rest[size:]
        for job in (*jobs, *reader.end()):
            message = Message()
            job.write(message)
            message.SerializeToString()


def damaged(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 5)):
        at, size = chance.randrange(len(data)), chance.randint(0, 200)
        piece = chance.choice(
            [b"", chance.randbytes(size), data[at : at + size] * 2, b"|" * 3, b"\n", b'"', b"]", b"{", b"\xff"]
        )
        data = data[:at] + piece + data[at + size :]
    return data


@pytest.mark.parametrize("file", ["squeue.json", "squeue.txt", "sacct.txt", "slurmrestd-accounting.json"])
def test_whatever_happens_to_the_bytes(file: str) -> None:
    data = (RECORDED / file).read_bytes()
    for seed in range(60):
        chance = random.Random(f"{file} {seed}")
        feed_all(damaged(data, chance), chance)


def strange(value: Any, chance: random.Random) -> Any:  # noqa: ANN401
    if chance.random() < 0.1:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: strange(each, chance) for key, each in value.items()}
    if isinstance(value, list):
        return [strange(each, chance) for each in value]
    return value


@pytest.mark.parametrize("file", ["squeue.json", "slurmrestd-accounting.json"])
def test_whatever_stands_in_the_place_of_a_value(file: str) -> None:
    said = json.loads((RECORDED / file).read_text())
    for seed in range(40):
        chance = random.Random(f"{file} {seed}")
        jobs = [strange(job, chance) for job in said["jobs"]]
        feed_all(json.dumps({"jobs": jobs}).encode(), chance)
        lines = (
            {"id": chance.choice([5, *ODD]), "state": chance.choice(ODD), "array_task": chance.choice(ODD)}
            for _ in jobs
        )
        feed_all("\n".join(json.dumps(line) for line in lines).encode(), chance)
