"""``make captures``: what a terminal shows of the demo, written into docs/reference/cli.md.

Each block of code below ``<!-- captured: COMMAND -->`` is replaced by what that command shows.
"""

import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo.play import SLURM_HOST, Play, installed, settings
from demo.processes import BIN
from support.terminals import terminal

PAGE = Path(__file__).parents[2] / "docs/reference/cli.md"
_BLOCK = re.compile(r"(<!-- captured: (.+?) -->\n\n```text\n).*?(\n```\n)", re.DOTALL)
_PLAY_SECONDS = 20
_WIDTH, _HEIGHT = 110, 12
_END = "--end--"
_LEAST_LINES = 4


def commands(text: str) -> list[str]:
    """Return the commands whose captures a page has."""
    return [match[2] for match in _BLOCK.finditer(text)]


def renewed(text: str, shown: dict[str, list[str]]) -> str:
    """Return the page with what was captured."""
    return _BLOCK.sub(lambda match: match[1] + "\n".join(shown[match[2]]) + match[3], text)


def captured(folder: Path, url: str, command: str) -> list[str]:
    """Return what a terminal shows of a command; one that goes on is looked at in passing."""
    environment = {"HARVEST_URL": url, "HOME": str(folder), "PATH": f"{BIN}:/usr/bin:/bin"}
    if command.startswith("harvest top"):
        with terminal(folder, f"{command} --interval 1", width=_WIDTH, height=_HEIGHT, **environment) as screen:
            return screen.wait_for(lambda lines: len(lines) == _HEIGHT and lines[_LEAST_LINES], "some lines")
    with terminal(
        folder, f"{command}; echo {_END}; read rest", width=_WIDTH, height=4 * _HEIGHT, **environment
    ) as screen:
        return [f"$ {command}", *screen.wait_for(lambda lines: lines[-1] == _END, "the end")[:-1]]


def main() -> int:
    """Run the demo, capture, and write the page."""
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory(prefix="harvest-captures-") as name:
        folder = Path(name)
        simulated = settings(event_seconds=3.0, slurm=SLURM_HOST)
        play = Play(installed(folder / "demo", simulated), simulated, for_seconds=3600)
        play.start()
        try:
            end = time.monotonic() + _PLAY_SECONDS
            while time.monotonic() < end:
                play.step()
            shown = {command: _during(play, folder, command) for command in commands(text)}
        finally:
            play.installation.stop()
            play.live.face.close()
    PAGE.write_text(renewed(text, shown))
    return 0


def _during(play: Play, folder: Path, command: str) -> list[str]:
    """Capture while the site goes on in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(captured, folder, play.installation.url, command)
        while not found.done():
            play.step()
        return found.result()


if __name__ == "__main__":
    sys.exit(main())
