"""What an agent says to one aggregator and makes of its answers; how bytes get there and back is not its concern."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from harvest.v1.stream_pb2 import Ack, MountedTarget, Refusal, StreamRequest, StreamResponse, Welcome
from harvest_agent.cursors import Wishes
from harvest_agent.logs import say
from harvest_agent.segments import DamagedError, Record, SpooledSweep
from harvest_agent.shelf import Shelf
from harvest_core.lustre.names import of_filesystem

PROTOCOL: Final = 1
_IN_FLIGHT_BYTES: Final = 8 << 20
"""No further sweep is begun while so much was sent and not acknowledged."""
_INTERVALS: Final = range(1, 3601)
_NEVER_AGAIN: Final = 1 << 62


class RefusedError(Exception):
    """The aggregator does not want us, now or at all."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message or f"refused, reason {refusal.reason}")
        self.retry_after_seconds = refusal.retry_after_seconds
        """0: not before something is changed."""


class Speaker(Protocol):
    """Whoever fills the spool."""

    @property
    def incarnation(self) -> bytes:
        """Its present one."""

    @property
    def boot_id(self) -> str:
        """Of the server's kernel."""

    @property
    def targets(self) -> Sequence[MountedTarget]:
        """Those mounted, as far as it knows."""

    def restart(self, reason: str) -> None:
        """Begin another incarnation, with a full picture."""


class JobFeed(Protocol):
    """What one stream is to be told of Slurm's jobs."""

    def next(self) -> bytes | None:
        """Return the next message, if there is anything to say."""

    def ask(self, jobs: Iterable[int], uids: Iterable[int]) -> None:
        """Take in what the aggregator cannot place."""

    def close(self) -> None:
        """Want nothing more."""


class Conversation:
    """One stream, from Hello on."""

    def __init__(
        self, uplink: str, shelf: Shelf, speaker: Speaker, new_feed: Callable[[], JobFeed] | None = None
    ) -> None:
        self._uplink = uplink
        self._shelf = shelf
        self._speaker = speaker
        self._incarnation = speaker.incarnation
        self._named: dict[bytes, tuple[int, int]] = {}
        self._sent: dict[bytes, int] = {}
        self._may_send: dict[bytes, frozenset[str]] = {}
        self._in_flight: deque[tuple[bytes, int, int]] = deque()
        self._under_way: tuple[SpooledSweep, Iterator[Record]] | None = None
        self._new_feed = new_feed
        self._feed: JobFeed | None = None
        self._is_jobs_turn = True
        self.is_welcome = False
        self.interval_seconds: int | None = None

    def hello(self, *, agent: str, software: str, clock_nanoseconds: int) -> bytes:
        """Return the first message: who we are, and what is in the spool."""
        request = StreamRequest()
        hello = request.hello
        hello.protocol, hello.agent, hello.boot_id = PROTOCOL, agent, self._speaker.boot_id
        hello.software, hello.clock_nanoseconds = software, clock_nanoseconds
        self._named = {incarnation: (first, last) for incarnation, first, last in self._shelf.incarnations()}
        speaking = self._named.pop(self._incarnation, (1, 0))  # the last one named is the one that speaks
        self._named[self._incarnation] = speaking
        for incarnation, (first, last) in self._named.items():
            hello.incarnations.add(id=incarnation, first_seq=first, last_seq=last)
        hello.targets.extend(self._speaker.targets)
        return request.SerializeToString()

    def hear(self, response: StreamResponse) -> None:
        """Take in an answer; kinds that came later than this agent are none of its business."""
        match response.WhichOneof("message"):
            case "welcome":
                self._welcome(response.welcome)
            case "ack":
                self._acknowledged(response.ack)
            case "refusal":
                raise RefusedError(response.refusal)
            case "job_question" if self._feed is not None:
                self._feed.ask(response.job_question.jobs, response.job_question.uids)
            case _:
                pass

    def _welcome(self, welcome: Welcome) -> None:
        wanted = frozenset(filesystem.fsname for filesystem in welcome.filesystems)
        if self.is_welcome:
            self._may_send = self._shelf.narrow(self._uplink, wanted)
        else:
            durable = {ack.incarnation: ack.seq for ack in welcome.resume}
            self._sent = {incarnation: durable.get(incarnation, 0) for incarnation in self._named}
            self._may_send = self._shelf.resume(self._uplink, self._sent, wanted)
        if welcome.interval_seconds in _INTERVALS:
            self.interval_seconds = welcome.interval_seconds
            self._shelf.wish(self._uplink, Wishes(welcome.interval_seconds, _clients_wanted(welcome)))
        self.is_welcome = True
        self._feed_jobs(is_wanted=welcome.job_table)
        # also of one that is not mounted here yet: its first target may come in the middle of a stream
        if wanted - self._may_send[self._incarnation]:
            self._restart("an aggregator wants more file systems")
        if welcome.full_picture and self._sent[self._incarnation]:  # else it gets one in any case
            self._restart("an aggregator asked for a full picture")

    def _feed_jobs(self, *, is_wanted: bool) -> None:
        if is_wanted and self._feed is None and self._new_feed is not None:
            self._feed = self._new_feed()
        elif not is_wanted and self._feed is not None:
            self._feed.close()
            self._feed = None

    def _restart(self, reason: str) -> None:
        if self._speaker.incarnation == self._incarnation:
            self._speaker.restart(reason)

    def _acknowledged(self, ack: Ack) -> None:
        seq = min(ack.seq, self._sent.get(ack.incarnation, 0))
        self._shelf.acknowledge(self._uplink, ack.incarnation, seq)
        self._in_flight = deque(sweep for sweep in self._in_flight if sweep[0] != ack.incarnation or sweep[1] > ack.seq)

    def next(self) -> bytes | None:
        """Return what to send now, in order; nothing while there is nothing, or enough is on its way."""
        if not self.is_welcome:
            return None
        if self._under_way is None:  # sweeps and parts of the job table take turns
            if self._is_jobs_turn and (part := self._jobs_part()) is not None:
                return part
            if not self._begin_sweep():
                return self._jobs_part()
        self._is_jobs_turn = True
        return self._next_record()

    def _jobs_part(self) -> bytes | None:
        self._is_jobs_turn = False
        return None if self._feed is None or self._is_enough_on_its_way() else self._feed.next()

    def _is_enough_on_its_way(self) -> bool:
        return sum(size for *_, size in self._in_flight) >= _IN_FLIGHT_BYTES

    def _begin_sweep(self) -> bool:
        if self._is_enough_on_its_way():
            return False
        while (sweep := self._shelf.sweep_after(self._sent)) is not None:
            before = self._sent.get(sweep.incarnation)
            if before is not None and sweep.seq == before + 1:
                self._under_way = (sweep, sweep.records())
                self._in_flight.append((sweep.incarnation, sweep.seq, sweep.size))
                return True
            sweep.close()
            if before is None:  # it began after our Hello, and needs another one
                return False
            self._give_up(sweep.incarnation, before)
        return False

    def _give_up(self, incarnation: bytes, before: int) -> None:
        """Leave out the rest of an incarnation: it builds on sweeps that are lost, and would be misread."""
        say("uplink.gap", uplink=self._uplink, incarnation=incarnation.hex(), after=before)
        self._sent[incarnation] = _NEVER_AGAIN
        self._shelf.acknowledge(self._uplink, incarnation, _NEVER_AGAIN)
        if incarnation == self._incarnation:
            self._restart("sweeps are missing in the spool")

    def _next_record(self) -> bytes | None:
        if self._under_way is None:
            return None
        sweep, records = self._under_way
        incarnation, seq = sweep.incarnation, sweep.seq
        wanted = self._may_send[incarnation]
        try:
            record = next(each for each in records if not each.target or _is_of(each.target, wanted))
        except DamagedError as error:
            self._shelf.damaged(incarnation, seq, str(error))
            raise
        if not record.target:  # the end of the sweep: its Ack may come before we are asked for more
            self._sent[incarnation] = seq
            self._end_sweep()
        return record.payload

    def close(self) -> None:
        """Let go of the sweep under way, and want no more news."""
        self._end_sweep()
        self._feed_jobs(is_wanted=False)

    def _end_sweep(self) -> None:
        if self._under_way is not None:
            self._under_way[0].close()
            self._under_way = None


def _clients_wanted(welcome: Welcome) -> dict[str, int]:
    return {
        filesystem.fsname: filesystem.client_interval_seconds
        for filesystem in welcome.filesystems
        if filesystem.clients and filesystem.client_interval_seconds in _INTERVALS
    }


def _is_of(target: str, filesystems: frozenset[str]) -> bool:
    return any(of_filesystem(target, fsname) for fsname in filesystems)
