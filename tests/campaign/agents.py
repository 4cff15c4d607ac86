"""The agents and the aggregator of a history: the product's own code between the simulator and the accounting."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from campaign.book import Book, StayKey
from campaign.damage import damaged, without
from campaign.details import Details, details_of
from campaign.plan import PERIOD
from harvest.v1.stream_pb2 import Batch
from harvest_agent.native import Native
from harvest_agent.scan import JobScanner
from harvest_core import differences
from harvest_core.accounting.apply import Stay, Work
from harvest_core.accounting.parking import Sums, merge, park
from harvest_core.accounting.snapshots import dump, load
from harvest_core.accounting.targets import TargetAccount
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
_BUFFER = bytearray(1 << 14)
_UNSURE_READS = 6
"""In no history is a record skipped so often in a row."""


@dataclass(slots=True)
class Sweep:
    """One target's read in a spool, and what only the simulator knows about it."""

    facts: Facts
    target: str
    messages: list[bytes]
    shown: list[Showing]
    was_accepted: bool
    read_ns: int
    """The true time."""
    lives: dict[int, int]
    """The true life behind each slot."""
    details: dict[int, Details]
    """Of each life."""


@dataclass(slots=True)
class _Followed:
    mount: tuple[object, ...]
    scanner: JobScanner
    differences: Differences


class SimAgent:
    """An agent on one simulated server."""

    def __init__(self, site: Site, server: Server, rng: Random, part_records: int) -> None:
        self._site = site
        self.server = server
        self._rng = rng
        self._part_records = part_records
        self.spool: list[Sweep] = []
        self.sent: list[Sweep] = []
        """Acknowledged segments stay for a while: a restored aggregator may want them again."""
        self._read_ns = 0
        self._detailed: dict[int, tuple[int, Details]] = {}
        self.restart()

    def restart(self) -> None:
        """Start again: another incarnation, the spool as it was."""
        self.incarnation = self._rng.randbytes(16)
        self.seq = 0
        self.codes = Codes()
        self._followed: dict[str, _Followed] = {}
        self._seen_gone: set[str] = set()

    def due_ns(self) -> int:
        """Return the true time of the next read: when the server's wall clock comes to a multiple of the period."""
        clock, period_ns = self.server.clock, PERIOD * 10**9
        earliest = max(self._read_ns + 1, self._site.now_ns) + clock.wall_offset_ns
        return -(-earliest // period_ns) * period_ns - clock.wall_offset_ns

    def sweep(self, between: Callable[[str], None], *, cut: set[str], bad: set[str], is_running: bool) -> None:
        """Read every target of the server; ``between`` happens between two pieces of a file."""
        tick_seconds = self.server.clock.wall_ns() // 10**9
        self._read_ns = self._site.now_ns
        if not is_running:
            return
        self.seq += 1
        files = self._site.files(self.server.name)
        mounted = self._site.targets_on(self.server.name)
        self._seen_gone |= self._followed.keys() - set(mounted)
        for target in mounted:
            sweep = self._read(target, files, tick_seconds, between, is_cut=target in cut, is_bad=target in bad)
            cut.discard(target)
            bad.discard(target)
            if sweep is not None:
                self.spool.append(sweep)

    def _read(
        self,
        target: str,
        files: Mapping[str, File],
        tick: int,
        between: Callable[[str], None],
        *,
        is_cut: bool,
        is_bad: bool,
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
        key = (self.server.boot_id, instance)
        followed = self._followed.get(target)
        if followed is None or followed.mount != key or target in self._seen_gone:
            assert _ENGINE is not None
            followed = _Followed(key, JobScanner(_ENGINE, _BUFFER, self.codes), Differences(self.codes))
            self._followed[target] = followed
        seen: list[bytes] = []
        texts: dict[bytes, Life] = {}
        details: dict[bytes, Details] = {}
        table = mounted.jobs
        pieces = 0
        spoilt: dict[int, str] = {}

        def read_into(view: memoryview) -> int:
            nonlocal pieces
            pieces += 1
            if is_cut and pieces > 1:
                raise OSError(5, "cut")
            if pieces > 1:
                between(target)
            piece = reader.read(len(view))
            for record in table.records.values():
                text = table.record_text(record)
                if text not in texts:
                    texts[text] = record.life
                    details[text] = self._details(record.life)
            if is_bad and not spoilt:
                piece = self._spoil(piece, texts, details, spoilt)
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
            mount=Mount(server=self.server.name, boot_id=self.server.boot_id, instance=instance),
            complete=True,
            read_at=self.server.clock.wall_ns(),
            uptime=self.server.clock.boot_ns(),
            lustre_version=scope.version.numbers,
            cleanup_interval_seconds=interval,
            directory_gone=target in self._seen_gone,
        )
        differences.PART_RECORDS = self._part_records
        parts = list(followed.differences.facts(facts, followed.scanner.read(read_into), followed.scanner))
        records = [len(piece) for piece in split_records(b"".join(seen)) if piece.startswith(b"- job_id:")]
        parts[-1].in_one_piece = in_one_piece([len(piece) for piece in seen], max(records, default=0))
        self._seen_gone.discard(target)
        shown = [self._as_read(showing, spoilt) for showing in reader.delivered]
        after = self._site.targets[target].mounted
        reader.close()
        if after is not mounted:  # remounted meanwhile: the read is dropped
            del self._followed[target]
            return None
        behind = _behind(followed.scanner, b"".join(seen), texts)
        return Sweep(
            facts=parts[-1],
            target=target,
            messages=[encoded(part) for part in parts],
            shown=shown,
            was_accepted=False,
            read_ns=self._site.now_ns,
            lives={slot: texts[text].number for slot, text in behind.items()},
            details={texts[text].number: details[text] for text in behind.values()},
        )

    def _spoil(
        self, piece: bytes, texts: dict[bytes, Life], details: dict[bytes, Details], spoilt: dict[int, str]
    ) -> bytes:
        """Damage a line of a record in this piece, if there is one that counted anything."""
        for text, life in list(texts.items()):
            change = damaged(text, self._rng) if text in piece else None
            if change is not None:
                texts[change[0]], details[change[0]] = life, details[text]
                spoilt[life.number] = change[1]
                return piece.replace(text, change[0])
        return piece

    def _as_read(self, showing: Showing, spoilt: dict[int, str]) -> Showing:
        life = showing[0]
        if life.number not in spoilt:
            return showing
        shown = [*life.shown, *(shown for sweep in self.spool for one, shown in sweep.shown if one is life)]
        return without(showing, spoilt[life.number], shown[-1] if shown else None)

    def _details(self, life: Life) -> Details:
        known = self._detailed.get(life.number)
        if known is None or known[0] != life.revision:
            known = self._detailed[life.number] = (life.revision, details_of(life))
        return known[1]

    def merge_spool(self) -> int:
        """Merge what is in the spool, because it is full; return how many values went."""
        gone = 0
        by_stay: dict[tuple[str, bytes], list[Sweep]] = {}
        for sweep in self.spool:
            by_stay.setdefault((sweep.target, sweep.facts.incarnation), []).append(sweep)
        for sweeps in by_stay.values():
            whole = [joined([read(Batch.FromString(m)) for m in sweep.messages]) for sweep in sweeps]
            for sweep, before, facts in zip(sweeps, whole, merged(whole), strict=True):
                sweep.messages = [encoded(facts)]
                gone += len(before.moved.slot) - len(facts.moved.slot)
        return gone


def encoded(facts: Facts) -> bytes:
    """Return facts as they cross the wire."""
    message = Batch()
    write(message, facts)
    return message.SerializeToString()


def _behind(scanner: JobScanner, text: bytes, texts: dict[bytes, Life]) -> dict[int, bytes]:
    """Match the slots of a read, in file order, with the text of the record behind each."""
    records = [piece for piece in split_records(text) if piece.startswith(b"- job_id:")]
    return {
        slot: record.removesuffix(b"job_stats:\n")
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

    def __init__(self, truth: Truth, book: Book | None = None) -> None:
        self._truth = truth
        self.targets: dict[str, TargetAccount] = {}
        self.parked: dict[str, Sums] = {}
        """By target: what rows added up to that have left."""
        self.recoveries = 0
        self.book = Book() if book is None else book
        """The simulator's side of the state: it goes back with it."""
        self._snapshot = self._frozen()
        self._backup = self._snapshot
        self._shown_then: dict[int, int] = {}
        self._since_snapshot: list[Sweep] = []

    def accept(self, sweep: Sweep) -> Applied:
        """Make a target's read durable, then apply it."""
        self._since_snapshot.append(sweep)
        return self._apply(sweep)

    def _apply(self, sweep: Sweep) -> Applied:
        facts = joined([read(Batch.FromString(message)) for message in sweep.messages])
        key = (facts.target, facts.mount.boot_id)
        target = self.targets.setdefault(facts.target, TargetAccount())
        done = Applied(key, facts, target.apply(facts))
        if done.work.mount is not None:
            self.book.note(done, target.stays[facts.mount.boot_id], sweep.lives, self._truth)
            self.book.details |= sweep.details
            self.book.unseen.note(facts, done.work, sweep.lives, sweep.read_ns)
        return done

    def fold(self) -> None:
        """Write a snapshot and drop the batches before it."""
        self._snapshot = self._frozen()
        self._since_snapshot = []

    def park(self) -> int:
        """Let rows go of which nothing can come back, as early as may be, and write a snapshot; return how many."""
        left = 0
        for (target, boot_id), stay in self.stays.items():
            before = [dict(state.rows) for _, state in stay.mounts]
            merge(self.parked.setdefault(target, {}), park(stay, sure_reads=1, unsure_reads=_UNSURE_READS))
            for number, ((_, state), rows) in enumerate(zip(stay.mounts, before, strict=True)):
                left += len(rows) - len(state.rows)
                new_row = {row: state.rows[name] for name, row in rows.items() if name in state.rows}
                self.book.renumber(((target, boot_id), number), new_row)
        self.fold()
        return left

    def restart(self) -> None:
        """Die and recover: the snapshot, then the batches after it."""
        self._thaw(self._snapshot)
        for sweep in self._since_snapshot:
            self._apply(sweep)

    def keep_backup(self) -> None:
        """Make a backup."""
        self._backup = self._frozen()
        self._shown_then = self._shown()

    def restore(self) -> None:
        """Come back from an old backup: agents will be asked for everything since."""
        self._thaw(self._backup)
        self.fold()

    def forget_what_was_shown(self) -> None:
        """Take back what was shown since the backup: nobody has it any more."""
        for life in self._truth.lives:
            del life.shown[self._shown_then.get(life.number, 0) :]

    def _shown(self) -> dict[int, int]:
        return {life.number: len(life.shown) for life in self._truth.lives if life.shown}

    @property
    def stays(self) -> dict[StayKey, Stay]:
        """All stays of all targets."""
        return {(name, key): stay for name, target in self.targets.items() for key, stay in target.stays.items()}

    def _frozen(self) -> bytes:
        """Return all there is, the accounting's part as the product writes it."""
        targets = {
            name: ({key: dump(stay) for key, stay in target.stays.items()}, target.seen_after_all_seconds)
            for name, target in self.targets.items()
        }
        return pickle.dumps((targets, self.parked, self.book))

    def _thaw(self, frozen: bytes) -> None:
        self.recoveries += 1
        targets, self.parked, self.book = pickle.loads(frozen)  # noqa: S301 - our own bytes of a moment ago
        self.targets = {
            name: TargetAccount(
                {key: load(payload) for key, payload in stays.items()}, seen_after_all_seconds=seen_after_all
            )
            for name, (stays, seen_after_all) in targets.items()
        }
