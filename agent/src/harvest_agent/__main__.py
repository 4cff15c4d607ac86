"""The ``harvest-agent`` command."""

import argparse
import errno
import io
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harvest_agent import epilogs
from harvest_agent.doctor import examine
from harvest_agent.dump import bundle
from harvest_agent.sampling import Row, sample_lctl, sample_tree
from harvest_agent.summary import summary
from harvest_agent.tree import Tree

if TYPE_CHECKING:
    from harvest_agent.config import Config

_CONFIG = "/etc/harvest/agent.toml"
_STATE = "/var/lib/harvest-agent"
_FOLDER = "/run/harvest/tls"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class UsageError(Exception):
    """What was asked for cannot be done; the message says why."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever a name holds, and whatever the terminal can show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = command(options)
        print(end="", flush=True)
    except UsageError as error:
        print(f"harvest-agent: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # somebody's `head` had enough
        _drop_output()
        return 0
    except OSError as error:  # a full disk; trouble with reading is told where it happens
        print(f"harvest-agent: cannot write: {error.strerror}", file=sys.stderr)
        _drop_output()
        return 2
    return code


def _drop_output() -> None:
    """Forget what could not be written, or Python would try and complain again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harvest-agent",
        description="Reads Lustre's counters on an OSS or MDS: per job, and per client. Asks Slurm who its jobs are.",
        epilog=epilogs.COMMANDS,
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

    run = commands.add_parser(
        "run",
        help="sweep, spool and send until a signal ends it",
        description="Reads all counters at every tick, keeps them in a spool and sends them to the aggregators.",
        epilog=epilogs.RUN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--config", required=True, metavar="FILE", help="the agent's configuration")
    run.add_argument(
        "--follow", action="store_true", help="begin anew when FILE is changed (default: a restart is needed)"
    )
    run.set_defaults(command=_run)

    sample = commands.add_parser("sample", parents=[where], help="show every counter once")
    sample.add_argument("--lctl", metavar="FILE", help="read an `lctl get_param` dump instead (- for standard input)")
    sample.add_argument("--json", action="store_true", help="one JSON object per line instead of tables")
    sample.set_defaults(command=_sample)

    doctor = commands.add_parser("doctor", parents=[where], help="say what was found and what is wrong")
    doctor.add_argument(
        "--config",
        metavar="FILE",
        help="the agent's configuration: also say how long its certificate is valid, and how its Slurm answers",
    )
    doctor.set_defaults(command=_doctor)

    dump = commands.add_parser("dump", parents=[where], help="write a bundle for a bug report")
    dump.add_argument("--output", default="harvest-dump.tar.gz", metavar="FILE", help="where to (default: %(default)s)")
    dump.add_argument("--show-job-ids", action="store_true", help="do not mask job ids")
    dump.set_defaults(command=_dump)

    join = commands.add_parser(
        "join",
        help="get this server's certificate and configuration, with a token",
        description="Makes this server one of a site's: key, certificate, CAs and configuration, for the agent to run.",
        epilog=epilogs.JOIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    join.add_argument("address", metavar="ADDRESS", help="where the site is joined: HOST or HOST:PORT (8025 if none)")
    join.add_argument("--token", metavar="TOKEN", help="the token; others on this machine may see it: see below")
    join.add_argument("--token-file", metavar="FILE", help="file that holds the token (- for standard input)")
    join.add_argument(
        "--config", default=_CONFIG, metavar="FILE", help="the configuration to write (default: %(default)s)"
    )
    join.add_argument(
        "--state",
        default=_STATE,
        metavar="DIR",
        help="the agent's state folder, for key and spool (default: %(default)s)",
    )
    join.add_argument("--force", action="store_true", help="replace what an earlier join has written")
    join.set_defaults(command=_join)

    enrol = commands.add_parser(
        "enrol",
        help="in a Pod: get the node's certificate and configuration from its site, and keep them fresh",
        description="Gets this node's certificate, in a Pod of Kubernetes, and all else that its agent needs.",
        epilog=epilogs.ENROL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    enrol.add_argument("--site", metavar="NAMESPACE/NAME", help="the HarvestSite that lists this node")
    enrol.add_argument("--node", metavar="NAME", help="this node, as Kubernetes calls it")
    enrol.add_argument(
        "--folder", default=_FOLDER, metavar="DIR", help="where the files are kept (default: %(default)s)"
    )
    enrol.add_argument(
        "--root", default="/", metavar="DIR", help="where the agent finds the host's proc and sys (default: /)"
    )
    enrol.add_argument(
        "--service-account",
        default=_ACCOUNT,
        metavar="DIR",
        help="token and ca.crt with which Kubernetes is asked (default: %(default)s)",
    )
    enrol.add_argument("--ready", action="store_true", help="only tell, by exit code 0, whether the files are there")
    enrol.set_defaults(command=_enrol)
    return parser


def _run(options: argparse.Namespace) -> int:
    from harvest_agent.config import Config, ConfigError  # noqa: PLC0415 - other commands need none of this
    from harvest_agent.running import run  # noqa: PLC0415
    from harvest_agent.shelf import SpoolError  # noqa: PLC0415

    try:
        return run(Config.load(options.config), followed=options.config if options.follow else None)
    except (ConfigError, SpoolError) as error:
        raise UsageError(str(error)) from error


def _join(options: argparse.Namespace) -> int:
    from harvest_agent.joining.client import Address, JoinError  # noqa: PLC0415 - as in _enrol
    from harvest_agent.joining.command import Order, joined, read_token  # noqa: PLC0415
    from harvest_pki.errors import PkiError  # noqa: PLC0415

    try:
        token = read_token(options.token, options.token_file, iter(sys.stdin))
        address, config, state = Address.parse(options.address), Path(options.config), Path(options.state)
        print(joined(Order(address=address, token=token, config=config, state=state, force=options.force)))
    except (JoinError, PkiError) as error:
        raise UsageError(str(error)) from error
    return 0


def _enrol(options: argparse.Namespace) -> int:
    from harvest_agent.enrol import CONFIG  # noqa: PLC0415 - `run` is not to pay for what certificates need

    if options.ready:
        return 0 if os.path.exists(os.path.join(options.folder, CONFIG)) else 1
    if not options.site or not options.node:
        raise UsageError("enrol needs --site and --node")
    from harvest_agent.enrol.api import ApiError  # noqa: PLC0415
    from harvest_agent.enrol.enrolling import enrol  # noqa: PLC0415
    from harvest_agent.enrol.requests import Site  # noqa: PLC0415
    from harvest_pki.errors import PkiError  # noqa: PLC0415

    try:
        site = Site.parse(options.site)
        folder, account = Path(options.folder), Path(options.service_account)
        enrol(site=site, node=options.node, folder=folder, root=options.root, account=account)
    except (ValueError, ApiError, PkiError) as error:
        raise UsageError(str(error)) from error
    return 0


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
    config = _config(options.config) if options.config else None
    slurm = None if config is None else config.slurm
    report, problems = examine(_tree(options), options.filesystem, needs_lustre=slurm is None)
    print(report)
    if config is not None:
        from harvest_agent.identifying import examine_identity  # noqa: PLC0415 - as in _run

        line, more = examine_identity(config, datetime.now(UTC))
        print(line, end="\n" if line else "")
        problems += more
    if slurm is not None:
        from harvest_agent.slurm.examining import examine_slurm  # noqa: PLC0415 - as in _run

        line, more = examine_slurm(slurm)
        print(line)
        problems += more
    print()
    for problem in problems:
        print(f"PROBLEM   {problem.what}\n          mend it: {problem.mend}")
    if not problems:
        print("No problems found.")
    return 1 if problems else 0


def _config(path: str) -> "Config":
    from harvest_agent.config import Config, ConfigError  # noqa: PLC0415 - as in _run

    try:
        return Config.load(path)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _dump(options: argparse.Namespace) -> int:
    packed = bundle(_tree(options), options.filesystem, show_job_ids=options.show_job_ids)
    try:
        _replace(options.output, packed)
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror}") from error
    masked = "shown" if options.show_job_ids else "masked"
    print(f"{options.output}: {len(packed)} bytes, job ids {masked}, network addresses shown", file=sys.stderr)
    return 0


def _replace(path: str, content: bytes) -> None:
    """Write a file for its owner alone, whatever stood there before; links and devices are left alone."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EEXIST, "it is there and not a regular file")
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".harvest-dump-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _tree(options: argparse.Namespace) -> Tree:
    if not os.path.isdir(options.root):
        raise UsageError(f"there is no folder {options.root}")
    return Tree(options.root)


if __name__ == "__main__":
    sys.exit(main())
