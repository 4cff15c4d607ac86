"""What an agent says to an aggregator, and what it makes of the answers: no sockets, the spool is real."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harvest.v1.stream_pb2 import Hello, MountedTarget, StreamRequest, StreamResponse
from harvest_agent.conversations import Conversation, RefusedError
from harvest_agent.cursors import Wishes
from harvest_agent.segments import DamagedError, Record, UnreadableError
from unit.agent.spooling import HERE, A, B, Bench, open_files, unreadable


def mounted(name: str) -> MountedTarget:
    target = MountedTarget()
    target.target.name = name
    return target


@dataclass
class Speaker:
    """A collector that only remembers what it was asked."""

    incarnation: bytes = A
    boot_id: str = "boot"
    targets: Sequence[MountedTarget] = field(default_factory=lambda: [mounted("fs-OST0000"), mounted("home-OST0000")])
    reasons: list[str] = field(default_factory=list)

    def restart(self, reason: str) -> None:
        self.reasons.append(reason)


@dataclass
class JobFeed:
    """What is to be told of Slurm's jobs: so many parts."""

    parts: int = 0
    asked: list[object] = field(default_factory=list)
    is_closed: bool = False

    def next(self) -> bytes | None:
        if not self.parts:
            return None
        self.parts -= 1
        request = StreamRequest()
        request.job_table.full = True
        return request.SerializeToString()

    def ask(self, jobs: Iterable[int], uids: Iterable[int]) -> None:
        self.asked.append((list(jobs), list(uids)))

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Talk:
    """A conversation over a spool of sweeps with a record of each of two file systems."""

    folder: Path

    def __post_init__(self) -> None:
        self.bench = Bench(self.folder)
        self.speaker = Speaker()
        self.feeds: list[JobFeed] = []

    def new_feed(self) -> JobFeed:
        self.feeds.append(JobFeed())
        return self.feeds[-1]

    def spool(self, *seqs: int, incarnation: bytes = A, size: int = 1) -> None:
        for seq in seqs:
            with self.bench.spool.draft(incarnation, "boot", seq) as draft:
                for target in ("fs-OST0000", "fs2-OST0000", "home-OST0000"):
                    draft.append(Record(target, message(incarnation, seq, target, size)))
                draft.commit(Record("", message(incarnation, seq, "", 0)))

    def begin(self) -> Hello:
        self.conversation = Conversation(HERE, self.bench.shelf, self.speaker, self.new_feed)
        said = self.conversation.hello(agent="oss1", software="test", clock_nanoseconds=5)
        return StreamRequest.FromString(said).hello

    def welcome(
        self,
        *wanted: str,
        full_picture: bool = False,
        interval_seconds: int = 20,
        job_table: bool = False,
        **durable: int,
    ) -> None:
        answer = StreamResponse()
        answer.welcome.job_table = job_table
        answer.welcome.interval_seconds = interval_seconds
        answer.welcome.full_picture = full_picture
        for fsname in wanted:
            answer.welcome.filesystems.add(fsname=fsname)
        for name, seq in durable.items():
            answer.welcome.resume.add(incarnation=name.encode() * 16, seq=seq)
        self.conversation.hear(answer)

    def ack(self, seq: int, incarnation: bytes = A) -> None:
        answer = StreamResponse()
        answer.ack.incarnation, answer.ack.seq = incarnation, seq
        self.conversation.hear(answer)

    def sent(self) -> list[str]:
        """Return what can be sent now, as incarnation, seq and target."""
        found = []
        while (payload := self.conversation.next()) is not None:
            request = StreamRequest.FromString(payload)
            if request.HasField("job_table"):
                found.append("jobs")
                continue
            batch = request.batch
            found.append(f"{chr(batch.incarnation[0])}{batch.seq} {batch.target.name.partition('-')[0]}".strip())
        return found


def message(incarnation: bytes, seq: int, target: str, size: int) -> bytes:
    request = StreamRequest()
    request.batch.incarnation, request.batch.seq = incarnation, seq
    request.batch.target.name = target
    request.batch.gone.data = bytes(size)
    return request.SerializeToString()


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_the_hello_names_all_that_is_in_the_spool_the_speaking_incarnation_last(talk: Talk) -> None:
    talk.spool(1, 2, incarnation=B)
    talk.spool(1, 2, 3)
    hello = talk.begin()

    assert (hello.protocol, hello.agent, hello.boot_id, hello.clock_nanoseconds) == (1, "oss1", "boot", 5)
    assert [(each.id, each.first_seq, each.last_seq) for each in hello.incarnations] == [(B, 1, 2), (A, 1, 3)]
    assert [each.target.name for each in hello.targets] == ["fs-OST0000", "home-OST0000"]


def test_an_agent_that_has_not_swept_yet_names_its_incarnation_all_the_same(talk: Talk) -> None:
    assert [(each.id, each.first_seq, each.last_seq) for each in talk.begin().incarnations] == [(A, 1, 0)]


def test_nothing_is_sent_before_the_welcome(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    assert talk.sent() == []
    talk.welcome("fs")
    assert talk.sent() == ["A1 fs", "A1"]


def test_only_wanted_file_systems_are_sent_and_the_end_always(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    talk.welcome("home", "other")
    assert talk.sent() == ["A1 home", "A1"]


def test_older_incarnations_go_first_and_each_goes_on_where_the_welcome_says(talk: Talk) -> None:
    talk.spool(1, 2, 3, incarnation=B)
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs", B=2, A=0)
    assert talk.sent() == ["B3 fs", "B3", "A1 fs", "A1", "A2 fs", "A2"]


def test_sweeps_that_come_later_are_sent_as_they_come(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs")
    talk.spool(1)
    assert talk.sent() == ["A1 fs", "A1"]
    talk.spool(2)
    assert talk.sent() == ["A2 fs", "A2"]


def test_what_was_sent_and_not_acknowledged_is_sent_again_on_another_stream(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs")
    talk.sent()
    talk.ack(1)
    talk.begin()
    talk.welcome("fs", A=1)
    assert talk.sent() == ["A2 fs", "A2"]


def test_a_restored_ledger_gets_what_it_had_acknowledged_before(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs")
    talk.sent()
    talk.ack(2)
    assert talk.bench.shelf.waiting(HERE) == 0
    talk.begin()
    talk.welcome("fs", A=1)
    assert talk.bench.shelf.waiting(HERE) == 1
    assert talk.sent() == ["A2 fs", "A2"]


def test_no_further_sweep_is_begun_while_much_is_on_its_way(talk: Talk) -> None:
    talk.bench.spool.room.max_bytes = 1 << 30
    talk.spool(1, 2, 3, 4, 5, size=1 << 20)
    talk.begin()
    talk.welcome("fs", "fs2", "home")
    assert [name for name in talk.sent() if " " not in name] == ["A1", "A2", "A3"]
    talk.ack(1)
    assert [name for name in talk.sent() if " " not in name] == ["A4"]


def test_an_ack_may_come_before_anybody_asks_for_more(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    talk.welcome("fs")
    assert [talk.conversation.next() is None for _ in range(2)] == [False, False]
    talk.ack(1)
    assert talk.bench.shelf.waiting(HERE) == 0


def test_acks_nobody_can_mean_are_not_believed(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    talk.welcome("fs")
    talk.ack(7)
    talk.ack(7, incarnation=B)
    assert talk.bench.shelf.waiting(HERE) == 1
    assert talk.sent() == ["A1 fs", "A1"]


def test_a_gap_in_the_spool_is_never_sent_over(talk: Talk) -> None:
    talk.spool(1, 2, 3, incarnation=B)
    talk.spool(1)
    talk.bench.shelf.segments[0].spans.pop(1)
    talk.begin()
    talk.welcome("fs")
    assert talk.sent() == ["B1 fs", "B1", "A1 fs", "A1"]
    assert talk.speaker.reasons == []
    talk.ack(1)
    assert talk.bench.shelf.waiting(HERE) == 0, "what cannot be sent takes up no room"


def test_a_gap_in_what_is_being_spoken_needs_a_full_picture(talk: Talk) -> None:
    talk.spool(5, 6)
    talk.begin()
    talk.welcome("fs", A=3)
    assert talk.sent() == []
    assert talk.speaker.reasons == ["sweeps are missing in the spool"]


def test_a_damaged_sweep_ends_the_stream_and_what_builds_on_it_is_left_out(talk: Talk) -> None:
    talk.spool(1, 2, 3)
    path = talk.bench.files()[0]
    span = talk.bench.shelf.segments[0].spans[1]
    text = path.read_bytes()
    path.write_bytes(text[: span.end - 1] + b"\xff" + text[span.end :])
    talk.begin()
    talk.welcome("fs")
    with pytest.raises(DamagedError):
        talk.sent()
    talk.begin()
    talk.welcome("fs", A=1)
    assert talk.sent() == []


def test_a_sweep_that_cannot_be_read_now_is_sent_whole_later_and_nothing_overtakes_it(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.spool(1, incarnation=B)
    talk.begin()
    talk.welcome("fs", A=1)
    with unreadable(talk.bench.files()[0]), pytest.raises(UnreadableError, match=r"000000000001\.spool"):
        talk.sent()
    talk.begin()
    talk.welcome("fs", A=1)
    assert talk.sent() == ["A2 fs", "A2", "B1 fs", "B1"]
    assert talk.bench.shelf.damaged_segments == 0
    assert talk.speaker.reasons == []


def test_no_file_stays_open_behind_a_stream_that_ends_early(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.bench.spool.close()
    talk.begin()
    talk.welcome("fs")
    talk.conversation.next()
    assert len(open_files(talk.bench.folder)) == 1
    talk.conversation.close()
    assert open_files(talk.bench.folder) == []


def test_no_file_stays_open_of_what_cannot_be_sent(talk: Talk) -> None:
    talk.spool(2, 3)
    talk.begin()
    talk.spool(1, incarnation=B)
    talk.welcome("fs")
    for _ in range(3):
        assert talk.sent() == []
    talk.bench.spool.close()
    assert open_files(talk.bench.folder) == []


def test_a_full_picture_is_given_by_another_incarnation_once(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs", A=2, full_picture=True)
    assert talk.speaker.reasons == ["an aggregator asked for a full picture"]
    talk.speaker.incarnation = B
    talk.welcome("fs", full_picture=True)
    assert len(talk.speaker.reasons) == 1, "it has begun already"


def test_no_full_picture_is_made_for_whom_it_is_sent_in_any_case(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs", full_picture=True)
    assert talk.speaker.reasons == []
    assert talk.sent() == ["A1 fs", "A1", "A2 fs", "A2"]


def test_what_began_after_the_hello_waits_for_another_stream(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs")
    talk.spool(1, incarnation=B)
    assert talk.sent() == []


def test_a_file_system_is_sent_from_its_first_sweep_on_or_not_at_all(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    talk.welcome("fs")
    talk.sent()
    talk.ack(1)
    talk.welcome("fs", "home")
    talk.spool(2)
    assert talk.sent() == ["A2 fs", "A2"]
    assert talk.speaker.reasons == ["an aggregator wants more file systems"]


def test_this_holds_over_reconnects_and_restarts(talk: Talk) -> None:
    talk.spool(1, 2)
    talk.begin()
    talk.welcome("fs")
    talk.sent()
    talk.ack(1)
    talk.bench.shelf.close()
    talk.bench.open()
    talk.speaker = Speaker(incarnation=B)
    talk.begin()
    talk.welcome("fs", "home", A=1)
    assert talk.sent() == ["A2 fs", "A2"]
    assert talk.speaker.reasons == [], "the new incarnation has it from the start"


def test_a_file_system_that_is_not_mounted_here_yet_needs_a_full_picture_too(talk: Talk) -> None:
    """Its first target may come in the middle of a stream, by a failover."""
    talk.spool(1)
    talk.begin()
    talk.welcome("fs", A=1)
    talk.welcome("fs", "elsewhere")
    assert talk.speaker.reasons == ["an aggregator wants more file systems"]


def test_a_repeated_welcome_changes_interval_and_what_is_sent_but_not_where_we_are(talk: Talk) -> None:
    talk.spool(1)
    talk.begin()
    talk.welcome("fs", "home", interval_seconds=20)
    talk.sent()
    talk.welcome("fs", interval_seconds=5)
    talk.spool(2)
    assert talk.conversation.interval_seconds == 5
    assert talk.sent() == ["A2 fs", "A2"]


def test_the_interval_is_remembered_over_a_restart(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs", interval_seconds=5)
    talk.bench.reopen()
    assert talk.bench.shelf.wishes(HERE) == Wishes(5, {})


@pytest.mark.parametrize("seconds", [0, 3601, 1 << 31])
def test_an_interval_that_makes_no_sense_is_ignored(talk: Talk, seconds: int) -> None:
    talk.begin()
    talk.welcome("fs", interval_seconds=seconds)
    assert talk.conversation.interval_seconds is None


def test_a_refusal_says_why_and_when_to_come_again(talk: Talk) -> None:
    talk.begin()
    answer = StreamResponse()
    answer.refusal.message, answer.refusal.retry_after_seconds = "no durable place", 7
    with pytest.raises(RefusedError, match="no durable place") as refused:
        talk.conversation.hear(answer)
    assert refused.value.retry_after_seconds == 7


def test_answers_of_a_later_kind_are_ignored(talk: Talk) -> None:
    talk.begin()
    talk.conversation.hear(StreamResponse())
    assert not talk.conversation.is_welcome


def test_an_incarnation_of_which_nothing_was_kept_yet_is_not_forgotten(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs")
    talk.bench.shelf.save_cursors()

    talk.welcome("fs", "other")

    assert talk.speaker.reasons == ["an aggregator wants more file systems"]


def test_jobs_are_told_only_to_whom_wants_them(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs")
    assert talk.feeds == []
    talk.welcome("fs", job_table=True)
    talk.welcome("fs", job_table=True)
    (feed,) = talk.feeds
    feed.parts = 2
    assert talk.sent() == ["jobs", "jobs"]
    talk.welcome("fs")
    feed.parts = 1
    assert talk.sent() == []
    assert feed.is_closed


def test_an_agent_without_slurm_has_no_jobs_to_tell(talk: Talk) -> None:
    talk.begin()
    talk.conversation = Conversation(HERE, talk.bench.shelf, talk.speaker)
    talk.conversation.hello(agent="oss1", software="test", clock_nanoseconds=5)
    talk.welcome("fs", job_table=True)
    assert talk.sent() == []


def test_jobs_and_sweeps_take_turns_and_no_sweep_is_cut_in_two(talk: Talk) -> None:
    talk.spool(1, 2, 3)
    talk.begin()
    talk.welcome("fs", job_table=True)
    talk.feeds[0].parts = 5
    sent = talk.sent()
    assert sent == ["jobs", "A1 fs", "A1", "jobs", "A2 fs", "A2", "jobs", "A3 fs", "A3", "jobs", "jobs"]


def test_jobs_wait_as_sweeps_do_while_much_is_on_its_way(talk: Talk) -> None:
    talk.bench.spool.room.max_bytes = 1 << 30
    talk.spool(1, 2, 3, size=1 << 20)
    talk.begin()
    talk.welcome("fs", "fs2", "home", job_table=True)
    talk.sent()
    talk.feeds[0].parts = 1
    assert talk.sent() == []
    talk.ack(1)
    assert talk.sent() == ["jobs"]


def test_questions_go_to_whoever_knows_jobs(talk: Talk) -> None:
    question = StreamResponse()
    question.job_question.jobs.extend([7, 8])
    question.job_question.uids.append(1000)
    talk.begin()
    talk.conversation.hear(question)
    talk.welcome("fs", job_table=True)
    talk.conversation.hear(question)
    assert talk.feeds[0].asked == [([7, 8], [1000])]


def test_with_the_stream_its_feed_ends(talk: Talk) -> None:
    talk.begin()
    talk.welcome("fs", job_table=True)
    talk.conversation.close()
    assert talk.feeds[0].is_closed
