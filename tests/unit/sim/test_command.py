import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harvest_sim.__main__ import main, parse_arguments, settings_of
from harvest_sim.live import Live, World, run
from harvest_sim.settings import Settings, SettingsError


@dataclass(kw_only=True)
class FakeWorld:
    """A world whose time passes only in sleep, and in which somebody reads all job_stats once a second."""

    root: Path
    seconds: float = 100.0
    said: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        before, self.seconds = self.seconds, self.seconds + seconds
        if int(before) != int(self.seconds):
            for path in self.root.glob("*/proc/fs/lustre/*/*/job_stats"):
                path.read_bytes()

    def world(self) -> World:
        return World(
            seconds=lambda: self.seconds,
            epoch_seconds=1_700_000_000,
            sleep=self.sleep,
            say=self.said.append,
            is_stopped=lambda: False,
            is_report_wanted=lambda: False,
        )


def test_a_site_on_disk_lives_and_ends_with_everything_shown(tmp_path: Path) -> None:
    settings = Settings(
        oss={"oss1": "2.12.9", "oss2": "2.15.4"}, mds={"mds1": "2.17.0"}, osts_per_oss=1, publish_seconds=0.5
    )
    fake = FakeWorld(root=tmp_path)
    site = run(settings, root=tmp_path, truth_path=tmp_path / "truth.json", for_seconds=40, world=fake.world())
    assert site.truth.unshown() == []
    events = site.truth.events
    happened = ["clear", "clear of one job", "evicted", "remount", "failover", "failback", "reboot", "clock step"]
    assert [name for name in happened if not events[name]] == []
    report = json.loads((tmp_path / "truth.json").read_text())
    assert report["lives_not_shown_whole"] == 0
    assert report["returns"]["equal"] > 0
    [write] = [
        op
        for job in report["jobs"]
        if (job["fs"], job["kind"], job["job"]) == ("demo", "ost", "1000000")
        for op in job["ops"]
        if op["op"] == "write_bytes"
    ]
    assert write["done"] == write["shown"]
    assert len(fake.said) >= 40


def test_the_clocks_of_an_idle_site_go_on(tmp_path: Path) -> None:
    fake = FakeWorld(root=tmp_path)
    settings = Settings(oss={"oss1": "2.15.4"}, mds={"mds1": "2.15.4"}, publish_seconds=0.5)
    live = Live(settings, root=tmp_path, for_seconds=40, world=fake.world())
    clock = live.site.servers["oss1"].clock
    wall_ns, boot_ns = clock.wall_ns(), clock.boot_ns()
    fake.sleep(7)
    live.step()
    at_ns = live.site.now_ns
    assert (clock.wall_ns() - wall_ns - at_ns, clock.boot_ns() - boot_ns - at_ns) == (7 * 10**9, 7 * 10**9)
    live.face.close()


def test_options_win_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "site.toml"
    config.write_text('oss = {a = "2.5.3"}\nmds = {m = "2.15.0"}\nseed = 3\ncleanup_seconds = 8\n')
    options = parse_arguments(["--root", "x", "--config", str(config), "--oss", "b=2.16.1", "--cleanup", "6"])
    settings = settings_of(options)
    assert (settings.oss, settings.mds) == ({"b": "2.16.1"}, {"m": "2.15.0"})
    assert (settings.seed, settings.cleanup_seconds) == (3, 6)


def test_settings_may_stand_in_json(tmp_path: Path) -> None:
    config = tmp_path / "site.json"
    config.write_text('{"fsnames": ["home", "gdata"]}')
    assert settings_of(parse_arguments(["--root", "x", "--config", str(config)])).fsnames == ("home", "gdata")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"oss": {"a": "2.12.9"}, "mds": {"m": "2.12.9"}, "sed": 1}, "unknown settings: sed"),
        ({"oss": {}, "mds": {"m": "2.12.9"}}, "at least one oss"),
        ({"oss": {"a": "master"}, "mds": {"m": "2.12.9"}}, "server a: not a Lustre version"),
    ],
)
def test_wrong_settings_are_refused_with_a_reason(raw: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.parse(raw)


def test_a_wrong_server_ends_the_command_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", "x", "--oss", "oss1"]) == 2
    assert "'oss1' is not NAME=VERSION" in capsys.readouterr().err
