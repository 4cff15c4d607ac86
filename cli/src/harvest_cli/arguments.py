"""The commands and their options: one table, of which the parser and the shells' completions are made."""

import argparse
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harvest_cli.config import DEFAULT_URL
from harvest_cli.top import BYS, SORTS
from harvest_cli.work import SORTS as JOB_SORTS

SHELLS: Final = ("bash", "zsh", "fish")
_FASTEST_SECONDS: Final = 0.2


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError("a whole number, 0 or more")
    return int(text)


def _pause(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not _FASTEST_SECONDS <= seconds < 86400:
        raise argparse.ArgumentTypeError(f"seconds, {_FASTEST_SECONDS} or more")
    return seconds


def _limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError("seconds, more than 0 and at most a day")
    return seconds


def moment(text: str) -> int:
    """Read a time: seconds since 1970, or as it is written on this machine's clock."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp())
    except ValueError as error:
        raise argparse.ArgumentTypeError("seconds since 1970, or a time such as 2026-11-16T09:30:00") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option, or an argument without dashes."""

    name: str
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] | None = None
    default: Any = None
    is_flag: bool = False
    is_file: bool = False
    is_repeated: bool = False
    is_optional: bool = False
    """Of an argument without dashes: it may be left out."""
    is_many: bool = False
    """Of an argument without dashes: there may be several."""

    @property
    def settings(self) -> dict[str, Any]:
        """Return what argparse is told."""
        if self.is_flag:
            return {"help": self.help, "action": "store_true"}
        told: dict[str, Any] = {"help": self.help, "metavar": self.metavar, "default": self.default}
        told |= {"choices": self.choices, "metavar": None} if self.choices else {}
        told |= {"type": self.read} if self.read else {}
        told |= {"action": "append"} if self.is_repeated else {}
        told |= {"nargs": "?"} if self.is_optional else {}
        told |= {"nargs": "+"} if self.is_many else {}
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command."""

    help: str
    options: tuple[Option, ...] = ()
    description: str = ""
    examples: str = ""
    asks: bool = True
    """Whether it asks aggregators."""


ASKING: Final = (
    Option(
        name="--url",
        metavar="URL",
        is_repeated=True,
        help=f"an aggregator's HTTP address; repeat it, or separate several by commas (default: HARVEST_URL, "
        f"the configuration file, {DEFAULT_URL})",
    ),
    Option(name="--token-file", metavar="FILE", is_file=True, help="file with its HTTP token (HARVEST_TOKEN_FILE)"),
    Option(name="--ca", metavar="FILE", is_file=True, help="the site's ca.crt, for https"),
    Option(name="--server-name", metavar="NAME", help="the name in its certificate, such as main.example.harvest"),
    Option(name="--json", is_flag=True, help="JSON in the API's shape instead of tables"),
)
_FS: Final = Option(name="--fs", metavar="NAME", help="only work on this file system")
_SERVER: Final = Option(name="--server", metavar="NAME", help="only what is done on this server now")
_TARGET: Final = Option(name="--target", metavar="NAME", help="only what is done on this target now")
_CLUSTER: Final = Option(name="--cluster", metavar="NAME", help="of this cluster; - where it is not known")
_NAMESPACE: Final = Option(name="--namespace", metavar="NAME", help="the site's namespace (default: the context's)")
_KUBERNETES: Final = (
    Option(
        name="--kubeconfig",
        metavar="FILE",
        read=Path,
        is_file=True,
        help="how to reach Kubernetes (default: KUBECONFIG, ~/.kube/config)",
    ),
    Option(name="--context", metavar="NAME", help="which cluster and user of it (default: the current one)"),
)

_ASKING_THE_OPERATOR: Final = (
    Option(
        name="--timeout",
        metavar="SECONDS",
        read=_limit,
        default=60.0,
        help="how long to wait for approval and certificate (default: 60)",
    ),
    *_KUBERNETES,
)
"""Options of commands that ask an operator for a certificate."""

COMMANDS: Final[Mapping[str, Command]] = {
    "top": Command(
        help="who does most, now",
        description="Shows who does most, again and again. On a terminal it fills the screen, and keys change what is "
        "shown: r w o m sort by read, write, operations, metadata operations; j u a n p show jobs, users, accounts, "
        "nodes, processes; q ends it. Where the output is no terminal, a table is printed each time.",
        examples="""\
  harvest top                          the jobs that read most
  harvest top --by user --sort write   the users that write most
  harvest top --server mds3 --sort ops who is beating up MDS 3, now?
  harvest top --once | mail -s now me  one table, and no more
""",
        options=(
            Option(name="--by", choices=BYS, default="job", help="what a line is (default: job)"),
            Option(name="--sort", choices=tuple(SORTS), default="read", help="most of what first (default: read)"),
            _FS,
            _SERVER,
            _TARGET,
            Option(
                name="--interval",
                metavar="SECONDS",
                read=_pause,
                default=5.0,
                help="time between two looks (default: 5)",
            ),
            Option(
                name="--limit", metavar="N", read=_whole, help="at most so many lines (default: what fits; else 20)"
            ),
            Option(name="--once", is_flag=True, help="print one table and end"),
        ),
    ),
    "job": Command(
        help="what one job did",
        description="Shows all that is known of a job: on every file system, and every operation.",
        examples="""\
  harvest job 4711
  harvest job 4711 --cluster vu        if several clusters have that number
  harvest job cp.1000                  what user 1000 did with cp
""",
        options=(
            Option(name="job", metavar="ID", help="the job's id as Lustre shows it, or an array task such as 4711_3"),
            _CLUSTER,
            Option(name="--start", metavar="TIME", read=moment, help="of jobs with that id, the one that started then"),
        ),
    ),
    "jobs": Command(
        help="a list of jobs",
        description="Lists jobs with their totals, and what they do now.",
        examples="""\
  harvest jobs --user ada --sort write_bytes
  harvest jobs --state running --fs scratch --limit 20
  harvest jobs --limit 0 --json | jq '.jobs[].job'
""",
        options=(
            Option(name="--state", metavar="STATE", help="only running, quiet, ended or final ones"),
            Option(name="--user", metavar="NAME", help="only of this user"),
            Option(name="--account", metavar="NAME", help="only of this account"),
            _CLUSTER,
            _FS,
            _SERVER,
            _TARGET,
            Option(
                name="--sort", choices=JOB_SORTS, help="most of what first; rates. is per second (default: rates.bytes)"
            ),
            Option(
                name="--limit", metavar="N", read=_whole, default=50, help="so many at a time; 0 is all (default: 50)"
            ),
            Option(name="--offset", metavar="N", read=_whole, default=0, help="leave out the first so many"),
        ),
    ),
    "user": Command(
        help="what one user does and did",
        options=(Option(name="user", metavar="NAME", help="the user's name"),),
        examples="  harvest user ada\n  harvest user $USER --json\n",
    ),
    "node": Command(
        help="what one node does",
        options=(Option(name="node", metavar="HOST|NID", help="its name, or an address such as 10.1.0.7@o2ib"),),
        examples="  harvest node vu17\n  harvest node 10.1.0.7@o2ib\n",
    ),
    "fs": Command(
        help="file systems: what is done on each",
        options=(Option(name="fs", metavar="NAME", is_optional=True, help="only this one, with its targets"),),
        examples="  harvest fs\n  harvest fs scratch\n",
    ),
    "servers": Command(help="servers and their agents", examples="  harvest servers\n"),
    "doctor": Command(
        help="what is wrong, and what to do",
        description="Asks every aggregator how it is, and looks at servers and targets. The weightiest problem comes "
        "first, each with what to do about it. The exit code is 1 if there is any.",
        examples="  harvest doctor\n  harvest doctor --json\n",
    ),
    "agent-bundle": Command(
        help="all that a server's agent needs to join a site in Kubernetes",
        description="Makes a key on this machine, asks the operator for a certificate, and writes a folder for the "
        "server: agent.toml, ca.crt, tls.crt and tls.key. The server must be listed in the site. It needs the "
        "rights of the chart's ClusterRole harvest-agent-bundle; whoever may ask and not approve waits until somebody "
        "else does.",
        asks=False,
        options=(
            Option(name="site", metavar="SITE", help="the HarvestSite's name"),
            Option(name="server", metavar="SERVER", help="the server's name as the site lists it"),
            _NAMESPACE,
            Option(
                name="--out",
                metavar="DIR",
                read=Path,
                is_file=True,
                help="where to write; nothing is overwritten (default: harvest-agent-SERVER)",
            ),
            Option(
                name="--endpoint",
                metavar="[AGGREGATOR=]HOST:PORT",
                is_repeated=True,
                help="where the server reaches an aggregator (default: as the site's status says)",
            ),
            *_ASKING_THE_OPERATOR,
        ),
        examples="""\
  harvest agent-bundle example oss1
  harvest agent-bundle example oss1 --namespace harvest --out /root/oss1
  harvest agent-bundle example oss1 --endpoint node7.example:30023
""",
    ),
    "relay-bundle": Command(
        help="all with which another site's aggregator is let in as a relay",
        description="Run where the receiving site is. Makes a key on this machine, asks the operator for a "
        "certificate, and writes a folder for the sender: ca.crt, tls.crt and tls.key, and all of it as a Secret in "
        "secret.yaml. The relay must be listed in the site's `accepts`. It needs the same rights as agent-bundle.",
        asks=False,
        options=(
            Option(name="site", metavar="SITE", help="the receiving HarvestSite's name"),
            Option(name="relay", metavar="RELAY", help="the relay's name as the site's `accepts` lists it"),
            _NAMESPACE,
            Option(
                name="--out",
                metavar="DIR",
                read=Path,
                is_file=True,
                help="where to write; nothing is overwritten (default: as the Secret is called)",
            ),
            Option(
                name="--secret",
                metavar="NAME",
                help="how the sender's `tlsSecretRef` calls the Secret (default: relay-SITE)",
            ),
            *_ASKING_THE_OPERATOR,
        ),
        examples="""\
  harvest relay-bundle xe alkindi
  harvest relay-bundle xe alkindi --namespace harvest --out /root/relay-xe --secret relay-xe
""",
    ),
    "token": Command(
        help="tokens with which servers join a site in Kubernetes",
        description="Makes tokens, one per line: each for one server, once, until it ends. The server joins with it: "
        "harvest-agent join ADDRESS --token-file FILE. Servers must be listed in the site. It needs the rights of the "
        "chart's ClusterRole harvest-token-create.",
        asks=False,
        options=(
            Option(name="action", choices=("create",), help="what to do"),
            Option(name="site", metavar="SITE", help="the HarvestSite's name"),
            Option(
                name="servers",
                metavar="SERVER",
                is_many=True,
                help="a server's name as the site lists it, or several in short: oss[01-04]",
            ),
            _NAMESPACE,
            Option(
                name="--lifetime",
                metavar="TIME",
                default="1h",
                help="how long it may be used, such as 30m or 12h; at most 7d (default: 1h)",
            ),
            *_KUBERNETES,
        ),
        examples="""\
  harvest token create example oss1 > token
  harvest token create example 'oss[01-40]' --namespace harvest --lifetime 12h
""",
    ),
    "completion": Command(
        help="completion for a shell",
        asks=False,
        options=(Option(name="shell", choices=SHELLS, help="which shell"),),
        examples="""\
  source <(harvest completion bash)                                in ~/.bashrc
  harvest completion zsh > "${fpath[1]}/_harvest"
  harvest completion fish > ~/.config/fish/completions/harvest.fish
""",
    ),
}

_EPILOG: Final = """\
examples:
  harvest top                          who does most, now; keys change what is shown
  harvest top --server mds3 --sort ops who is beating up MDS 3, now?
  harvest job 4711                     what did my job do?
  harvest user $USER                   … and all of mine?
  harvest jobs --sort write_bytes      the jobs that have written most
  harvest doctor                       is anything wrong?

which aggregators are asked:
  --url, else HARVEST_URL, else ~/.config/harvest/config.toml, else /etc/harvest/cli.toml, else this machine's.
  Several are asked at once, and what they say is added up:

  [[aggregator]]
  url = "https://harvest.example:8024"
  token_file = "~/.config/harvest/token"
  ca = "/etc/harvest/ca.crt"
  server_name = "main.example.harvest"   # the name in its certificate

exit codes:
  0 done; 1 not found, or doctor found something; 2 the command or its configuration is wrong;
  3 no aggregator answered; 130 interrupted

`harvest COMMAND --help` has more.
"""


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    shaped = argparse.RawDescriptionHelpFormatter
    whole = argparse.ArgumentParser(
        prog="harvest",
        description="Tells who does how much I/O on Lustre: every job, user, node and file system.",
        epilog=_EPILOG,
        formatter_class=shaped,
        allow_abbrev=False,
    )
    _add_asking(whole.add_argument_group("before or after the command"))
    whole.set_defaults(**{option.name[2:].replace("-", "_"): False if option.is_flag else None for option in ASKING})
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=command.help,
            description=textwrap.fill(command.description or f"{command.help[0].upper()}{command.help[1:]}.", 79),
            epilog=f"examples:\n{command.examples}",
            formatter_class=shaped,
            allow_abbrev=False,
        )
        for option in command.options:
            one.add_argument(option.name, **option.settings)
        if command.asks:
            _add_asking(one.add_argument_group("who is asked, and how it is shown"))
    return whole


def _add_asking(group: "argparse._ArgumentGroup | argparse.ArgumentParser") -> None:
    """Let these be written before the command, too: what is absent there says nothing about what comes later."""
    for option in ASKING:
        group.add_argument(option.name, **{**option.settings, "default": argparse.SUPPRESS})
