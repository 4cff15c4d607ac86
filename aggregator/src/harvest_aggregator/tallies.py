"""What could not be known, read or placed of one target, since ever. Kept beside its snapshots."""

import json
from dataclasses import asdict, dataclass, field

from harvest_aggregator.published import InDoubt, Unknown
from harvest_core.accounting.apply import Work
from harvest_core.facts import Facts


@dataclass(slots=True)
class Tally:
    """Grows with what is applied; the same numbers come out of recovery."""

    unread_lines: int = 0
    unseen_seconds: int = 0
    seen_after_all_seconds: int = 0
    """What the target's account would take off the next unseen seconds."""
    ambiguous_resets: int = 0
    ambiguous_bytes: int = 0
    unplaced_reads: int = 0
    flagged: dict[bytes, InDoubt] = field(default_factory=dict)
    incomplete: set[bytes] = field(default_factory=set)

    def add(self, facts: Facts, work: Work) -> bool:
        """Count what one read left open; tell whether jobs were marked."""
        self.unread_lines += facts.unread_lines
        self.unseen_seconds += work.unseen_seconds
        self.incomplete.update(work.incomplete_jobs)
        for doubt in work.ambiguities:
            job = doubt.mount.jobs[doubt.row]
            amount = int(doubt.amount[doubt.mount.in_bytes[: len(doubt.amount)], 1].sum())
            this = InDoubt(resets=1, bytes=amount, samples=int(doubt.amount[:, 0].sum()))
            self.flagged[job] = self.flagged.get(job, InDoubt()).plus(this)
            self.ambiguous_resets += 1
            self.ambiguous_bytes += amount
        return bool(work.ambiguities or work.incomplete_jobs)

    @property
    def unknown(self) -> Unknown:
        """Return what of it concerns clients."""
        return Unknown(self.unread_lines, self.ambiguous_resets, self.ambiguous_bytes, self.unplaced_reads)

    def dump(self) -> bytes:
        """Return it as bytes."""
        fields = asdict(self)
        fields["flagged"] = {job.decode("latin-1"): all_ for job, all_ in self.flagged.items()}
        fields["incomplete"] = sorted(job.decode("latin-1") for job in self.incomplete)
        return json.dumps(fields).encode()

    @classmethod
    def load(cls, payload: bytes) -> "Tally":
        """Return what was dumped."""
        fields = json.loads(payload)
        fields["flagged"] = {job.encode("latin-1"): InDoubt(*all_) for job, all_ in fields["flagged"].items()}
        fields["incomplete"] = {job.encode("latin-1") for job in fields["incomplete"]}
        return cls(**fields)
