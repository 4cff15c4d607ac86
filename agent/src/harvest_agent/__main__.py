"""The ``harvest-agent`` command."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harvest_agent.doctor import examine
from harvest_agent.dump import bundle
from harvest_agent.sampling import Row, sample_lctl, sample_tree
from harvest_agent.summary import summary
from harvest_agent.tree import Tree

_EPILOG = """\
examples:
  harvest-agent doctor                         what is here, and is anything wrong?
  harvest-agent sample                         who does I/O on this server's targets
  harvest-agent sample --json | head           every counter, one JSON object per line
  lctl get_param '*.*.job_stats' > file; harvest-agent sample --lctl file
  harvest-agent dump --output report.tar.gz    a bundle for a bug report, job ids masked
"""


class UsageError(Exception):
    """What was asked for cannot be done; the message says why."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except UsageError as error:
        print(f"harvest-agent: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # somebody's `head` had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harvest-agent",
        description="Reads Lustre's counters on an OSS or MDS: per job, and per client node.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--root", default="/", metavar="DIR", help="folder that holds proc/fs/lustre, sys/… (default: /)"
    )
    where.add_argument(
        "--filesystem",
        action="append",
        default=[],
        metavar="NAME",
        help="only targets of this file system; repeat for several (default: all)",
    )

    sample = commands.add_parser("sample", parents=[where], help="show every counter once")
    sample.add_argument("--lctl", metavar="FILE", help="read an `lctl get_param` dump instead (- for standard input)")
    sample.add_argument("--json", action="store_true", help="one JSON object per line instead of tables")
    sample.set_defaults(command=_sample)

    doctor = commands.add_parser("doctor", parents=[where], help="say what was found and what is wrong")
    doctor.set_defaults(command=_doctor)

    dump = commands.add_parser("dump", parents=[where], help="write a bundle for a bug report")
    dump.add_argument("--output", default="harvest-dump.tar.gz", metavar="FILE", help="where to (default: %(default)s)")
    dump.add_argument("--show-job-ids", action="store_true", help="do not mask job ids")
    dump.set_defaults(command=_dump)
    return parser


def _sample(options: argparse.Namespace) -> int:
    rows = _rows(options)
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print(summary(rows))
    return 0


def _rows(options: argparse.Namespace) -> Iterable[Row]:
    if options.lctl is None:
        return sample_tree(_tree(options), options.filesystem)
    if options.root != "/":
        raise UsageError("give either --root or --lctl")
    try:
        text = sys.stdin.buffer.read() if options.lctl == "-" else Path(options.lctl).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {options.lctl}: {error.strerror}") from error
    return _named(sample_lctl(text, options.filesystem), options.lctl, text)


def _named(rows: Iterator[Row], file: str, text: bytes) -> Iterator[Row]:
    """Refuse a dump without names: its targets could not be told apart."""
    if text.strip() and b"=" not in text:
        raise UsageError(f"{file} names no parameter; was it made with `lctl get_param -n`? Leave out the -n.")
    return rows


def _doctor(options: argparse.Namespace) -> int:
    report, problems = examine(_tree(options), options.filesystem)
    print(report)
    print()
    for problem in problems:
        print(f"PROBLEM   {problem.what}\n          mend it: {problem.mend}")
    if not problems:
        print("No problems found.")
    return 1 if problems else 0


def _dump(options: argparse.Namespace) -> int:
    packed = bundle(_tree(options), options.filesystem, show_job_ids=options.show_job_ids)
    try:
        with os.fdopen(os.open(options.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(packed)
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror}") from error
    masked = "shown" if options.show_job_ids else "masked"
    print(f"{options.output}: {len(packed)} bytes, job ids {masked}, network addresses shown", file=sys.stderr)
    return 0


def _tree(options: argparse.Namespace) -> Tree:
    if not Path(options.root).is_dir():
        raise UsageError(f"there is no folder {options.root}")
    return Tree(options.root)


if __name__ == "__main__":
    sys.exit(main())
