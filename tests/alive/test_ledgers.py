"""A ledger that is restored from a backup: agents still hold what came since, so totals are exact."""

from pathlib import Path

from alive.scenes import closed, opened, run, wrong
from demo.processes import run as command


def test_a_restored_ledger_is_filled_up_again_by_the_agents(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=18)
    backup = tmp_path / "backup.db"
    data = str(play.installation.data)
    try:

        def save() -> None:
            command("harvest-aggregator", "backup", "--data", data, str(backup))

        def restore() -> None:
            play.installation.aggregator.kill()
            command("harvest-aggregator", "restore", "--data", data, str(backup))
            play.installation.aggregator.start()

        run(play, (4.0, save), (11.0, restore))

        assert wrong(play) == []
    finally:
        closed(play)
