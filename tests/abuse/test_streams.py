"""What becomes of agents' streams, on a real port."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from harvest.v1.stream_pb2 import Batch, Hello, JobQuestion, JobTable, RefusalReason, SlurmJob
from harvest_aggregator import sessions, streams
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.limits import PENDING_BYTES
from support.uplinks import INCARNATION, SITE, Agent, Aggregator, aggregator, hello, issued, served, sweep, until

LATER = b"j" * 16
OURS = 2  # references: a variable's, and the one by which it is looked at


@served
async def test_sweeps_are_kept_as_they_came_and_acknowledged(here: Aggregator) -> None:
    agent = here.agent("oss1")
    welcome = await agent.begin(hello("oss1", "home-OST0000"))
    assert [(ack.incarnation, ack.seq) for ack in welcome.resume] == [(INCARNATION, 0)]
    assert [one.fsname for one in welcome.filesystems] == ["home", "scratch"]
    assert (welcome.interval_seconds, welcome.full_picture) == (20, False)
    assert here.keeper.present == ["oss1"]

    batches = sweep(1, "home-OST0000", "home-OST0001", parts=3)
    await agent.say(*batches)

    assert await agent.acknowledged() == 1
    (delivery,) = here.keeper.deliveries
    assert [raw for raw, _ in delivery.batches] == [batch.SerializeToString() for batch in batches]
    assert [read for _, read in delivery.batches] == batches
    await agent.call.done_writing()
    assert await agent.ended() == (grpc.StatusCode.OK, "")
    assert not here.keeper.present
    assert here.streams.held_bytes == 0


@served
async def test_an_idle_stream_holds_nothing_of_the_sweep_before(here: Aggregator) -> None:
    agent = here.agent("oss1")
    await agent.begin(hello("oss1", "home-OST0000"))
    await agent.say(*sweep(1, "home-OST0000"))
    assert await agent.acknowledged() == 1
    raw, _ = here.keeper.deliveries.pop().batches[0]
    await until(lambda: sys.getrefcount(raw) <= OURS)


@served
async def test_the_agent_beside_slurm_says_what_it_knows_and_is_asked_for_more(here: Aggregator) -> None:
    await here.change(SITE + "clusters: [{name: vu, filesystems: [home], slurm: {server: slurm1}}]")
    agent, other = here.agent("slurm1"), here.agent("oss1")
    assert (await agent.begin(hello("slurm1"))).job_table
    assert not (await other.begin(hello("oss1"))).job_table
    table = JobTable(full=True, last=True, jobs=[SlurmJob(id=1, state="RUNNING")])
    question = here.keeper.questions["slurm1"] = JobQuestion(jobs=[7], uids=[1000])
    await other.say(table)
    await agent.say(table)
    assert (await agent.hear()).job_question == question
    assert here.keeper.tables == [("vu", table)]

    here.keeper.questions["slurm1"] = question
    await agent.say(*sweep(1))
    assert await agent.acknowledged() == 1
    assert (await agent.hear()).job_question == question


@served
async def test_while_a_delivery_waits_the_next_sweeps_come_together(here: Aggregator) -> None:
    here.keeper.hold = True
    agent = here.agent("oss1")
    await agent.begin(hello("oss1"))
    await agent.say(*sweep(1, "home-OST0000"))
    await until(lambda: here.keeper.waiting)
    await agent.say(*sweep(2, "home-OST0000"), *sweep(4), *sweep(1, incarnation=LATER))
    whole = sum(map(Batch.ByteSize, [*sweep(1, "home-OST0000"), *sweep(2, "home-OST0000"), *sweep(4), *sweep(1)]))
    await until(lambda: here.streams.held_bytes == whole)
    here.keeper.hold = False
    here.keeper.waiting[0].set_result(None)

    acks = [(await agent.hear()).ack for _ in range(3)]
    assert [(ack.incarnation, ack.seq) for ack in acks] == [(INCARNATION, 1), (INCARNATION, 4), (LATER, 1)]
    assert [one.seq for one in here.keeper.deliveries] == [1, 4, 1]


@served
async def test_after_a_delivery_that_failed_nothing_more_is_handed_over(here: Aggregator) -> None:
    here.keeper.hold = True
    agent = here.agent("oss1")
    await agent.begin(hello("oss1"))
    first, second = sweep(1, "home-OST0000"), sweep(2, "home-OST0000")
    await agent.say(*first)
    await until(lambda: here.keeper.waiting)
    await agent.say(*second)
    await until(lambda: here.streams.held_bytes == sum(map(Batch.ByteSize, [*first, *second])))
    here.keeper.waiting.pop().set_exception(LedgerError("the disk is full: make room"))

    refusal = await agent.refused()
    assert refusal.reason == RefusalReason.REFUSAL_REASON_NOT_READY
    assert refusal.message == "the disk is full: make room"
    assert refusal.retry_after_seconds == 10
    assert [one.seq for one in here.keeper.deliveries] == [1]
    assert here.streams.held_bytes == 0


@served
async def test_a_restarted_agent_takes_the_place_of_its_old_stream(here: Aggregator) -> None:
    old, new = here.agent("oss1"), here.agent("oss1")
    await old.begin(hello("oss1", "home-OST0000"))
    await new.begin(hello("oss1", "home-OST0000"))
    assert (await old.ended())[0] is grpc.StatusCode.ABORTED
    await new.say(*sweep(1, "home-OST0000"))
    assert await new.acknowledged() == 1
    assert here.keeper.present == ["oss1"]


@served
async def test_a_clone_is_refused_and_the_first_goes_on(here: Aggregator) -> None:
    first, clone = here.agent("oss1"), here.agent("oss1")
    await first.begin(hello("oss1", "home-OST0000"))
    await clone.say(hello("oss1", "home-OST0000", boot_id="boot-2"))
    refusal = await clone.refused()
    assert refusal.reason == RefusalReason.REFUSAL_REASON_CLONE
    assert 0 < refusal.retry_after_seconds <= 50
    await first.say(*sweep(1, "home-OST0000"))
    assert await first.acknowledged() == 1


@served
async def test_a_second_agent_of_one_mount_is_refused_also_when_it_says_so_late(here: Aggregator) -> None:
    first, second = here.agent("oss1"), here.agent("oss2")
    await first.begin(hello("oss1", "home-OST0000"))
    await second.say(hello("oss2", "home-OST0000"))
    refusal = await second.refused()
    assert refusal.reason == RefusalReason.REFUSAL_REASON_TARGET_TAKEN
    assert "oss1" in refusal.message

    again = here.agent("oss2")
    await again.begin(hello("oss2"))
    await again.say(sweep(1, "home-OST0000")[0])
    assert (await again.refused()).reason == RefusalReason.REFUSAL_REASON_TARGET_TAKEN


@served
async def test_a_second_agent_of_one_mount_is_refused_also_with_what_it_has_spooled(here: Aggregator) -> None:
    """Two agents on one server, and one that has a copy of another's spool; before they have said what they report."""
    first = here.agent("oss1")
    await first.begin(hello("oss1"))
    await first.say(*sweep(1, "home-OST0000", server="oss1"))
    assert await first.acknowledged() == 1

    for name, boot_id, server in (("oss2", "boot-1", "oss2"), ("oss3", "boot-3", "oss1")):
        other = here.agent(name)
        await other.begin(hello(name, boot_id=boot_id, last_seq=9))
        await other.say(sweep(1, "home-OST0000", server=server)[0])
        refusal = await other.refused()
        assert refusal.reason == RefusalReason.REFUSAL_REASON_TARGET_TAKEN
        assert "home-OST0000 on boot boot-1 is reported by agent oss1 already" in refusal.message
        assert refusal.retry_after_seconds == 30

    assert [delivery.agent for delivery in here.keeper.deliveries] == ["oss1"]
    await first.say(*sweep(2, "home-OST0000", server="oss1"))
    assert await first.acknowledged() == 2


@served
async def test_spooled_sweeps_of_a_former_server_boot_or_name_come_late(here: Aggregator) -> None:
    holder, late = here.agent("oss2"), here.agent("oss1")
    await holder.begin(hello("oss2", "home-OST0000", boot_id="boot-2"))
    await late.begin(hello("oss1", boot_id="boot-3", last_seq=9))
    for seq, boot_id, server in ((1, "boot-1", "oss1"), (2, "boot-3", "oss1.old"), (3, "boot-3", "oss1")):
        await late.say(*sweep(seq, "home-OST0000", boot_id=boot_id, server=server))
        assert await late.acknowledged() == seq


@served
async def test_failover_partners_and_file_systems_of_one_name_live_side_by_side(here: Aggregator) -> None:
    first, second = here.agent("oss1"), here.agent("oss2")
    await first.begin(hello("oss1", "home-OST0000", "scratch-OST0000"))
    await second.begin(hello("oss2", "home-OST0000", boot_id="boot-2"))
    for agent, boot_id in ((first, "boot-1"), (second, "boot-2")):
        await agent.say(*sweep(1, "home-OST0000", "scratch-OST0000", boot_id=boot_id))
        assert await agent.acknowledged() == 1


@served
async def test_targets_of_other_file_systems_are_left_out(here: Aggregator) -> None:
    agent = here.agent("mds1")
    await agent.begin(hello("mds1", "home-MDT0000", "scratch-MDT0000"))
    await agent.say(*sweep(1, "home-MDT0000", "scratch-MDT0000", "home2-MDT0000"))
    assert await agent.acknowledged() == 1
    (delivery,) = here.keeper.deliveries
    assert [batch.target.name for _, batch in delivery.batches] == ["home-MDT0000", ""]


@served
async def test_a_full_picture_is_asked_for_where_sweeps_are_missing(here: Aggregator) -> None:
    here.keeper.durable["oss1", INCARNATION] = 5
    assert not (await here.agent("oss1").begin(hello("oss1", first_seq=6, last_seq=9))).full_picture
    assert not (await here.agent("oss1").begin(hello("oss1", first_seq=3, last_seq=5))).full_picture
    assert (await here.agent("oss1").begin(hello("oss1", first_seq=7, last_seq=9))).full_picture
    here.keeper.full_picture.add("oss2")
    assert (await here.agent("oss2").begin(hello("oss2"))).full_picture


@served
async def test_a_full_picture_is_asked_for_once_when_names_turn_out_to_be_missing(here: Aggregator) -> None:
    agent = here.agent("oss1")
    await agent.begin(hello("oss1"))
    here.keeper.full_picture.add("oss1")
    await agent.say(*sweep(1))
    assert await agent.acknowledged() == 1
    assert (await agent.hear()).welcome.full_picture
    await agent.say(*sweep(2))
    assert await agent.acknowledged() == 2
    here.keeper.full_picture.clear()
    await agent.say(*sweep(1, incarnation=LATER))
    assert await agent.acknowledged() == 1


@served
async def test_a_changed_site_is_told_and_cuts_those_who_are_not_in_it_any_more(here: Aggregator) -> None:
    first, second, third = here.agent("oss1"), here.agent("oss2"), here.agent("oss3")
    await first.begin(hello("oss1", "home-OST0000", "more-OST0000"))
    await second.begin(hello("oss2", "home-OST0001"))
    await third.begin(hello("oss3", "home-OST0002"))
    await here.change(
        SITE.replace("oss[1-4]", "oss[1-2]").replace("20s", "10s")
        + "  - {name: more, servers: [oss1], clients: {enabled: false}}"
    )

    welcome = (await first.hear()).welcome
    assert (welcome.interval_seconds, welcome.full_picture, list(welcome.resume)) == (10, True, [])
    assert [one.fsname for one in welcome.filesystems] == ["home", "scratch", "more"]
    assert not (await second.hear()).welcome.full_picture
    with pytest.raises(grpc.aio.AioRpcError, match="oss3 is not listed") as cut:
        await third.hear()  # no Welcome without file systems: it must keep what it has for when it is listed again
    assert cut.value.code() is grpc.StatusCode.PERMISSION_DENIED
    await here.change(SITE + "  - {name: other, servers: [x1]}")
    await second.say(*sweep(1))
    assert (await second.hear()).welcome.interval_seconds == 20
    assert await second.acknowledged() == 1


def test_who_is_taken_out_before_its_hello_came_is_not_let_in(tmp_path: Path) -> None:
    asked: list[datetime] = []

    def now() -> datetime:
        asked.append(datetime.now(UTC))
        return asked[-1]

    async def scenario() -> None:
        async with asyncio.timeout(60), aggregator(tmp_path, now=now) as here:
            agent = here.agent("oss3")
            await until(lambda: asked)  # it was let in, and its Hello is waited for
            await here.change(SITE.replace("oss[1-4]", "oss[1-2]"))
            await agent.say(hello("oss3"))
            assert (await agent.ended())[0] is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(scenario())


@served
async def test_a_certificate_that_is_denied_cuts_an_open_stream(here: Aggregator) -> None:
    tls = issued(here.ca, "oss1")
    agent = Agent(here.address, tls)
    await agent.begin(hello("oss1"))
    serial = here.ca.issued()[-1].serial
    await here.change(SITE + f'certificates: {{denySerials: ["{serial:x}"]}}')
    code, details = await agent.ended()
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "denySerials" in details


@served
async def test_nonsense_ends_the_stream_with_a_reason(here: Aggregator) -> None:
    """The nonsense is what is said last: who goes on to talk when the stream has ended may not hear why."""
    greeting = hello("oss1")
    without_end = sweep(1, "home-OST0000")[:1]
    for messages, reason in (
        ([*sweep(1)], "must begin with a Hello"),
        ([Hello(protocol=9, agent="oss1")], "protocol 1"),
        ([greeting, *without_end, *sweep(2)], "sweep 1 has no end"),
        ([greeting, *without_end, *without_end], "home-OST0000 twice"),
        ([greeting, sweep(1, "home-OST0000", parts=2)[1]], "part 1 of home-OST0000"),
        ([greeting, *sweep(2), *sweep(1)], "sweep 1 came after sweep 2"),
    ):
        agent = here.agent("oss1")
        await agent.say(*messages)
        response = await agent.hear()
        while not response.HasField("refusal"):
            assert response.WhichOneof("message")
            response = await agent.hear()
        assert response.refusal.reason == RefusalReason.REFUSAL_REASON_PROTOCOL
        assert reason in response.refusal.message


def test_a_certificate_that_ends_cuts_its_stream(tmp_path: Path) -> None:
    now = [datetime.now(UTC)]

    async def scenario() -> None:
        async with asyncio.timeout(60), aggregator(tmp_path, now=lambda: now[0]) as here:
            agent = Agent(here.address, issued(here.ca, "oss1", lifetime=timedelta(hours=1)))
            longer = here.agent("oss2")
            await agent.begin(hello("oss1"))
            await longer.begin(hello("oss2"))
            here.streams.cut_expired()
            now[0] += timedelta(hours=2)
            here.streams.cut_expired()
            code, details = await agent.ended()
            assert code is grpc.StatusCode.PERMISSION_DENIED
            assert "expired on" in details
            await longer.say(*sweep(1))
            assert await longer.acknowledged() == 1

    asyncio.run(scenario())


def test_messages_of_all_streams_at_once_are_held_only_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 1 << 20
    monkeypatch.setattr(streams, "HELD_BYTES", size)

    @served
    async def scenario(here: Aggregator) -> None:
        here.keeper.hold = True
        names = ["oss1", "oss2", "oss3", "oss4"]
        agents = [here.agent(name) for name in names]
        for number, (name, agent) in enumerate(zip(names, agents, strict=True)):
            await agent.begin(hello(name, f"home-OST{number:04}"))
        for number, agent in enumerate(agents):
            (read, end) = sweep(1, f"home-OST{number:04}")
            read.jobs.sum.data = bytes(size)
            await agent.say(read, end)
        while len(here.keeper.deliveries) < len(agents):
            await until(lambda: here.keeper.waiting)
            await asyncio.sleep(0.2)  # the others' messages are here by now
            assert here.streams.held_bytes < 2 * size
            here.keeper.waiting.pop().set_result(None)
        for agent in agents:
            assert await agent.acknowledged() == 1

    scenario(tmp_path)


@served
async def test_a_stream_is_not_read_on_while_too_much_waits(here: Aggregator) -> None:
    here.keeper.hold = True
    agent = here.agent("oss1")
    await agent.begin(hello("oss1"))
    sweeps = 60
    size = 1 << 20

    async def send() -> None:
        for seq in range(1, sweeps + 1):
            (read, end) = sweep(seq, "home-OST0000")
            read.jobs.sum.data = bytes(size)
            await agent.say(read, end)

    sending = asyncio.create_task(send())
    await until(lambda: here.streams.held_bytes > PENDING_BYTES)
    await asyncio.sleep(0.5)  # time in which it would be read on
    assert not sending.done()
    assert here.streams.held_bytes < PENDING_BYTES + 3 * size
    here.keeper.hold = False
    here.keeper.waiting[0].set_result(None)
    while await agent.acknowledged() < sweeps:
        pass
    await sending
    assert here.streams.held_bytes == 0
    assert [seq for one in here.keeper.deliveries for seq in {batch.seq: 0 for _, batch in one.batches}] == [
        *range(1, sweeps + 1)
    ]


def test_a_sweep_that_is_not_gone_on_with_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "STALL_SECONDS", 0.2)

    @served
    async def scenario(here: Aggregator) -> None:
        agent = here.agent("oss1")
        await agent.begin(hello("oss1"))
        await agent.say(sweep(1, "home-OST0000")[0])
        assert "not gone on with" in (await agent.refused()).message
        assert here.streams.held_bytes == 0

    scenario(tmp_path)
