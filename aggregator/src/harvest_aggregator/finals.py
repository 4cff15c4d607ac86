"""What is written of a job, or of one of its runs, when it is over: as the API tells a job."""

from collections.abc import Mapping
from typing import Any

from harvest.v1.stream_pb2 import SlurmJob
from harvest_aggregator.amounts import Amounts
from harvest_aggregator.answers import printed
from harvest_aggregator.catalogue import MEASURES
from harvest_aggregator.jobs import NOTHING, operations
from harvest_aggregator.people import Person, told_by_slurm
from harvest_aggregator.published import InDoubt
from harvest_core.accounting.totals import Counter
from harvest_core.jobs.identity import JobName
from harvest_core.jobs.life import Life

Json = dict[str, Any]


def final_record(
    name: JobName,
    amounts: Amounts,
    *,
    job: SlurmJob | None,
    person: Person,
    doubt: InDoubt,
    complete: bool,
    last_tick_seconds: int | None,
) -> Json:
    """Return the record of a job that did these amounts."""
    filesystems: dict[str, Json] = {}
    for (filesystem, kind), counters in amounts.items():
        if counters:
            on = filesystems.setdefault(filesystem, {"ost": NOTHING, "mdt": NOTHING})
            on[kind.lower()] = _work(counters)
    return {
        "job": printed(name.job),
        "cluster": name.cluster,
        **told_by_slurm(job, person),
        "state": Life.FINAL,
        "complete": complete,
        "late": False,
        "ambiguous_resets": doubt.resets,
        "ambiguous_bytes": doubt.bytes,
        "ambiguous_samples": doubt.samples,
        "last_tick_seconds": last_tick_seconds,
        "filesystems": filesystems,
    }


def _work(counters: Mapping[Counter, tuple[int, int]]) -> Json:
    known, values = tuple(counters), tuple(counters.values())
    return {
        **{
            measure: sum(
                values[column][0 if measure == "iops" else 1] for column, counter in enumerate(known) if counts(counter)
            )
            for measure, counts in MEASURES.items()
        },
        "rates": dict.fromkeys(MEASURES, 0.0),
        "ops": {
            op: {
                "samples": sum(values[column][0] for column in one.columns),
                "sum": sum(values[column][1] for column in one.summed),
            }
            for op, one in operations(known).items()
        },
    }
