"""What the final record of a job takes in the ledger, for as long as the site keeps it."""

import random
from pathlib import Path

from bench.report import Budget, Measured, say, table
from harvest.v1.stream_pb2 import SlurmJob
from harvest_aggregator import records, sqlite
from harvest_aggregator.amounts import Amounts
from harvest_aggregator.finals import final_record
from harvest_aggregator.people import Person
from harvest_aggregator.published import InDoubt
from harvest_core.jobs.identity import JobName

JOBS = 20_000
_OST = ("read_bytes", "write_bytes", "read", "write", "create", "punch", "sync", "setattr")
_MDT = ("open", "close", "mknod", "mkdir", "unlink", "rename", "getattr", "setattr", "getxattr", "statfs")
_DAY_SECONDS = 86_400


def measure(folder: Path) -> Measured:
    """Write records of jobs on one file system that did 18 kinds of operations there, and look how large they are."""
    say(f"records: {JOBS} jobs")
    path, chance = folder / "ledger.db", random.Random(1)
    sqlite.make(path)
    empty = path.stat().st_size
    connection = sqlite.connect(path)
    with connection.begin():
        records.write(connection, [_record(number, chance) for number in range(JOBS)], 0)
    sqlite.disconnect(connection)
    size = (path.stat().st_size - empty) / JOBS
    text = "## Records: final records of jobs with 18 operations\n\n" + table(
        ("records", "bytes each", "GB for a year of 20000 a day"),
        [(str(JOBS), f"{size:.0f}", f"{size * 20_000 * 365 / 1e9:.1f}")],
    )
    return Measured(markdown=text, budgets=[Budget(what="records: bytes of one", limit=2000, measured=size, unit=" B")])


def _record(number: int, chance: random.Random) -> records.Json:
    start = 1_700_000_000 + number
    job = SlurmJob(
        id=4_000_000 + number,
        name=f"run-{chance.randrange(100)}",
        state="COMPLETED",
        submit_seconds=start - chance.randrange(_DAY_SECONDS),
        start_seconds=start,
        end_seconds=start + chance.randrange(_DAY_SECONDS),
        nodes=1 + chance.randrange(64),
        exit_code="0:0",
    )
    user = chance.randrange(300)
    done: Amounts = {
        ("scratch", kind): {
            (op, "bytes" if op.endswith("bytes") else "usecs"): (chance.getrandbits(20), chance.getrandbits(38))
            for op in ops
        }
        for kind, ops in (("OST", _OST), ("MDT", _MDT))
    }
    return final_record(
        JobName("vu", b"%d" % job.id),
        done,
        job=job,
        person=Person(user=f"user{user}", group="users", account=f"project{user % 40}", partition="batch"),
        doubt=InDoubt(),
        complete=True,
        last_tick_seconds=job.end_seconds,
    )
