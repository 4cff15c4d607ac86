"""A site in real time, with a clock that is an argument."""

from pathlib import Path

from harvest_sim.live import Live, World
from harvest_sim.settings import Settings

UPTIME = "oss1/proc/uptime"


class Clock:
    """Moves when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def live(self, root: Path) -> Live:
        world = World(
            seconds=lambda: self.seconds,
            epoch_seconds=1_700_000_000,
            sleep=lambda _: None,
            say=lambda _: None,
            is_stopped=lambda: False,
            is_report_wanted=lambda: False,
        )
        settings = Settings(oss={"oss1": "2.16.1"}, mds={"mds1": "2.15.8"}, provable=True, event_seconds=0)
        return Live(settings, root=root, for_seconds=100.0, world=world)

    def play(self, live: Live, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.seconds += 0.1
            live.step()


def done(live: Live) -> int:
    return sum(row.done_samples for row in live.site.truth.rows())


def uptime(root: Path) -> float:
    return float((root / UPTIME).read_text().split()[0])


def test_while_a_site_is_held_nothing_is_done_and_its_clocks_go_on(tmp_path: Path) -> None:
    clock = Clock()
    live = clock.live(tmp_path)
    clock.play(live, 5)
    before, up = done(live), uptime(tmp_path)
    assert before > 0
    live.is_held = True
    clock.play(live, 3)
    assert done(live) == before
    assert 2.5 < uptime(tmp_path) - up < 3.5
    live.face.close()


def test_what_was_put_off_is_done_later_in_its_own_time_and_not_at_once(tmp_path: Path) -> None:
    held, free = Clock(), Clock()
    one, other = held.live(tmp_path / "held"), free.live(tmp_path / "free")
    for clock, live in ((held, one), (free, other)):
        clock.play(live, 5)
    one.is_held = True
    held.play(one, 8)
    one.is_held = False
    before = done(one)
    for clock, live in ((held, one), (free, other)):
        clock.play(live, 1)
    assert before < done(one) <= done(other)
    one.face.close()
    other.face.close()
