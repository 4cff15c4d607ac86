"""The site on disk, for real agents: a tree per server, and what readers do to it."""

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from harvest_sim import inotify
from harvest_sim.lives import Showing
from harvest_sim.reading import File
from harvest_sim.site import Site

# Stats files say when they were read (§1.5); on disk that is when they were written, at most this long ago.
_STATS_PERIOD_NS = 1_000_000_000
_ONCE_A_SWEEP = {"boot_id", "job_stats"}
"""Whoever reads such a file again has begun another sweep; of a server without targets there is only the first."""
_SCRAMBLE_SECONDS = 100 * 365 * 24 * 3600 // 2


@dataclass(slots=True, kw_only=True)
class _Published:
    key: tuple[str, str]
    file: File
    text: bytes
    showings: list[Showing]
    written_ns: int
    valid_ns: int
    """When the file would last have got the same text."""
    was_read: bool = False

    def shows(self, showings: list[Showing]) -> bool:
        """Return whether reading this shows all that: equal text may stand for another life."""
        known = {(life.number, shown.revision) for life, shown in self.showings}
        return all((life.number, shown.revision) in known for life, shown in showings)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedEvent:
    """Something that happens to targets only after readers have everything they counted."""

    targets: tuple[str, ...]
    perform: Callable[[], None]


@dataclass(slots=True)
class _Sweep:
    """What the reader of one server has seen since it last began from the front."""

    paths: set[str] = field(default_factory=set)
    showings: list[Showing] = field(default_factory=list)
    valid_ns: dict[str, int] = field(default_factory=dict)
    """Until when the pictures were valid that it saw of each target."""


class DiskFace:
    """Writes every server's files below ``root/<server>`` and learns from inotify who has read them.

    A file is replaced whole, so a reader always has one consistent text; unlike the in-process face this one
    therefore never skips a record. A reader that closes a file after reading from it counts as having read it
    whole. Times of files are scrambled: they must say nothing.

    A reader has safe what it saw in one sweep when it begins the next: only then does it count as shown. One that
    died before had nothing of it.
    """

    def __init__(self, site: Site, root: Path, rng: Random) -> None:
        self._site = site
        self._root = root
        self._rng = rng
        self._inotify = inotify.Inotify()
        self._watched: dict[int, _Published] = {}
        self._present: dict[tuple[str, str], _Published] = {}
        self._mounts: dict[str, int] = {}
        self._gated: list[GatedEvent] = []
        self._sweeps: defaultdict[str, _Sweep] = defaultdict(_Sweep)
        self._known_ns: dict[str, int] = {}
        """Up to when readers have safe which records each target has."""
        self._forgetful: set[str] = set()
        """Servers whose readers cannot keep what they see."""
        self._draft = root / ".draft"
        root.mkdir(parents=True, exist_ok=True)

    @property
    def waiting_events(self) -> int:
        """How many gated events have not happened yet."""
        return len(self._gated)

    def publish(self) -> None:
        """Write what has changed, and remove what is gone."""
        wanted = {(name, path): file for name in self._site.servers for path, file in self._site.files(name).items()}
        # §2.4: an unmount frees everything, so of a new mount no file may stand beside one of the old
        stale = {key for key in self._present if key not in wanted or self._is_remounted(key)}
        for key in sorted(stale, key=lambda key: key[1].endswith("/instance")):
            self._remove(key)
        self._mounts = {name: target.mounts for name, target in self._site.targets.items()}
        for key, file in wanted.items():
            self._refresh(key, file)

    def poll(self) -> None:
        """Learn what readers have done: what they have safe is shown; scan as their close does (§2.1 (b))."""
        for event in self._inotify.events():
            published = self._watched.get(event.watch)
            if published is None:
                continue
            if event.mask & inotify.ACCESS:
                published.was_read = True
            if event.mask & inotify.CLOSE_NOWRITE:
                if published.was_read:
                    self._was_read(published)
                published.file.after_read()
            if event.mask & inotify.IGNORED:
                del self._watched[event.watch]

    def reader_died(self, server: str) -> None:
        """Doubt what the reader of a server saw in its last sweep: it is not known to have kept it."""
        self.poll()
        self._site.truth.doubtful += self._sweeps.pop(server, _Sweep()).showings

    def reader_lost_all(self, server: str, *, since_ns: int) -> None:
        """Doubt all that the reader of a server saw since then: it died, and what it had not passed on is lost."""
        self.reader_died(server)
        self._site.truth.doubt(server, since_ns=since_ns)
        for target in self._site.targets_on(server):
            self._known_ns[target] = min(self._known_ns.get(target, 0), since_ns)

    def reader_keeps_nothing(self, server: str) -> None:
        """Doubt all that the reader of a server sees from now on: it has no room for it."""
        self.reader_died(server)
        self._forgetful.add(server)

    def reader_keeps_again(self, server: str) -> None:
        """Believe the reader of a server again, in what it sees from now on."""
        self.poll()
        self._forgetful.discard(server)

    def _was_read(self, published: _Published) -> None:
        server, path = published.key
        if path.rpartition("/")[2] not in _ONCE_A_SWEEP:
            for life, shown in published.showings:
                life.show(shown)
            return
        if server in self._forgetful:
            self._site.truth.doubtful += published.showings
            return
        sweep = self._sweeps[server]
        if path in sweep.paths:
            for life, shown in sweep.showings:
                life.show(shown)
            self._known_ns |= sweep.valid_ns
            sweep = self._sweeps[server] = _Sweep()
        sweep.paths.add(path)
        sweep.valid_ns[path.split("/")[-2]] = published.valid_ns
        sweep.showings += published.showings

    def request(self, event: GatedEvent) -> None:
        """Let clients of the targets wait, and the event happen once readers have everything."""
        for target in event.targets:
            self._site.targets[target].is_frozen = True
        self._gated.append(event)

    def perform_due(self) -> None:
        """Let those gated events happen that may."""
        for event in list(self._gated):
            if all(map(self._all_shown, event.targets)):
                self._gated.remove(event)
                for target in event.targets:
                    self._site.targets[target].is_frozen = False
                event.perform()  # which may freeze again

    def is_end_known(self, target: str, job_id: bytes) -> bool:
        """Return whether readers have safe that a job has no record any more, if it had one and has none."""
        mounted = self._site.targets[target].mounted
        ended_ns = mounted.jobs.ended_ns.get(job_id) if mounted else None
        return ended_ns is None or ended_ns < self._known_ns.get(target, 0)

    def close(self) -> None:
        """Stop watching; the tree stays."""
        self._inotify.close()

    def _all_shown(self, target: str) -> bool:
        mounted = self._site.targets[target].mounted
        return mounted is None or all(
            life.shown and life.shown[-1].revision == life.revision for life in mounted.jobs.lives()
        )

    def _refresh(self, key: tuple[str, str], file: File) -> None:
        now_ns = self._site.now_ns
        text, showings = file.picture()
        before = self._present.get(key)
        if before is not None and before.shows(showings):
            is_new = text != before.text
            is_recent = now_ns - before.written_ns < _STATS_PERIOD_NS
            if not is_new or (file.says_time_of_read and is_recent):
                before.valid_ns = now_ns
                return
        self._write(
            key, _Published(key=key, file=file, text=text, showings=showings, written_ns=now_ns, valid_ns=now_ns)
        )

    def _is_remounted(self, key: tuple[str, str]) -> bool:
        return any(
            target.mounts != self._mounts.get(name) and f"/{name}/" in key[1]
            for name, target in self._site.targets.items()
        )

    def _write(self, key: tuple[str, str], published: _Published) -> None:
        path = self._root.joinpath(*key)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._draft.write_bytes(published.text)
        scrambled = self._rng.randrange(_SCRAMBLE_SECONDS)
        os.utime(self._draft, (scrambled, scrambled))
        watch = self._inotify.watch(self._draft, inotify.ACCESS | inotify.CLOSE_NOWRITE)
        self._watched[watch] = published
        self._draft.replace(path)
        self._present[key] = published

    def _remove(self, key: tuple[str, str]) -> None:
        path = self._root.joinpath(*key)
        path.unlink()
        del self._present[key]
        for folder in path.parents:
            if folder == self._root or any(folder.iterdir()):
                break
            folder.rmdir()
