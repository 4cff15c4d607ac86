"""The agents and the aggregator of a history: the product's own code between the simulator and the accounting."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from campaign.book import Book, StayKey
from campaign.plan import PERIOD
from harvest.v1.stream_pb2 import Batch
from harvest_agent.native import Native
from harvest_agent.scan import JobScanner
from harvest_core.accounting.apply import Stay, Work, apply
from harvest_core.accounting.wire import joined, read
from harvest_core.differences import Differences
from harvest_core.facts import MDT, OST, Facts, Mount, in_one_piece
from harvest_core.lustre.columns import Codes
from harvest_core.lustre.job_stats import split_records
from harvest_core.merging import merged
from harvest_core.wire import write
from harvest_sim.lives import Life, Showing
from harvest_sim.machines import Server
from harvest_sim.reading import File
from harvest_sim.site import Site
from harvest_sim.truth import Truth

_ENGINE = Native.load(seed=1)
_BUFFER = bytearray(1 << 16)


@dataclass(slots=True)
class Sweep:
    """One target's read in a spool, and what only the simulator knows about it."""

    facts: Facts
    target: str
    messages: list[bytes]
    shown: list[Showing]
    was_accepted: bool
    lives: dict[int, int]
    """The true life behind each slot."""


@dataclass(slots=True)
class _Followed:
    mount: tuple[object, ...]
    scanner: JobScanner
    differences: Differences


class SimAgent:
    """An agent on one simulated server."""

    def __init__(self, site: Site, server: Server, rng: Random) -> None:
        self._site = site
        self._server = server
        self._rng = rng
        self.spool: list[Sweep] = []
        self.sent: list[Sweep] = []
        """Acknowledged segments stay for a while: a restored aggregator may want them again."""
        self.restart()

    def restart(self) -> None:
        """Start again: another incarnation, the spool as it was."""
        self.incarnation = self._rng.randbytes(16)
        self.seq = 0
        self.codes = Codes()
        self._followed: dict[str, _Followed] = {}
        self._seen_gone: set[str] = set()

    def sweep(self, tick_seconds: int, between: Callable[[str], None], *, cut: set[str]) -> None:
        """Read every target of the server; ``between`` happens between two pieces of a file."""
        self.seq += 1
        files = self._site.files(self._server.name)
        mounted = self._site.targets_on(self._server.name)
        self._seen_gone |= self._followed.keys() - set(mounted)
        for target in mounted:
            sweep = self._read(target, files, tick_seconds, between, is_cut=target in cut)
            if sweep is not None:
                self.spool.append(sweep)

    def _read(
        self, target: str, files: Mapping[str, File], tick: int, between: Callable[[str], None], *, is_cut: bool
    ) -> Sweep | None:
        mounted = self._site.mounted(target)
        scope = mounted.scope
        paths = {path.rpartition("/")[2]: path for path in files if f"/{target}/" in path and "/exports/" not in path}
        try:
            instance = int(files[paths["instance"]].read()) if "instance" in paths else None
            interval = int(files[paths["job_cleanup_interval"]].read())
            reader = files[paths["job_stats"]].open(hold=True)
        except OSError:
            return None
        key = (self._server.boot_id, instance)
        followed = self._followed.get(target)
        if followed is None or followed.mount != key or target in self._seen_gone:
            assert _ENGINE is not None
            followed = _Followed(key, JobScanner(_ENGINE, _BUFFER, self.codes), Differences(self.codes))
            self._followed[target] = followed
        seen: list[bytes] = []
        texts: dict[bytes, Life] = {}
        table = mounted.jobs
        pieces = 0

        def read_into(view: memoryview) -> int:
            nonlocal pieces
            pieces += 1
            if is_cut and pieces > 1:
                raise OSError(5, "cut")
            if pieces > 1:
                between(target)
            piece = reader.read(len(view))
            texts.update((table.record_text(record), record.life) for record in table.records.values())
            view[: len(piece)] = piece
            seen.append(piece)
            return len(piece)

        facts = Facts(
            incarnation=self.incarnation,
            seq=self.seq,
            tick_seconds=tick,
            period_seconds=PERIOD,
            kind=OST if "OST" in target else MDT,
            target=target,
            mount=Mount(server=self._server.name, boot_id=self._server.boot_id, instance=instance),
            complete=True,
            read_at=self._server.clock.wall_ns(),
            uptime=self._server.clock.boot_ns(),
            lustre_version=scope.version.numbers,
            cleanup_interval_seconds=interval,
            directory_gone=target in self._seen_gone,
        )
        parts = list(followed.differences.facts(facts, followed.scanner.read(read_into), followed.scanner))
        records = [len(piece) for piece in split_records(b"".join(seen)) if piece.startswith(b"- job_id:")]
        parts[-1][0].in_one_piece = in_one_piece([len(piece) for piece in seen], max(records, default=0))
        self._seen_gone.discard(target)
        shown = list(reader.delivered)
        after = self._site.targets[target].mounted
        reader.close()
        if after is not mounted:  # remounted meanwhile: the read is dropped
            del self._followed[target]
            return None
        return Sweep(
            facts=parts[-1][0],
            target=target,
            messages=[encoded(part, last=last) for part, last in parts],
            shown=shown,
            was_accepted=False,
            lives=_lives(followed.scanner, b"".join(seen), texts),
        )

    def merge_spool(self) -> None:
        """Merge what is in the spool, because it is full."""
        by_stay: dict[tuple[str, bytes], list[Sweep]] = {}
        for sweep in self.spool:
            by_stay.setdefault((sweep.target, sweep.facts.incarnation), []).append(sweep)
        self.spool = []
        for sweeps in by_stay.values():
            thin = merged([joined([read(Batch.FromString(m)) for m in sweep.messages]) for sweep in sweeps])
            for sweep, facts in zip(sweeps, thin, strict=True):
                sweep.messages = [encoded(facts, last=True)]
            self.spool += sweeps
        self.spool.sort(key=lambda sweep: sweep.facts.tick_seconds)


def encoded(facts: Facts, *, last: bool) -> bytes:
    """Return facts as they cross the wire."""
    message = Batch()
    write(message, facts, last_of_target=last, last_of_sweep=last)
    return message.SerializeToString()


def _lives(scanner: JobScanner, text: bytes, texts: dict[bytes, Life]) -> dict[int, int]:
    """Match the slots of a read, in file order, with the lives whose text it was."""
    records = [piece for piece in split_records(text) if piece.startswith(b"- job_id:")]
    return {
        slot: texts[record.removesuffix(b"job_stats:\n")].number
        for slot, record in zip(scanner.order, records, strict=False)
        if record.removesuffix(b"job_stats:\n") in texts
    }


@dataclass(slots=True)
class Applied:
    """What came of one target's read."""

    key: StayKey
    facts: Facts
    work: Work


class Ledger:
    """What an aggregator has made durable: its state now and then, and every batch since."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.stays: dict[StayKey, Stay] = {}
        self.book = Book()
        """The simulator's side of the state: it goes back with it."""
        self._snapshot = self._frozen()
        self._backup = self._snapshot
        self._since_snapshot: list[Sweep] = []

    def accept(self, sweep: Sweep) -> Applied:
        """Make a target's read durable, then apply it."""
        self._since_snapshot.append(sweep)
        return self._apply(sweep)

    def _apply(self, sweep: Sweep) -> Applied:
        facts = joined([read(Batch.FromString(message)) for message in sweep.messages])
        key = (facts.target, facts.mount.server, facts.mount.boot_id)
        stay = self.stays.setdefault(key, Stay())
        done = Applied(key, facts, apply(stay, facts))
        if done.work.mount is not None:
            self.book.note(done, stay, sweep.lives, self._truth)
        return done

    def fold(self) -> None:
        """Write a snapshot and drop the batches before it."""
        self._snapshot = self._frozen()
        self._since_snapshot = []

    def restart(self) -> None:
        """Die and recover: the snapshot, then the batches after it."""
        self._thaw(self._snapshot)
        for sweep in self._since_snapshot:
            self._apply(sweep)

    def keep_backup(self) -> None:
        """Make a backup."""
        self._backup = self._frozen()

    def restore(self) -> None:
        """Come back from an old backup: agents will be asked for everything since."""
        self._thaw(self._backup)
        self.fold()

    def _frozen(self) -> bytes:
        return pickle.dumps((self.stays, self.book))

    def _thaw(self, frozen: bytes) -> None:
        self.stays, self.book = pickle.loads(frozen)  # noqa: S301 - our own bytes of a moment ago
