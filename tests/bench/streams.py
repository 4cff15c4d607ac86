"""What a million moved records cost an aggregator that runs, through mTLS streams; and how it comes back if killed."""

import contextlib
import math
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import OK
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from bench.accounting_sweeps import OPS
from bench.report import Budget, Measured, say, table
from bench.workers import Worker, WorkerError, cpu_seconds, peak_rss_mb
from harvest_aggregator.limits import allow_open_files
from support.processes import Running, running, wait_for

_ASK_SECONDS = 0.1
_SHOWN_SECONDS = 60
_SITE = """
interval: 21s
deadline: 20s  # so late that every sweep is closed by its last report
filesystems: [{{name: bench, servers: ['oss[1-{agents}]']}}]
"""
_RECOVERY_SECONDS = 300.0
_SENDERS = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A site whose every record moves in every sweep."""

    agents: int
    targets: int
    """Of each agent."""
    jobs: int
    """On each target."""
    sweeps: int
    asked: int
    """Sweeps after those, during which the API is asked."""

    @property
    def records(self) -> int:
        """How many there are."""
        return self.agents * self.targets * self.jobs


CASES = (
    Case(agents=100, targets=2, jobs=5000, sweeps=50, asked=15),
    Case(agents=500, targets=1, jobs=2000, sweeps=50, asked=15),
)


@dataclass(frozen=True, slots=True)
class _Found:
    sweeps: Sequence[float]
    """CPU seconds of each."""
    size: int
    """Bytes on the wire of the last."""
    answers: Sequence[float]
    """Seconds that each answer of the API took."""
    empty_bytes: int
    """Memory before the first agent came."""
    memory: int
    """What the records need, in bytes."""
    peak_mb: float
    recovery: float
    recovery_cpu: float


def measure(folder: Path) -> Measured:
    """Measure a few agents with many records each, and many with a few."""
    allow_open_files()
    rows, budgets = [], []
    for case in CASES:
        say(f"streams: {case.records} records of {case.agents} agents, {case.sweeps + case.asked} sweeps")
        place = folder / f"{case.agents}"
        place.mkdir()
        found = _measured(place, case)
        rows.append(
            (
                f"{case.agents} agents, {case.agents * case.targets} targets with {case.jobs} jobs each",
                *(f"{mean(found.sweeps):.2f}", f"{median(found.sweeps):.2f}", f"{found.size / 1e6:.0f}"),
                *(
                    f"{1e3 * median(found.answers):.0f} / {1e3 * max(found.answers):.0f}",
                    f"{found.empty_bytes / 1e6:.0f}",
                ),
                f"{found.peak_mb:.0f}",
                *(f"{found.memory / case.records:.0f}", f"{found.recovery:.1f} / {found.recovery_cpu:.1f}"),
            )
        )
        what = f"streams, {case.agents} agents"
        budgets += [
            Budget(what=f"{what}: CPU of a sweep, all included", limit=1, measured=mean(found.sweeps), unit=" s"),
            Budget(what=f"{what}: slowest answer meanwhile", limit=200, measured=1e3 * max(found.answers), unit=" ms"),
            Budget(what=f"{what}: memory per OST record", limit=1000, measured=found.memory / case.records, unit=" B"),
            Budget(what=f"{what}: recovery after SIGKILL", limit=60, measured=found.recovery, unit=" s"),
        ]
    head = (
        *("a site", "a sweep, CPU s: mean", "median", "MB on the wire", "answer, ms: median / slowest"),
        *("RSS without agents, MB", "peak RSS, MB", "bytes of memory per record", "recovery, s / CPU s"),
    )
    text = f"## Streams: {CASES[0].records} moved records of {len(OPS)} counters a sweep\n\n" + table(head, rows)
    return Measured(markdown=text, budgets=budgets)


def _measured(folder: Path, case: Case) -> _Found:
    with running(folder, site=_SITE.format(agents=case.agents)) as aggregator:
        empty = aggregator.resident_bytes()
        with _senders(aggregator, case) as senders:
            sweeps = _Sweeps(aggregator, senders, case)
            sweeps.take(2)  # all names are new in the first, and all memory
            memory = aggregator.resident_bytes() - empty
            costs = sweeps.take(case.sweeps)
            with _answers(aggregator) as answers:
                sweeps.take(case.asked)
            sweeps.check()
            peak = peak_rss_mb(aggregator.process.pid)
            aggregator.process.send_signal(signal.SIGKILL)
            aggregator.process.wait()
        begin = time.monotonic()
        aggregator.start(seconds=_RECOVERY_SECONDS)
        recovery, recovery_cpu = time.monotonic() - begin, cpu_seconds(aggregator.process.pid)
        wait_for(lambda: aggregator.get("api/v1/jobs")[1]["shown"], "totals", seconds=_SHOWN_SECONDS)
        sweeps.check_totals()
    return _Found(costs, sweeps.size, answers, empty, memory, peak, recovery, recovery_cpu)


@contextlib.contextmanager
def _senders(aggregator: Running, case: Case) -> Iterator[list[Worker]]:
    """Run the agents, in processes beside the aggregator's."""
    share = math.ceil(case.agents / _SENDERS)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                Worker.python(
                    "bench.stream_senders",
                    *(aggregator.address, aggregator.ca.path, str(first), str(min(first + share - 1, case.agents))),
                    *(str(case.targets), str(case.jobs)),
                )
            )
            for first in range(1, case.agents + 1, share)
        ]


class _Sweeps:
    """Sweep after sweep of all agents."""

    def __init__(self, aggregator: Running, senders: Sequence[Worker], case: Case) -> None:
        self._aggregator = aggregator
        self._senders = senders
        self._case = case
        self._count = 0
        self.size = 0

    def take(self, count: int) -> list[float]:
        """Have sweeps sent, and return the CPU seconds of each: from its tick to the next, folding included."""
        marks = []
        for _ in range(count):
            tick = _next_second()
            marks.append(cpu_seconds(self._aggregator.process.pid))
            for sender in self._senders:
                sender.tell(str(tick))
            said = [sender.heard() for sender in self._senders]
            if sum(one["acked"] for one in said) != self._case.agents:
                raise WorkerError(f"not all sweeps were acknowledged: {said}")
            self._count += 1
            self.size = sum(one["bytes"] for one in said)
        _next_second()
        marks.append(cpu_seconds(self._aggregator.process.pid))
        return [after - before for before, after in pairwise(marks)]

    def check(self) -> None:
        """See that every sweep was closed with all its targets, and that totals are exact."""
        found = _fetched(f"{self._aggregator.url}metrics").splitlines()
        for line in (f"harvest_sweeps_closed_total {self._count:.1f}", "harvest_reports_missing_total 0.0"):
            if line not in found:
                raise WorkerError(f"the metrics do not say: {line}")
        self.check_totals()

    def check_totals(self) -> None:
        """See that totals are exact: those of the last job, which has done the same everywhere."""
        targets = self._case.agents * self._case.targets
        job = self._case.jobs - 1
        samples = 1000 * self._count + job * len(OPS) % 97
        total = sum((samples + target) << 20 for target in range(targets))
        status, said = self._aggregator.get(f"api/v1/jobs/-/{1_200_000 + job}")
        if status != OK or said["filesystems"]["bench"]["ost"]["read_bytes"] != total:
            raise WorkerError(f"{total} bytes were read, but the API says: {said}")


def _fetched(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own
        text: bytes = answer.read()
    return text.decode()


def _next_second() -> int:
    """Wait for the next full second and return it."""
    tick = math.ceil(time.time())
    time.sleep(max(tick - time.time(), 0))
    return tick


@contextlib.contextmanager
def _answers(aggregator: Running) -> Iterator[list[float]]:
    """Ask for the jobs again and again; what is yielded has the seconds of each answer."""
    seconds: list[float] = []
    over = threading.Event()

    question = f"{aggregator.url}api/v1/jobs"

    def ask() -> None:
        while not over.wait(_ASK_SECONDS):
            begin = time.monotonic()
            _fetched(question)
            seconds.append(time.monotonic() - begin)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield seconds
    finally:
        over.set()
        asking.join()
