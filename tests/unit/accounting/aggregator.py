"""The accounting's side of the tests: what messages add up to, and what could not be known."""

import pickle
from dataclasses import dataclass, field

from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.apply import Stay, Work
from harvest_core.accounting.mounts import MountState
from harvest_core.accounting.parking import JobSum, Sums, merge, park
from harvest_core.accounting.snapshots import dump, load
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.totals import JobWork, job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts
from harvest_core.wire import write
from unit.accounting.printed import DATA

SAME, NEW = "same", "new"

Sweep = list[bytes]
"""The messages of one read."""
Flag = tuple[str, tuple[int, int], str]
"""(job, (samples, bytes) in doubt, what was decided)."""


def encoded(facts: Facts) -> bytes:
    """Return facts as they cross the wire."""
    message = Batch()
    write(message, facts)
    return message.SerializeToString()


def decoded(sweep: Sweep) -> Facts:
    """Return what the messages of a read say."""
    return joined([read(Batch.FromString(message)) for message in sweep])


@dataclass(slots=True)
class Aggregator:
    """The accounting of one kind of target, and what it said."""

    accounts: dict[str, TargetAccount] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)
    unseen_seconds: int = 0
    incomplete_jobs: set[str] = field(default_factory=set)
    parked: Sums = field(default_factory=dict)

    def take(self, sweep: Sweep) -> Work:
        """Apply the messages of one read."""
        facts = decoded(sweep)
        work = self.accounts.setdefault(facts.target, TargetAccount()).apply(facts)
        for flag in work.ambiguities:
            names = [_plain(name, unit) for name, unit in flag.mount.counters]
            samples, amount = flag.amount[names.index(DATA)].tolist()
            said = NEW if flag.was_new else SAME
            self.flags.append((flag.mount.jobs[flag.row].decode("latin-1"), (samples, amount), said))
        self.unseen_seconds += work.unseen_seconds
        self.incomplete_jobs |= {name.decode("latin-1") for name in work.incomplete_jobs}
        return work

    def job(self, name: str) -> JobWork:
        """Return all that one job did."""
        sums = {job: JobSum(counters=dict(work.counters)) for job, work in job_totals(self.stays()).items()}
        merge(sums, self.parked)
        return JobWork(counters=sums.get(name.encode("latin-1"), JobSum()).counters)

    def park(self, *, sure_reads: int = 1, unsure_reads: int = 3) -> None:
        """Let rows go that may."""
        for stay in self.stays():
            merge(self.parked, park(stay, sure_reads=sure_reads, unsure_reads=unsure_reads))

    def total(self, name: str, counter: str = DATA) -> tuple[int, int]:
        """Return (samples, sum) of one counter of one job."""
        found = [
            total for (n, unit), total in self.job(name).counters.items() if _plain(n, unit) == counter or n == counter
        ]
        return found[0] if found else (0, 0)

    def stays(self) -> list[Stay]:
        """Return all stays of all targets."""
        return [stay for account in self.accounts.values() for stay in account.stays.values()]

    def state(self) -> MountState:
        """Return the state of the only stay's last mount."""
        [stay] = self.stays()
        return stay.mounts[-1][1]

    def backup(self) -> bytes:
        """Return what is durable."""
        kept = {
            name: {key: dump(stay) for key, stay in account.stays.items()} for name, account in self.accounts.items()
        }
        return pickle.dumps(kept)

    def restore(self, backup: bytes) -> None:
        """Go on from an older state."""
        kept = pickle.loads(backup)  # noqa: S301 - our own bytes of a moment ago
        self.accounts = {
            name: TargetAccount({key: load(stay) for key, stay in stays.items()}) for name, stays in kept.items()
        }


def _plain(name: str, unit: str) -> str:
    return DATA if unit == "bytes" and name in {"write", "write_bytes"} else name
