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
from pathlib import Path
from typing import TYPE_CHECKING

from harvest_agent.doctor import examine
from harvest_agent.dump import bundle
from harvest_agent.sampling import Row, sample_lctl, sample_tree
from harvest_agent.summary import summary
from harvest_agent.tree import Tree

if TYPE_CHECKING:
    from harvest_agent.config import SlurmSettings

_FOLDER = "/run/harvest/tls"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_EPILOG = """\
examples:
  harvest-agent run --config /etc/harvest/agent.toml
                                               sweep, spool and send, until a signal ends it
  harvest-agent doctor                         what is here, and is anything wrong?
  harvest-agent sample                         who does I/O on this server's targets
  harvest-agent sample --json | head           every counter, one JSON object per line
  lctl get_param '*.*.job_stats' > file; harvest-agent sample --lctl file
  harvest-agent dump --output report.tar.gz    a bundle for a bug report, job ids masked
  harvest-agent enrol --site harvest/example --node oss1
                                               in a Pod: get this node's certificate, and keep it fresh
"""

_RUN_EPILOG = """\
The configuration is TOML. All there is to say on most servers:

  [[uplink]]
  address = "harvest.example:8023"
  server_name = "main.example.harvest"     # the name in the aggregator's certificate
  ca = "/etc/harvest/ca.crt"               # the three files of `harvest-aggregator ca issue-agent`
  cert = "/etc/harvest/tls.crt"
  key = "/etc/harvest/tls.key"             # readable by its owner only

and, with their defaults:

  [spool]
  directory = "/var/lib/harvest-agent/spool"
  max_bytes = 1073741824

  [lustre]
  root = "/"
  filesystems = []                         # all

  [agent]
  name = ""                                # the certificate's
  duty_limit = 0.1                         # of the time may be spent reading in the kernel

On a host of Slurm, for all its jobs' users, accounts and times (docs/reference/agent.md has the rest of its keys):

  [slurm]
  source = "command"                       # or "pyslurm", "slurmrestd"
  period_seconds = 30

Sweeps are made at wall-clock multiples of the interval that the aggregator asks for (20 s until then). SIGTERM ends it
after one more sweep; SIGHUP looks at the TLS files now, which happens after every sweep in any case. Everything else
that is changed needs a restart, which loses nothing; with --follow the agent begins anew by itself when FILE is
changed. Log lines are on standard error.
"""

_ENROL_EPILOG = """\
It runs beside `harvest-agent run` in the Pods of the chart's DaemonSet (values: agents). The key is made here and never
leaves the folder. Kubernetes is asked for a certificate with a CertificateSigningRequest; the site's operator approves
it if the Pod runs on that very node, and signs it if the site lists the node as a server. What is refused is told in
the log with the operator's reason, and asked for again later, at most ten minutes apart.

In the folder then are tls.key, tls.crt, ca.crt and, last of all, agent.toml for `harvest-agent run --follow`. The
certificate is renewed after two thirds of its lifetime, and when the site has a new CA; ca.crt and agent.toml are
brought up to date within a minute. SIGTERM ends it. Log lines are on standard error.
"""


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

    run = commands.add_parser(
        "run",
        help="sweep, spool and send until a signal ends it",
        description="Reads all counters at every tick, keeps them in a spool and sends them to the aggregators.",
        epilog=_RUN_EPILOG,
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
    doctor.add_argument("--config", metavar="FILE", help="the agent's configuration: also say how its Slurm answers")
    doctor.set_defaults(command=_doctor)

    dump = commands.add_parser("dump", parents=[where], help="write a bundle for a bug report")
    dump.add_argument("--output", default="harvest-dump.tar.gz", metavar="FILE", help="where to (default: %(default)s)")
    dump.add_argument("--show-job-ids", action="store_true", help="do not mask job ids")
    dump.set_defaults(command=_dump)

    enrol = commands.add_parser(
        "enrol",
        help="in a Pod: get the node's certificate and configuration from its site, and keep them fresh",
        description="Gets this node's certificate, in a Pod of Kubernetes, and all else that its agent needs.",
        epilog=_ENROL_EPILOG,
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
    slurm = _slurm_settings(options.config) if options.config else None
    report, problems = examine(_tree(options), options.filesystem, needs_lustre=slurm is None)
    print(report)
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


def _slurm_settings(path: str) -> "SlurmSettings | None":
    from harvest_agent.config import Config, ConfigError  # noqa: PLC0415 - as in _run

    try:
        return Config.load(path).slurm
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
