"""When whose clients are read, and in which sweep that is told."""

from dataclasses import replace

from harvest_agent.client_rounds import ClientRounds
from harvest_core.facts import Facts, Mount
from unit.agent.client_files import EPOCH, Clock, Ost, about

PERIOD = 60
KEY = ("obdfilter", "fs-OST0000")


class Server:
    """One OST, and an agent's rounds through its clients; sweeps come every 20 seconds."""

    def __init__(self, clients: int, *, seconds_per_file: float = 0.0) -> None:
        self.clock = Clock(seconds_per_file=seconds_per_file)
        self.ost = Ost(self.clock)
        self.count = clients
        self.work(1)
        self.rounds = ClientRounds(self.clock)
        self.rounds.want({"fs": PERIOD})
        self.is_mounted = True
        self.tick = EPOCH - EPOCH % PERIOD
        self.seq = 0

    def work(self, written: int) -> None:
        """Let every client have written so much."""
        for number in range(self.count):
            self.ost.show(f"10.0.{number >> 8}.{number & 255}@tcp", uuid="", write_bytes=written)

    def sweep(self) -> list[Facts]:
        self.seq += 1
        mount = Mount(server="oss1", boot_id="boot-1", instance=self.ost.instance)
        mounted = {KEY: (self.ost.files, mount)} if self.is_mounted else {}
        return list(self.rounds.sweep(replace(about(self.seq, period_seconds=20), tick_seconds=self.tick), mounted))

    def wait(self, seconds: float) -> int:
        """Let time pass, read what is due, and return how many clients were read."""
        self.clock.now += seconds
        self.ost.reads.clear()
        self.rounds.read()
        return sum(path.endswith("/stats") for path in self.ost.reads)

    def wait_for_sweep(self, seconds: int = 20) -> list[Facts]:
        for _ in range(seconds):
            self.wait(1.0)
        self.tick += seconds
        return self.sweep()


def read_bytes(facts: list[Facts]) -> list[int]:
    return [int(total) for part in facts for total in part.moved.sum]


def test_a_pass_is_spread_over_four_fifths_of_the_period() -> None:
    server = Server(96)
    server.sweep()

    assert [server.wait(12) for _ in range(5)] == [24, 24, 24, 24, 0]
    assert server.rounds.wait_seconds is None


def test_while_there_is_something_to_read_the_next_look_comes_soon() -> None:
    server = Server(96)
    assert server.rounds.wait_seconds is None  # nothing was found yet
    server.sweep()

    assert server.rounds.wait_seconds == 1.0
    server.rounds.want({"fs": 10})
    assert server.rounds.wait_seconds == 10 * 0.8 / 10


def test_of_no_second_more_than_a_quarter_is_spent_reading() -> None:
    server = Server(2000, seconds_per_file=0.02)
    server.sweep()
    for _ in range(30):
        began = server.clock.now + 1.0
        server.wait(1.0)

        assert server.clock.now - began <= 0.25
        server.clock.now = began


def test_when_the_time_is_up_no_other_folder_is_listed() -> None:
    server = Server(5, seconds_per_file=0.02)
    other = Ost(server.clock, name="fs-OST0001")
    mount = Mount(server="oss1", boot_id="boot-1", instance=1)
    mounted = {KEY: (server.ost.files, mount), ("obdfilter", other.name): (other.files, mount)}
    list(server.rounds.sweep(about(1), mounted))

    assert (server.wait(60), other.reads) == (5, [])
    server.wait(1.0)
    assert other.reads == ["exports"]


def test_after_a_long_wait_no_more_is_read_than_in_a_second() -> None:
    server = Server(2000, seconds_per_file=0.001)
    server.sweep()
    began = server.clock.now + 40
    server.wait(40)

    assert server.clock.now - began <= 0.25


def test_a_pass_is_told_in_the_first_sweep_of_the_next_period() -> None:
    server = Server(3)
    assert server.sweep() == []
    told = [server.wait_for_sweep() for _ in range(6)]

    assert [len(facts) for facts in told] == [0, 0, 1, 0, 0, 1]
    [facts] = told[2]
    assert (read_bytes(told[2]), facts.period_seconds, facts.complete) == ([1, 1, 1], PERIOD, True)
    assert (facts.kind, facts.target, facts.mount.instance) == ("OST", "fs-OST0000", 1)


def test_a_pass_that_takes_longer_is_told_when_it_is_done() -> None:
    server = Server(190, seconds_per_file=0.06)
    server.sweep()
    told = [server.wait_for_sweep() for _ in range(5)]

    assert [sum(part.cost.records for part in facts) for facts in told] == [0, 0, 0, 0, 190]


def test_a_remount_during_a_pass_keeps_what_was_read_before_and_tells_it_in_the_next_sweep() -> None:
    server = Server(4)
    server.sweep()
    for written in (1, 1, 5):
        server.work(written)
        server.wait_for_sweep()
    assert server.wait(24) == 2
    server.ost.instance = 2
    server.work(1)
    server.wait(24)

    [facts] = server.wait_for_sweep()

    assert (read_bytes([facts]), facts.mount.instance, facts.complete, list(facts.gone)) == ([5, 5], 1, False, [])
    [later] = [facts for _ in range(3) for facts in server.wait_for_sweep()]
    assert (read_bytes([later]), later.mount.instance, later.complete) == ([1] * 4, 2, True)


def test_that_a_target_was_unmounted_is_said_by_what_was_read_afterwards_only() -> None:
    server = Server(1)
    server.ost.instance = None  # before 2.5.3 nothing else tells
    server.sweep()
    for written in (1, 1, 7):
        server.work(written)
        server.wait_for_sweep()
    server.wait(30)
    server.is_mounted = False
    [before] = server.wait_for_sweep()
    server.is_mounted = True
    server.work(8)
    server.sweep()
    after = [facts for _ in range(6) for facts in server.wait_for_sweep()]

    assert (read_bytes([before]), before.directory_gone) == ([7], False)
    assert [facts.directory_gone for facts in after] == [True, False]


def test_clients_that_nobody_wants_any_more_are_told_of_as_far_as_they_were_read() -> None:
    server = Server(2)
    server.sweep()
    server.wait(24)
    server.rounds.want({})

    [facts] = server.sweep()

    assert (read_bytes([facts]), facts.complete) == ([1], False)
    assert (server.sweep(), server.wait(60), server.rounds.wait_seconds) == ([], 0, None)


def test_clients_of_other_file_systems_are_not_read() -> None:
    server = Server(2)
    server.rounds.want({"other": PERIOD})
    server.sweep()

    assert (server.wait(60), server.rounds.wait_seconds) == (0, None)


def test_a_pass_that_was_skipped_begins_as_soon_as_the_target_counts_again() -> None:
    server = Server(4)
    server.sweep()
    for _ in range(3):
        server.wait_for_sweep()
    assert server.wait(20) == 0
    assert server.rounds.wait_seconds is not None

    server.work(2)

    assert server.wait(40) == 4
    server.tick += PERIOD
    assert read_bytes(server.sweep()) == [2, 2, 2, 2]


def test_a_pass_that_begins_late_ends_with_the_period_so_that_all_servers_tell_together() -> None:
    server = Server(96)
    server.tick += 20  # the agent was started then
    server.sweep()

    assert [len(server.wait_for_sweep()) for _ in range(5)] == [0, 1, 0, 0, 1]


def test_what_cannot_be_read_is_told_until_it_can_be() -> None:
    server = Server(4)
    server.sweep()
    server.ost.unreadable["exports"] = "Permission denied"
    server.wait_for_sweep()
    assert server.rounds.problems() == ["fs-OST0000: its clients cannot be listed: Permission denied"]

    del server.ost.unreadable["exports"]
    server.ost.unreadable["exports/10.0.0.2@tcp/stats"] = "Permission denied"
    for _ in range(5):
        server.wait_for_sweep()
    assert server.rounds.problems() == ["fs-OST0000: 1 clients cannot be read: 10.0.0.2@tcp"]

    server.ost.unreadable.clear()
    for _ in range(6):
        server.wait_for_sweep()
    assert server.rounds.problems() == []
