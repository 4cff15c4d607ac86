"""A keeper in a process of its own, that tests talk to and kill."""

import multiprocessing
import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from harvest.v1.stream_pb2 import Batch
from harvest_aggregator import accounts, parking
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.jobs import operations
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.records import Records
from harvest_core.accounting.parking import JobSum, Sums, merge, park
from harvest_core.accounting.totals import JobWork, job_totals
from harvest_site.loading import load

LIMIT_SECONDS = 60
_FOLD_READS = 3

Sent = tuple[str, bytes, int, list[bytes]]
"""(agent, incarnation, seq, messages): a delivery that can cross a pipe."""


def delivery(sent: Sent) -> Delivery:
    """Return what a stream would hand over."""
    agent, incarnation, seq, messages = sent
    batches = tuple((message, Batch.FromString(message)) for message in messages)
    return Delivery(agent=agent, incarnation=incarnation, seq=seq, batches=batches)


def totals(keeper: Keeper) -> dict[str, Any]:
    """Return all that jobs did, by kind of target, and what could not be known."""
    accounts = keeper._accounts  # noqa: SLF001 - to the last number, whatever was published
    sums: dict[str, Sums] = {"OST": {}, "MDT": {}}
    for place, target in accounts._targets.items():  # noqa: SLF001
        for job, work in job_totals(target.account.stays.values()).items():
            merge(sums[place.kind], {job: JobSum(counters=dict(work.counters))})
        merge(sums[place.kind], {job: more.done for job, more in target.leaving.items()})
    for key, more in accounts._parked("fs"):  # noqa: SLF001
        merge(sums[key.kind], {key.job: more.done})
    flagged, incomplete = accounts.marks()
    return {
        "done": {
            kind: {job: JobWork(counters=some.counters) for job, some in jobs.items()} for kind, jobs in sums.items()
        },
        "known": {
            place: (target.tally.unread_lines, target.tally.unseen_seconds, target.tally.unplaced_reads)
            for place, target in accounts._targets.items()  # noqa: SLF001
        },
        "incomplete": incomplete,
        "flagged": flagged,
        "unnamed": accounts.unnamed,
        "final": list(_final(keeper)),
    }


def _final(keeper: Keeper) -> Iterator[dict[str, Any]]:
    """Return the records of jobs that were let go: a keeper that was just started does not know when they worked."""
    records = Records(keeper._ledger.path)  # noqa: SLF001
    return records.each({}, sort="job", limit=records.matching({}), offset=0)


def with_final(told: dict[str, Any]) -> dict[str, Any]:
    """Return totals to which the final records are added, as far as these say it: by operation."""
    done: Counter[tuple[str, bytes, str, str]] = Counter()
    for kind, jobs in told["done"].items():
        for job, work in jobs.items():
            for name, operation in operations(tuple(work.counters)).items():
                values = list(work.counters.values())
                done[kind, job, name, "samples"] += sum(values[column][0] for column in operation.columns)
                done[kind, job, name, "sum"] += sum(values[column][1] for column in operation.summed)
    incomplete = set(told["incomplete"])
    for record in told["final"]:
        job = record["job"].encode("utf-8", "surrogateescape")
        incomplete |= set() if record["complete"] else {("fs", job)}
        for kind, work in record["filesystems"].get("fs", {}).items():
            for name, counted in work["ops"].items():
                for part, amount in counted.items():
                    done[kind.upper(), job, name, part] += amount
    whole = {key: amount for key, amount in done.items() if amount}
    return {"done": whole, "incomplete": incomplete, "known": told["known"], "unnamed": told["unnamed"]}


def _serve(path: Path, site: str, pipe: Connection) -> None:
    accounts._FOLD_READS = _FOLD_READS  # type: ignore[misc] # noqa: SLF001 - so that it is killed while folding, too
    parking.park = partial(park, sure_reads=1)  # type: ignore[attr-defined] # and so that rows leave before it is over
    tick = 0
    keeper = Keeper(Ledger(path), load(site), now=lambda: tick + 1.0)
    try:
        keeper.start()
    except LedgerError as error:
        pipe.send(("refused", str(error)))
        return
    pipe.send(("started", ""))
    while True:
        asked, about = pipe.recv()
        if asked == "deliver":
            taken = delivery(about)
            tick = taken.batches[-1][1].tick_seconds
            keeper.accept(taken).add_done_callback(_Answer(pipe, (taken.agent, taken.incarnation, taken.seq)))
        elif asked == "resume":
            pipe.send(keeper.resume(*about).result(LIMIT_SECONDS))
        elif asked == "problem":
            pipe.send(keeper.problem)
        elif asked == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (about, resource.RLIM_INFINITY))
            pipe.send(None)
        elif asked == "totals":
            # in its own thread, after all that was asked before: nobody else may use the ledger
            pipe.send(keeper._errand(partial(totals, keeper)).result(LIMIT_SECONDS))  # noqa: SLF001
        elif asked == "stop":
            keeper.stop()
            pipe.send("stopped")
            return


@dataclass(slots=True)
class _Answer:
    pipe: Connection
    stream: tuple[str, bytes, int]

    def __call__(self, done: Future[None]) -> None:
        error = done.exception()
        self.pipe.send((self.stream, None if error is None else f"{type(error).__name__}: {error}"))


class KeeperProcess:
    """The process, from outside."""

    def __init__(self, path: Path, site: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(path, site, theirs))
        self._process.start()
        theirs.close()
        said, self.refusal = self.answer()
        self.started = said == "started"

    def answer(self) -> Any:  # noqa: ANN401 - whatever was asked for
        """Wait for what it says."""
        assert self.pipe.poll(LIMIT_SECONDS), "no answer"
        return self.pipe.recv()

    def ask(self, what: str, about: object = None) -> Any:  # noqa: ANN401
        """Ask something and wait for the answer."""
        self.pipe.send((what, about))
        return self.answer()

    def deliver(self, sweeps: Sequence[Sent]) -> None:
        """Hand over sweeps; each is answered when it is durable."""
        for sweep in sweeps:
            self.pipe.send(("deliver", sweep))

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it at once."""
        self._process.kill()
        self._process.join(LIMIT_SECONDS)
        self.pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
