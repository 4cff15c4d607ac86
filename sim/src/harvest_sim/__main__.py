"""The command ``python -m harvest_sim``: a simulated Lustre site on disk, in real time."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harvest_sim.live import World, run
from harvest_sim.settings import Settings, SettingsError, load

_DEFAULT_OSS = {"oss1": "2.12.9", "oss2": "2.15.4"}
_DEFAULT_MDS = {"mds1": "2.16.1"}

_EPILOG = """\
The tree of each server is DIR/<server>; point an agent at it:
  python -m harvest_sim --root /tmp/site --for 60 &
  harvest-agent sample --root /tmp/site/oss1 --json

Versions behave as real ones do: 2.12.9 has no start_time, 2.15.0 counts from boot, 2.17.0 prints no header
for an empty file. Closing job_stats after reading evicts idle jobs, as on a real server. Events (clear, remount,
failover, reboot, clock steps) happen only after readers have seen everything, so without a reader there are none.

The truth (JSON) is written every second, on SIGUSR1, and at the end: for every job what was done and what was
ever shown to a reader. Settings may stand in a TOML or JSON file (--config), options win:
  oss = {oss1 = "2.12.9", oss2 = "2.15.4"}
  mds = {mds1 = "2.16.1"}
  cleanup_seconds = 4
  seed = 7
"""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harvest_sim",
        description="Simulate a Lustre site on disk, in real time, and know the truth about it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", type=Path, required=True, metavar="DIR", help="where the trees are written")
    parser.add_argument("--for", type=float, default=30, dest="seconds", metavar="SECONDS", help="default: 30")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="default: DIR/truth.json")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, TOML or JSON")
    for role, example in (("oss", "oss1=2.12.9"), ("mds", "mds1=2.16.1")):
        parser.add_argument(
            f"--{role}", action="append", metavar="NAME=VERSION", help=f"a server, such as {example}; repeat"
        )
    parser.add_argument("--fs", action="append", dest="fsnames", metavar="NAME", help="a file system; repeat")
    parser.add_argument("--osts", type=int, dest="osts_per_oss", metavar="N", help="OSTs per OSS (default: 2)")
    parser.add_argument(
        "--cleanup", type=int, dest="cleanup_seconds", metavar="SECONDS", help="job_cleanup_interval (default: 4)"
    )
    parser.add_argument(
        "--events",
        type=float,
        dest="event_seconds",
        metavar="SECONDS",
        help="pause between events (default: 2; 0: none)",
    )
    parser.add_argument(
        "--slurm", metavar="HOST", help="also a host with Slurm: its squeue and sacct are in DIR/HOST/bin"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="equal seeds do equal things (default: 1)")
    return parser.parse_args(arguments)


def settings_of(options: argparse.Namespace) -> Settings:
    """Put the file's settings and the options together."""
    raw: dict[str, Any] = {"oss": _DEFAULT_OSS, "mds": _DEFAULT_MDS}
    if options.config is not None:
        raw |= load(options.config)
    for role in ("oss", "mds"):
        if servers := getattr(options, role):
            raw[role] = dict(_server(text) for text in servers)
    for name in ("fsnames", "osts_per_oss", "cleanup_seconds", "event_seconds", "slurm", "seed"):
        if (value := getattr(options, name)) is not None:
            raw[name] = value
    return Settings.parse(raw)


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = parse_arguments(arguments)
    try:
        settings = settings_of(options)
    except SettingsError as error:
        print(f"harvest_sim: {error}", file=sys.stderr)
        return 2
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: signals.append(number))
    world = World(
        seconds=time.monotonic,
        epoch_seconds=int(time.time()),
        sleep=time.sleep,
        say=lambda line: print(line, flush=True),
        is_stopped=lambda: signal.SIGTERM in signals or signal.SIGINT in signals,
        is_report_wanted=lambda: _take(signals, signal.SIGUSR1),
    )
    truth_path = options.truth or options.root / "truth.json"
    site = run(settings, root=options.root, truth_path=truth_path, for_seconds=options.seconds, world=world)
    lives, missing = sum(1 for _ in site.truth.select()), len(site.truth.unshown())
    world.say(f"truth: {truth_path}; {missing} of {lives} lives of jobs were not shown to their end")
    return 0


def _server(text: str) -> tuple[str, str]:
    name, separator, version = text.partition("=")
    if not separator:
        raise SettingsError(f"{text!r} is not NAME=VERSION")
    return name, version


def _take(signals: list[int], number: int) -> bool:
    found = number in signals
    while number in signals:
        signals.remove(number)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
