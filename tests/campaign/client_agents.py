"""The agents of a history of clients: the product's own rounds through the files of the simulator."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import cast

from typing_extensions import override

from campaign.agents import Applied, Ledger, SimAgent, Sweep, encoded
from campaign.client_book import ClientBook, Seen
from harvest.v1.stream_pb2 import Batch
from harvest_agent.client_rounds import ClientRounds
from harvest_agent.tree import TargetFiles
from harvest_core import differences
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import OST, Facts, Mount
from harvest_core.lustre.columns import nanoseconds
from harvest_core.lustre.names import parse_uuids
from harvest_core.lustre.stats import parse_stats
from harvest_sim.lives import Life, Shown
from harvest_sim.machines import Server
from harvest_sim.ops import Kind
from harvest_sim.places import places
from harvest_sim.reading import File
from harvest_sim.site import Site
from harvest_sim.truth import Truth

_STEP_NS = 4 * 10**9
"""Between two looks at what is due: the product's second would only make histories slower."""
_LINE = re.compile(rb"^(\w+) +([0-9]+) samples \[\w+\](?: [0-9]+ [0-9]+ ([0-9]+).*)?\n", re.MULTILINE)
_NONSENSE = (b"-5", b"9223372036854775807")


@dataclass(slots=True)
class ClientSweep(Sweep):
    """What was told of one target's clients, and what only the simulator knows about it."""

    seen: dict[bytes, Seen]
    """By NID: whose files were read in this pass."""
    told_ns: int
    segment: int
    """Of the spool; it names all that it uses."""
    looked_ns: int
    """When it was last asked whether the target counted anything; of a pass in which nothing was read."""
    is_baseless: bool = False
    """What was told before it, and is not repeated, is lost."""


class SimTarget:
    """A mounted target as a sweep finds it: the product's ``TargetFiles``, over the simulator's files."""

    def __init__(self, agent: "ClientAgent", name: str) -> None:
        self.source = "obdfilter" if OST in name else "mdt"
        self.name = name
        self.unreadable: dict[str, str] = {}
        self.seen: dict[bytes, Seen] = {}
        """What counts of what was read in the pass that began with this sweep."""
        self.looked_ns = 0
        """When it was last seen that the target itself has counted nothing, or something."""
        self._some: dict[bytes, Seen] = {}
        """Since it was last asked whether the target was remounted."""
        self._agent = agent
        self.instance: int | None = None
        self.instance = self.number("instance")

    def _path(self, place: str, name: str) -> str:
        where = places(self._agent.server.version, self._agent.kind(self.name))
        return f"{getattr(where, place)}/{self.source}/{self.name}/{name}"

    def file(self, name: str) -> str | None:
        """Return where the target's own counters are; asked for when a pass begins."""
        self._agent.passes[self.name] = self
        path = self._path("stats", name)
        return path if path in self._agent.files() else None

    def number(self, name: str) -> int | None:
        """Return what a file says that holds one number: asked after every few files, whether they count."""
        file = self._agent.files().get(self._path("target_parameters", name))
        number = None if file is None else int(file.read())
        if number is None or number == self.instance:
            self.seen |= self._some
        self._some = {}
        return number

    def is_gone(self, path: str) -> bool:
        """Tell whether a file is not there any more."""
        return path not in self._agent.files()

    def exports(self, *, or_fail: bool) -> Iterator[tuple[str, str]]:
        """Yield (NID, folder) of each client."""
        assert or_fail
        folder = self._path("exports", "exports")
        depth = folder.count("/") + 2
        found = [path for path in self._agent.files() if path.startswith(folder) and path.endswith("/stats")]
        for path in sorted(path for path in found if path.count("/") == depth):
            whole = path.removesuffix("/stats")
            yield whole.rpartition("/")[2], whole

    def read(self, path: str) -> bytes | None:
        """Read a file; while files of clients are read, things happen."""
        is_client = "/exports/" in path
        if is_client and path.endswith("/stats"):
            self._agent.between(self.name)
        file = self._agent.files().get(path)
        if file is None:
            return None
        reader = file.open(hold=True)
        text = reader.read_all()
        if not is_client:
            self.looked_ns = self._agent.now_ns
            return text
        nid = path.split("/")[-2].encode()
        if path.endswith("/uuid"):
            self._some[nid].uuids = tuple(parse_uuids(text))
            return text
        life = self._agent.life_of(self.name, nid)
        seen = Seen(life=life.number, start=nanoseconds(parse_stats(text).start_time), read_ns=self._agent.now_ns)
        text = self._agent.spoilt(self.name, text, life, seen)
        values = tuple((index, counter.samples, counter.total) for index, counter in life.counters.items())
        seen.shown = [Shown(self._agent.now_ns, life.revision, values)]
        self._some[nid] = seen
        return text


class ClientAgent(SimAgent):
    """An agent on one simulated server that follows its targets' clients."""

    def __init__(self, site: Site, server: Server, rng: Random, part_records: int, interval_seconds: int) -> None:
        self._interval_seconds = interval_seconds
        self._next_ns = 0
        self.between: Callable[[str], None] = lambda _: None
        self.bad: set[str] = set()
        self._segment = 0
        self.untold: list[str] = []
        """Targets of whose clients nothing was told for longer than their period, though nothing kept it from that."""
        super().__init__(site, server, rng, part_records)

    @override
    def restart(self) -> None:
        super().restart()
        self._still_until_ns = 0
        self._segment += 1
        self.passes: dict[str, SimTarget] = {}
        self._told_ns: dict[tuple[object, ...], int] = {}
        """By target, mount and clock: when its clients were last told."""
        self._rounds = ClientRounds(lambda: self._site.now_ns / 10**9)
        self.want(is_wanted=True)

    def want(self, *, is_wanted: bool) -> None:
        """Be told whether anybody wants to know about clients."""
        self._is_wanted = is_wanted
        names = {target.fs for target in self._site.targets.values()} if is_wanted else ()
        self._rounds.want(dict.fromkeys(names, self._interval_seconds))

    def stand_still(self, seconds: float) -> None:
        """Do nothing for so long, and then go on as if nothing had been; in the midst of whatever was under way."""
        self._still_until_ns = self._site.now_ns + round(seconds * 10**9)

    @property
    def now_ns(self) -> int:
        """The true time."""
        return self._site.now_ns

    def files(self) -> dict[str, File]:
        """Return the server's files as they are now."""
        return cast("dict[str, File]", self._site.files(self.server.name))

    def kind(self, target: str) -> Kind:
        """Return what kind of target it is."""
        return self._site.targets[target].kind

    def life_of(self, target: str, nid: bytes) -> Life:
        """Return the true life behind the file of a client."""
        return self._site.mounted(target).exports.stats[nid.decode()].life

    @override
    def due_ns(self) -> int:
        """Return the true time when it next does anything: a sweep, or some files before it."""
        if self._still_until_ns:
            return self._still_until_ns
        sweep_ns = super().due_ns()
        return min(sweep_ns, self._next_ns) if self._next_ns else sweep_ns

    def act(self, between: Callable[[str], None], *, bad: set[str], is_running: bool) -> None:
        """Do what is due now."""
        self.between, self.bad = between, bad
        if self._still_until_ns:
            self._still_until_ns, self._told_ns = 0, {}
        is_sweep = super().due_ns() == self._site.now_ns
        if is_sweep:
            self._read_ns = self._site.now_ns
        if is_running and is_sweep:
            self._tell()
        if is_running:
            self._rounds.read()
        else:
            self._told_ns = {}
        waits = is_running and self._rounds.wait_seconds is not None
        self._next_ns = self._site.now_ns + _STEP_NS if waits else 0

    def _tell(self) -> None:
        self.seq += 1
        differences.PART_RECORDS = self._part_records
        if self._rng.random() < 0.2:  # a segment of the spool is full
            self._rounds.begin_segment()
            self._segment += 1
        mounted = {}
        for name in self._site.targets_on(self.server.name):
            target = SimTarget(self, name)
            mount = Mount(server=self.server.name, boot_id=self.server.boot_id, instance=target.instance)
            mounted[target.source, name] = (cast("TargetFiles", target), mount)
        parts: list[Facts] = []
        told = set()
        for facts in self._rounds.sweep(self._about(), mounted):
            parts.append(facts)
            if facts.is_last_part:
                self.spool.append(self._told(parts))
                told.add(facts.target)
                parts = []
        self._check_period(told)

    def _check_period(self, told: set[str]) -> None:
        """Note whose clients should have been in this sweep, if its mount and clock are those of the last time."""
        before, self._told_ns = self._told_ns, {}
        for target in self._site.targets_on(self.server.name) if self._is_wanted else ():
            key = (target, id(self._site.mounted(target)), self.server.clock.wall_offset_ns)
            due_ns = before.get(key, self._site.now_ns) + self._interval_seconds * 10**9
            if self._site.now_ns > due_ns or (self._site.now_ns == due_ns and target not in told):
                self.untold.append(f"{target} was due at {due_ns}, and not told at {self._site.now_ns}")
            if target in told or key in before:
                self._told_ns[key] = self._site.now_ns if target in told else before[key]

    def _about(self) -> Facts:
        return Facts(
            incarnation=self.incarnation,
            seq=self.seq,
            tick_seconds=self.server.clock.wall_ns() // 10**9,
            period_seconds=20,
            kind=OST,
            target="",
            mount=Mount(server=self.server.name, boot_id=self.server.boot_id, instance=None),
            complete=True,
            read_at=self.server.clock.wall_ns(),
            uptime=self.server.clock.boot_ns(),
            lustre_version=(),
            cleanup_interval_seconds=0,
            in_one_piece=True,
        )

    def _told(self, parts: list[Facts]) -> ClientSweep:
        target = parts[-1].target
        return ClientSweep(
            facts=parts[-1],
            target=target,
            messages=[encoded(part) for part in parts],
            shown=[],
            was_accepted=False,
            read_ns=self._site.now_ns,
            lives={},
            details={},
            seen=self.passes[target].seen,
            told_ns=self._site.now_ns,
            segment=self._segment,
            looked_ns=self.passes[target].looked_ns,
        )

    def lose_segments(self) -> int:
        """Keep only the latest segment of all that was sent, or waits for it; return how many sweeps that are."""
        sweeps = cast("list[ClientSweep]", [*self.sent, *self.spool])
        latest = [sweep for sweep in sweeps if sweep.segment == sweeps[-1].segment]
        for sweep in latest:
            sweep.is_baseless = True
        self.spool, self.sent = list(latest), []
        return len(latest)

    def spoilt(self, target: str, text: bytes, life: Life, seen: Seen) -> bytes:
        """Damage a line, if that is due here: it is not shown then, or its sum is not."""
        lines = [
            line for line in _LINE.finditer(text) if text.count(b"\n" + line[1] + b" ") == 1 and line[1] != b"ping"
        ]
        if target not in self.bad or not lines:
            return text
        self.bad.discard(target)
        line = self._rng.choice(lines)
        index = next(at for at, op in enumerate(life.ops) if op.name.encode() == line[1] and at in life.counters)
        if self._rng.random() < 0.3:
            seen.hidden = (index, True, True)
            return text[: line.start()] + b"gar bage\n" + text[line.end() :]
        what = 3 if line[3] is not None else 2
        seen.hidden = (index, what == 2, what == 3)
        return text[: line.start(what)] + self._rng.choice(_NONSENSE) + text[line.end(what) :]


class ClientLedger(Ledger):
    """What an aggregator has made durable of clients."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth, ClientBook())

    @property
    def clients(self) -> ClientBook:
        """The simulator's side of the state."""
        return cast("ClientBook", self.book)

    @override
    def _apply(self, sweep: Sweep) -> Applied:
        facts = joined([read(Batch.FromString(message)) for message in sweep.messages])
        key = (facts.target, facts.mount.boot_id)
        target = self.targets.setdefault(facts.target, TargetAccount())
        done = Applied(key, facts, target.apply(facts))
        if done.work.mount is not None:
            assert isinstance(sweep, ClientSweep)
            stay = target.stays[facts.mount.boot_id]
            if sweep.is_baseless:  # it shows only those that moved
                state = stay.mounts[-1][1]
                moved = {state.jobs[row] for row in state.rows_of(facts.incarnation, facts.moved.slot)}
                sweep.seen = {nid: seen for nid, seen in sweep.seen.items() if nid in moved}
            self.clients.note_pass(done, stay, sweep.seen, is_baseless=sweep.is_baseless)
        return done


def show(sweep: ClientSweep, lives: list[Life]) -> None:
    """Count as shown what a pass that is kept told; of what could not be read, the last value stays."""
    for seen in sweep.seen.values():
        life = lives[seen.life]
        for shown in seen.shown:
            life.show(_without(shown, seen.hidden, life.shown[-1] if life.shown else None))


def _without(shown: Shown, hidden: tuple[int, bool, bool] | None, before: Shown | None) -> Shown:
    if hidden is None or (before is not None and before.revision >= shown.revision):
        return shown
    index, no_samples, no_sum = hidden
    old = {at: (samples, total) for at, samples, total in (before.values if before else ())}.get(index, (0, 0))
    values = tuple(
        (at, old[0] if no_samples else samples, old[1] if no_sum else total) if at == index else (at, samples, total)
        for at, samples, total in shown.values
    )
    latest = max(shown.revision - 0.5, before.revision if before else 0)
    return shown._replace(revision=cast("int", latest + 0.001), values=values)
