"""One job of Slurm, in whichever form its facts came."""

from typing import Any

import pytest

from harvest.v1.stream_pb2 import SlurmJob as Message
from harvest_core.slurm.jobs import SlurmJob, count, is_set, job_of, states, text
from unit.core.slurm_names import Nobody


def job(**said: Any) -> SlurmJob:  # noqa: ANN401
    made = job_of({"id": 5, "state": "RUNNING"} | said, Nobody())
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        (0, 0),
        ("5", 5),
        (5.0, 5),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"number": 5}, 5),
        ({"set": False, "infinite": False, "number": 5}, -1),
        ({"set": True, "infinite": True, "number": 0}, -1),
        ({"set": True, "number": {"number": 1}}, -1),
        ({"set": True}, -1),
        ({}, -1),
        (None, -1),
        (True, -1),
        ("", -1),
        ("five", -1),
        ("²", -1),
        ("9" * 30, -1),
        (float("nan"), -1),
        (float("inf"), -1),
        ([], -1),
    ],
)
def test_numbers_come_as_such_as_text_or_as_set_infinite_and_number(value: object, number: int) -> None:
    assert count(value) == number


@pytest.mark.parametrize("none", [None, 4294967294, 4294967295, 18446744073709551614, {"set": False, "number": 0}, -1])
def test_slurms_words_for_none_are_no_numbers(none: object) -> None:
    assert not is_set(none)
    assert job(array_id=7, array_task=none).array_id == 0
    assert job(state="COMPLETED", start_seconds=none, end_seconds=none, nodes=none).start_seconds == 0


@pytest.mark.parametrize(
    ("said", "state", "flags"),
    [
        ("RUNNING", "RUNNING", ()),
        ("CANCELLED by 1000", "CANCELLED", ()),
        (["COMPLETED"], "COMPLETED", ()),
        (["RUNNING", "COMPLETING"], "RUNNING", ("COMPLETING",)),
        (["COMPLETING", "FAILED"], "FAILED", ("COMPLETING",)),
        (["PENDING", "REQUEUED"], "PENDING", ("REQUEUED",)),
        ("COMPLETING", "COMPLETING", ("COMPLETING",)),
        ("CONFIGURING", "RUNNING", ("CONFIGURING",)),
        ("SPECIAL_EXIT", "PENDING", ("SPECIAL_EXIT",)),
        ("REQUEUED", "REQUEUED", ("REQUEUED",)),
        (["OUT_OF_MEMORY"], "OUT_OF_MEMORY", ()),
        ("completed", "COMPLETED", ()),
        ([], "UNKNOWN", ()),
        ("", "UNKNOWN", ()),
        (None, "UNKNOWN", ()),
        (7, "UNKNOWN", ()),
        ([None, {}], "UNKNOWN", ()),
    ],
)
def test_states_are_a_word_with_or_without_flags(said: object, state: str, flags: tuple[str, ...]) -> None:
    assert states(said) == (state, flags)


def test_what_slurm_only_expects_is_not_told() -> None:
    expected = {"start_seconds": 100, "end_seconds": 200, "exit_code": 0}
    assert job(state="PENDING", **expected).start_seconds == 0
    running = job(state="RUNNING", **expected)
    assert (running.start_seconds, running.end_seconds, running.exit_code) == (100, 0, "")
    assert job(state="SUSPENDED", **expected).end_seconds == 0
    for state in ("COMPLETED", "COMPLETING", "REQUEUED", "TIMEOUT"):
        ended = job(state=state, **expected)
        assert (ended.start_seconds, ended.end_seconds, ended.exit_code) == (100, 200, "0:0")


@pytest.mark.parametrize(
    ("state", "is_ended"),
    [("PENDING", False), ("RUNNING", False), ("SUSPENDED", False), ("COMPLETING", False), ("UNKNOWN", False)]
    + [
        (state, True) for state in ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "REQUEUED")
    ],
)
def test_a_run_has_ended_when_slurm_says_how(state: str, is_ended: bool) -> None:  # noqa: FBT001
    assert job(state=state).is_ended is is_ended


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (0, "0:0"),
        (256, "1:0"),
        (9, "0:9"),
        (53, "0:53"),
        ("0:15", "0:15"),
        ({"status": "SUCCESS", "return_code": 0}, "0:0"),
        ({"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 9, "name": "KILL"}}, "0:9"),
        ({"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 3}}, "3:0"),
        (
            {
                "return_code": {"set": True, "infinite": False, "number": 0},
                "signal": {"id": {"set": True, "infinite": False, "number": 15}, "name": "TERM"},
            },
            "0:15",
        ),
        ({"status": "PENDING"}, ""),
        ("", ""),
        ("a:b", ""),
        (None, ""),
        (4294967294, ""),
    ],
)
def test_exit_codes_are_as_sacct_prints_them(said: object, code: str) -> None:
    assert job(state="FAILED", exit_code=said).exit_code == code


def test_a_task_of_an_array_has_its_arrays_number_also_task_0_and_the_one_that_kept_the_arrays_own() -> None:
    assert (job(id=9, array_id=5, array_task=0).array_id, job(id=9, array_id=5, array_task=0).array_task) == (5, 0)
    assert (job(id=5, array_id=5, array_task=3).array_id, job(id=5, array_id=5, array_task=3).array_task) == (5, 3)


def test_tasks_that_have_not_started_share_a_record_that_is_in_no_array() -> None:
    waiting = job(id=5, state="PENDING", array_id=5, array_task=None)
    assert (waiting.id, waiting.array_id, waiting.array_task) == (5, 0, 0)


def test_a_job_that_is_in_no_array_is_in_none_whatever_its_task_says() -> None:
    assert (job(array_id=0, array_task=7).array_id, job(array_id=0, array_task=7).array_task) == (0, 0)


def test_components_of_a_het_job_have_their_leader() -> None:
    assert (job(het_leader=4, het_offset=1).het_leader, job(het_leader=4, het_offset=1).het_offset) == (4, 1)
    assert (job(het_leader=0, het_offset=4294967294).het_leader, job(het_offset=1).het_offset) == (0, 0)


@pytest.mark.parametrize("number", [None, 0, -1, "x", 4294967294, 4294967295, {"set": False, "number": 5}, 1 << 70])
def test_what_has_no_number_is_no_job(number: object) -> None:
    assert job_of({"id": number, "state": "RUNNING"}, Nobody()) is None


def test_names_are_asked_for_only_where_slurm_says_none() -> None:
    names = Nobody()
    made = job_of({"id": 5, "user": "alice", "uid": 7, "group": "users", "gid": 8}, names)
    assert names.asked == []
    assert made is not None
    assert (made.user, made.uid, made.group) == ("alice", 7, "users")
    assert (job(uid=0, gid=0).user, job(uid=0, gid=0).group) == ("u0", "g0")
    assert (job().user, job().group) == ("", "")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("name", "name"),
        ("", ""),
        ("(null)", ""),
        (None, ""),
        (5, ""),
        ("half \ud83d", "half ?"),
        ("n" * 2000, "n" * 1024),
    ],
)
def test_text_can_be_sent_whatever_it_was(said: object, told: str) -> None:
    assert text(said) == told
    Message(name=told).SerializeToString()


def test_a_job_is_the_same_behind_the_wire() -> None:
    before = SlurmJob(
        id=9,
        array_id=5,
        array_task=4,
        het_leader=3,
        het_offset=2,
        name="n",
        user="u",
        uid=1000,
        group="g",
        account="a",
        partition="p",
        state="FAILED",
        flags=("COMPLETING",),
        submit_seconds=1,
        start_seconds=2,
        end_seconds=3,
        restarts=4,
        nodes=5,
        exit_code="1:0",
    )
    message = Message()
    before.write(message)
    assert SlurmJob.read(Message.FromString(message.SerializeToString())) == before
    assert {field.name for field in Message.DESCRIPTOR.fields} == set(SlurmJob.__dataclass_fields__)


def test_no_number_is_too_large_for_the_wire() -> None:
    most = dict.fromkeys(
        ("uid", "array_id", "array_task", "het_leader", "het_offset", "restarts", "nodes", "start_seconds"), 1 << 80
    )
    job(state="COMPLETED", **most).write(Message())
