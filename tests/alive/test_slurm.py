"""A real agent that asks Slurm: what reaches an aggregator, and what a Slurm that fails does to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alive.agents import AgentProcess
from alive.receiver import Receiver, make_ca, serve, wait_for
from harvest.v1.stream_pb2 import JobTable
from support.fake_slurm import FakeSlurm

RUNNING = {
    "job_id": 7,
    "name": "prép",
    "user_name": "alice",
    "user_id": 1000,
    "group_name": "users",
    "account": "physics",
    "partition": "batch",
    "job_state": ["RUNNING"],
    "start_time": {"set": True, "infinite": False, "number": 1700000100},
}
ENDED = RUNNING | {"job_state": ["COMPLETED"], "end_time": 1700000200, "exit_code": 0}
ACCOUNTED = "7|7|1000|alice|users|physics|batch|CANCELLED by 1000|1700000000|1700000100|1700000150|1|0:15|a|b"

LINE = "{0}|{0}|1000|alice|users|physics|batch|RUNNING|1700000000|1700000100|1700003700|4|0:0|0|job number {0}"


class Scene:
    """An agent beside a Slurm, an aggregator that wants its jobs."""

    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm(folder / "slurm")
        self.receiver = Receiver(job_table=True)
        self._folder = folder
        self._ca = make_ca(folder)
        self._server, self._port = serve(self.receiver, folder / "tls")

    def start(self, **settings: object) -> AgentProcess:
        self.agent = AgentProcess(self._folder, self._ca, (self._port,), slurm=self.slurm.section(**settings))
        return self.agent

    def states(self) -> list[str]:
        return [f"{job.id} {job.state}" for table in self.receiver.tables for job in table.jobs]

    def health(self) -> str:
        return next((table.health.problem for table in reversed(self.receiver.tables) if table.last), "")

    def close(self) -> None:
        if self.agent.process.poll() is None:
            self.agent.kill()
        self._server.stop(0).wait(10)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_jobs_reach_the_aggregator_all_of_them_once_and_then_what_changes(scene: Scene) -> None:
    scene.slurm.shows(RUNNING, RUNNING | {"job_id": 8})
    scene.start()
    wait_for(lambda: len(scene.states()) == 2, "the whole table")
    scene.slurm.shows(ENDED, RUNNING | {"job_id": 8})
    wait_for(lambda: len(scene.states()) == 3, "the change")

    assert scene.states() == ["7 RUNNING", "8 RUNNING", "7 COMPLETED"]
    tables = [table for table in scene.receiver.tables if table.jobs]
    assert [(table.full, table.last) for table in tables] == [(True, True), (False, True)]
    job = tables[0].jobs[0]
    assert (job.name, job.user, job.group, job.account, job.partition) == ("prép", "alice", "users", "physics", "batch")
    assert (job.start_seconds, tables[1].jobs[0].end_seconds) == (1700000100, 1700000200)
    health = tables[1].health
    assert (health.source, health.problem, health.failed_queries) == ("command", "", 0)
    assert health.answered_seconds > 1700000000
    wait_for(lambda: len(scene.receiver.sweeps()) >= 1, "sweeps of a server without Lustre")
    problems = {text for batch in scene.receiver.sweeps() for text in batch.end.health.problems}
    assert {text for text in problems if "sweeps were skipped" not in text} == set()  # others may keep it from ticks
    assert scene.agent.stop() == 0


def test_jobs_that_slurmctld_forgets_are_asked_of_accounting_once(scene: Scene) -> None:
    scene.slurm.shows(RUNNING, RUNNING | {"job_id": 8})
    scene.slurm.accounts(ACCOUNTED)
    scene.start()
    wait_for(lambda: len(scene.states()) == 2, "the whole table")
    scene.slurm.shows()
    wait_for(lambda: len(scene.states()) == 3, "what accounting knows")
    unknown = [number for table in scene.receiver.tables for number in table.unknown_jobs]
    asked = len(scene.slurm.calls("squeue"))
    wait_for(lambda: len(scene.slurm.calls("squeue")) >= asked + 3, "more answers")

    assert scene.states()[-1] == "7 CANCELLED"
    assert unknown == [8]
    assert [call.rpartition("=")[2] for call in scene.slurm.calls("sacct")] == ["7,8"]


def test_questions_are_answered_jobs_and_users(scene: Scene) -> None:
    scene.slurm.shows(RUNNING)
    scene.slurm.accounts(ACCOUNTED.replace("7|7", "5|5"))
    scene.start()
    wait_for(lambda: scene.states() == ["7 RUNNING"], "the whole table")
    scene.receiver.ask(5, 6, 7, uids=(0, 3999999))
    wait_for(lambda: "5 CANCELLED" in scene.states(), "the job that only accounting knows")
    wait_for(lambda: len(users(scene.receiver.tables)) == 2, "both users")

    assert "7 RUNNING" in scene.states()[1:]
    assert [number for table in scene.receiver.tables for number in table.unknown_jobs] == [6]
    assert users(scene.receiver.tables) == {0: "root", 3999999: ""}


def users(tables: list[JobTable]) -> dict[int, str]:
    return {user.uid: user.name for table in tables for user in table.users}


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("fail", "squeue failed with code 1: slurm_load_jobs error: Unable to contact slurm controller"),
        ("garbage", "the JSON ends too early, or is none"),
        ("cut", "the JSON ends too early, or is none"),
        ("hang", "squeue did not answer in 3 s"),
    ],
)
def test_a_slurm_that_fails_is_named_sweeps_go_on_and_nothing_is_forgotten(
    scene: Scene, mode: str, problem: str
) -> None:
    scene.slurm.shows(RUNNING)
    # one that is well must not take so long, however busy we are
    scene.start(limit_seconds=3 if mode == "hang" else 20)
    wait_for(lambda: scene.states() == ["7 RUNNING"], "the whole table")
    scene.slurm.does(mode)
    wait_for(lambda: problem in scene.health(), f"the problem, not {scene.health()}")
    sweeps = len(scene.receiver.sweeps())
    wait_for(lambda: len(scene.receiver.sweeps()) >= sweeps + 2, "sweeps")
    told = [each for batch in scene.receiver.sweeps() for each in batch.end.health.problems]
    scene.slurm.does("well")
    wait_for(lambda: not scene.health(), "that it is well again")

    assert any(each.startswith(f"Slurm: {problem}") for each in told)
    assert scene.states() == ["7 RUNNING"]
    assert not any(is_alive(pid) for pid in scene.slurm.hung())


def test_a_hundred_thousand_jobs_come_in_parts_and_sweeps_go_on(scene: Scene) -> None:
    lines = [LINE.format(number) for number in range(1, 100_001)]
    scene.slurm.prints(*lines)
    scene.start(period_seconds=5, limit_seconds=60)
    full = scene.receiver.tables
    wait_for(lambda: any(table.full and table.last for table in full), "the whole table", 100)
    sweeps = len(scene.receiver.sweeps())
    wait_for(lambda: len(scene.receiver.sweeps()) >= sweeps + 2, "sweeps")
    lines[7] = lines[7].replace("RUNNING", "COMPLETED")
    scene.slurm.prints(*lines)
    wait_for(lambda: bool(full[-1].jobs) and not full[-1].full, "the change", 60)

    assert [job.id for table in full if table.full for job in table.jobs] == list(range(1, 100_001))
    assert all(table.ByteSize() < 4 << 20 for table in full)
    assert [(job.id, job.state) for table in full if not table.full for job in table.jobs] == [(8, "COMPLETED")]
    resident = max(batch.end.health.resident_bytes for batch in scene.receiver.sweeps())
    print(f"100,000 jobs: {resident >> 20} MiB resident, {cpu_seconds(scene.agent.process.pid):.1f} s of CPU in all")
    assert resident < 256 << 20


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_sigterm_leaves_no_process_behind(scene: Scene) -> None:
    scene.slurm.does("hang")
    scene.start()
    wait_for(lambda: len(scene.slurm.hung()) == 2, "a squeue that hangs, and its child")

    assert scene.agent.stop() == 0
    assert not any(is_alive(pid) for pid in scene.slurm.hung())


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
