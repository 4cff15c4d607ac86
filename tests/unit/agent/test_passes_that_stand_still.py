"""What was read before an agent stood still has the tick by which it was read: no rate packs the gap into a period."""

from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.wire import joined
from harvest_core.facts import Facts
from unit.agent.client_files import NSECS, sent
from unit.agent.test_client_rounds import PERIOD, Server

Told = dict[str, tuple[int, int]]
"""By client: how much it has written since it was last told, and in how many seconds."""


class Accounted:
    """Four clients, their agent, and an aggregator that hears of every sweep."""

    def __init__(self) -> None:
        self.server = Server(4)
        self.account = TargetAccount()
        self.written = 1
        self.server.sweep()
        self.told = self.sweeps(3)

    def sweeps(self, count: int, seconds: int = 20) -> Told:
        """Let some sweeps come, and return what the last of them tells."""
        return [self.applied(self.server.wait_for_sweep(seconds)) for _ in range(count)][-1]

    def stand_still(self, seconds: int) -> None:
        """Let all clients write much while the agent does nothing."""
        self.write(seconds)
        self.server.clock.now += seconds
        self.server.tick += seconds

    def write(self, count: int) -> None:
        self.written += count
        self.server.work(self.written)

    def applied(self, facts: list[Facts]) -> Told:
        """Return what the accounting makes of a sweep."""
        if not facts:
            return {}
        for part in facts:
            part.read_at = part.uptime = part.tick_seconds * NSECS
        work = self.account.apply(joined([sent(part) for part in facts]))
        assert work.mount is not None
        rows = zip(work.row, work.sum, work.window_seconds, strict=True)
        return {work.mount.jobs[row].decode(): (int(total), int(window)) for row, total, window in rows}


def nids(*numbers: int) -> list[str]:
    return [f"10.0.0.{number}@tcp" for number in numbers]


def test_of_a_pass_in_whose_midst_an_agent_stood_still_each_client_has_its_own_time() -> None:
    """Two had been read before; their work of the gap comes with the next pass, and is not that of one period."""
    one = Accounted()
    one.write(60)
    assert one.server.wait(24) == 2
    one.server.tick += 20
    assert one.applied(one.server.sweep()) == {}
    one.stand_still(300)
    assert one.server.wait(16) == 2
    one.server.tick += 20

    first = one.applied(one.server.sweep())

    assert {nid: first[nid] for nid in nids(0, 1)} == dict.fromkeys(nids(0, 1), (60, PERIOD))
    assert {nid: first[nid] for nid in nids(2, 3)} == dict.fromkeys(nids(2, 3), (360, 340))
    one.write(20)
    second = one.sweeps(1)
    assert {nid: second[nid] for nid in nids(0, 1)} == dict.fromkeys(nids(0, 1), (320, 300))
    assert {nid: second[nid] for nid in nids(2, 3)} == dict.fromkeys(nids(2, 3), (20, 20))


def test_a_pass_that_was_done_before_an_agent_stood_still_has_the_tick_at_which_it_was_due() -> None:
    one = Accounted()
    one.write(60)
    one.sweeps(2)
    one.server.wait(15)
    one.stand_still(305)
    one.server.tick += 15

    assert set(one.applied(one.server.sweep()).values()) == {(60, PERIOD)}
    assert set(one.sweeps(3).values()) == {(305, 300 + PERIOD)}


def test_that_nobody_moved_is_known_only_until_the_last_look() -> None:
    """The target had counted nothing; what it counted while the agent stood still was not done in the next period."""
    one = Accounted()
    assert one.sweeps(2) == {}
    one.server.wait(15)
    one.stand_still(305)
    one.server.tick += 15

    assert one.applied(one.server.sweep()) == {}
    assert set(one.sweeps(3).values()) == {(305, 300 + PERIOD)}


def test_a_first_sight_before_an_agent_stood_still_began_no_earlier_for_that() -> None:
    one = Accounted()
    began = f"start_time {one.server.tick + 1}.000000000 secs.nsecs\n"
    one.server.ost.print("10.0.0.9@tcp", f"{began}write_bytes 7 samples [bytes] 1 1 7\n")
    one.server.ost.own += 1
    one.sweeps(2)
    one.server.wait(15)
    one.stand_still(305)
    one.server.tick += 15

    assert one.applied(one.server.sweep()) == {"10.0.0.9@tcp": (7, PERIOD)}


def test_where_a_clock_was_set_during_a_pass_only_time_that_passed_counts() -> None:
    one = Accounted()
    one.write(60)
    one.sweeps(2)
    one.server.tick += 3600

    [facts] = one.server.wait_for_sweep()

    assert facts.clients is not None
    assert list(facts.clients.early_slot) == []


def test_a_client_that_could_not_be_read_for_some_passes_has_all_that_time() -> None:
    one = Accounted()
    one.server.ost.unreadable["exports/10.0.0.2@tcp/stats"] = "Input/output error"
    for _ in range(3):
        one.write(60)
        assert set(one.sweeps(3)) == {*nids(0, 1, 3)}
    one.server.ost.unreadable.clear()
    one.write(60)

    told = one.sweeps(3)

    assert told.pop("10.0.0.2@tcp") == (240, 4 * PERIOD)
    assert set(told.values()) == {(60, PERIOD)}
