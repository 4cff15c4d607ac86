"""What changed between two answers of slurmctld, and what it has forgotten."""

from harvest_core.slurm.jobs import SlurmJob
from harvest_core.slurm.table import Changes, SlurmTable


def job(number: int, state: str = "RUNNING", start: int = 100, restarts: int = 0) -> SlurmJob:
    return SlurmJob(id=number, state=state, start_seconds=start, restarts=restarts)


class Queue:
    """A table that is told whole answers."""

    def __init__(self) -> None:
        self.table = SlurmTable()

    def shows(self, *jobs: SlurmJob, is_whole: bool = True) -> Changes:
        self.table.take(jobs)
        return self.table.end(is_whole=is_whole)


def test_only_what_is_new_or_differs_has_changed() -> None:
    queue = Queue()
    assert queue.shows(job(1), job(2)).changed == (job(1), job(2))
    assert queue.shows(job(1), job(2)) == Changes((), ())
    assert queue.shows(job(1), job(2, "COMPLETED"), job(3, "PENDING", 0)).changed == (
        job(2, "COMPLETED"),
        job(3, "PENDING", 0),
    )


def test_a_job_that_ended_is_forgotten_and_not_missed() -> None:
    queue = Queue()
    queue.shows(job(1, "COMPLETED"), job(2))
    assert queue.shows(job(2)) == Changes((), ())
    assert queue.table.jobs() == [job(2)]
    assert len(queue.table) == 1


def test_a_job_that_had_not_ended_is_missed_once() -> None:
    queue = Queue()
    queue.shows(job(1), job(2, "PENDING", 0), job(3, "COMPLETING"))
    assert queue.shows().lost == ((1, 100), (2, 0), (3, 100))
    assert queue.shows().lost == ()


def test_a_requeued_job_leaves_a_run_whose_end_nobody_has_shown() -> None:
    queue = Queue()
    queue.shows(job(1))
    assert queue.shows(job(1, "PENDING", 0, restarts=1)).lost == ((1, 100),)
    assert queue.shows(job(1, "RUNNING", 300, restarts=1)).lost == (), "waiting is no run"
    assert queue.shows(job(1, "RUNNING", 500, restarts=2)).lost == ((1, 300),), "requeued between two answers"


def test_a_run_whose_end_was_shown_is_not_missed_when_its_number_is_used_again() -> None:
    queue = Queue()
    queue.shows(job(1, "FAILED"))
    assert queue.shows(job(1, "RUNNING", 300)).lost == ()


def test_of_an_answer_that_was_cut_short_nothing_is_missed_and_what_it_showed_counts() -> None:
    queue = Queue()
    queue.shows(job(1), job(2))
    assert queue.shows(job(1, "COMPLETED"), is_whole=False) == Changes((job(1, "COMPLETED"),), ())
    assert queue.shows(job(1, "COMPLETED"), job(2)) == Changes((), ())


def test_a_change_and_its_return_within_one_answer_is_told_as_it_is_last() -> None:
    queue = Queue()
    assert queue.shows(job(1), job(1, "COMPLETED")).changed == (job(1, "COMPLETED"),)
