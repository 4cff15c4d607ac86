"""The ``harvest-aggregator`` command."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from harvest_aggregator.backups import backup, restore
from harvest_aggregator.checking import CheckError, asked, report
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.files import OrderFiles
from harvest_aggregator.identity import served_by
from harvest_aggregator.joining import add_joining
from harvest_aggregator.limits import allow_open_files, search_garbage_rarely
from harvest_aggregator.listening import ListeningError
from harvest_aggregator.logs import log_to_stderr
from harvest_aggregator.running import LEDGER, Aggregator, Settings
from harvest_aggregator.serving import Address, ServingError, checked_token
from harvest_aggregator.sinks.influx_answers import CODES
from harvest_pki.commands import AGGREGATOR, add_commands
from harvest_pki.errors import PkiError
from harvest_pki.files import read_key
from harvest_site.loading import SiteError, load
from harvest_site.parts import unimplemented

_EPILOG = """\
a site on one machine, from nothing:
  harvest-aggregator ca init --data DIR --site NAME     the site's own CA
  harvest-aggregator ca issue-server --data DIR         a certificate for the aggregator
  harvest-aggregator ca issue-agent --data DIR oss1     one for each server's agent
  harvest-aggregator ca serve --data DIR --site site.yaml   or let agents join with tokens (ca token), and renew
  harvest-aggregator check --site site.yaml             is the site file good?
  harvest-aggregator run --site site.yaml --data DIR    then look at http://127.0.0.1:8024/readyz
"""


class UsageError(Exception):
    """What was asked for cannot be done; the message says why."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except SiteError as error:
        lines = [f"{options.site}: {problem}" for problem in str(error).splitlines()]
        print("\n".join(lines), file=sys.stderr)
    except (CheckError, UsageError, LedgerError, PkiError, ListeningError, ServingError) as error:
        print(f"harvest-aggregator: {error}", file=sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    """Return what understands the command line."""
    whole = argparse.ArgumentParser(
        prog="harvest-aggregator",
        description="Takes in what agents read on Lustre servers, keeps it exact and durable, and answers for it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    run = _add(
        commands, "run", _run, "serve a site until SIGTERM; SIGHUP or a changed file re-reads site and certificates"
    )
    _add_site(run)
    _add_data(run)
    _add_secrets(run)
    text = "folder with tls.crt, tls.key and ca.crt (default: tls in the data folder)"
    run.add_argument("--tls", type=Path, metavar="DIR", help=text)
    text = "where agents come to (default: %(default)s: all addresses)"
    run.add_argument("--grpc", default="[::]:8023", metavar="ADDRESS", help=text)
    text = "where HTTP is served; beyond this machine only by HTTPS and with a token (default: %(default)s)"
    run.add_argument("--http", default="127.0.0.1:8024", metavar="ADDRESS", help=text)
    text = "file with the token that HTTP asks for (needed beyond this machine)"
    run.add_argument("--http-token-file", type=Path, metavar="FILE", help=text)

    check = _add(
        commands, "check", _check, "check a site file, or ask a running aggregator which nodes do most, and how much"
    )
    what = check.add_mutually_exclusive_group(required=True)
    what.add_argument("--site", type=Path, metavar="FILE", help="say everything that is wrong with a site, and where")
    text = "of every file system: totals, and the ten busiest nodes, as http://127.0.0.1:8024 knows them"
    what.add_argument("--url", metavar="URL", help=text)
    check.add_argument("--token-file", type=Path, metavar="FILE", help="with --url: the token that HTTP asks for")
    _add_aggregator(check)

    text = "write a point to the site's InfluxDB, read it back and remove it; say what is wrong"
    influx = _add(commands, "influx-check", _influx_check, text)
    influx.epilog = "exit codes:\n" + "\n".join(f"  {code.value}  {text}" for code, text in CODES.items())
    influx.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_site(influx)
    _add_secrets(influx)
    influx.add_argument("--sink", metavar="NAME", help="only this one (default: every influxdb sink of the site)")

    out = _add(commands, "backup", _backup, "copy the ledger to a file, while the aggregator runs or not")
    _add_data(out)
    out.add_argument("--overwrite", action="store_true", help="replace the file if it is there")
    out.add_argument("file", type=Path, metavar="FILE", help="where to")

    back = _add(commands, "restore", _restore, "put a backup in the ledger's place, while no aggregator runs")
    _add_data(back)
    back.add_argument("file", type=Path, metavar="FILE", help="the backup")

    add_joining(add_commands(commands))
    return whole


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    command: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    added = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    added.set_defaults(command=command)
    return added


def _add_site(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--site", type=Path, required=True, metavar="FILE", help="the site, as YAML: a HarvestSite or its spec"
    )
    _add_aggregator(command)


def _add_aggregator(command: argparse.ArgumentParser) -> None:
    text = "which of the site's aggregators this is (default: %(default)s)"
    command.add_argument("--aggregator", default=AGGREGATOR, metavar="NAME", help=text)


def _add_data(command: argparse.ArgumentParser) -> None:
    text = f"the data folder: the ledger is DIR/{LEDGER}; on a local disk"
    command.add_argument("--data", type=Path, required=True, metavar="DIR", help=text)


def _add_secrets(command: argparse.ArgumentParser) -> None:
    text = "Secrets and ConfigMaps that the site refers to, as DIR/name/key"
    command.add_argument("--secrets", type=Path, metavar="DIR", help=text)


def _secrets(options: argparse.Namespace) -> Path | None:
    folder: Path | None = options.secrets
    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    return folder


def _run(options: argparse.Namespace) -> int:
    secrets = _secrets(options)
    settings = Settings(
        files=OrderFiles(options.site, options.tls or options.data / "tls", options.aggregator, secrets),
        data=options.data,
        secrets=secrets,
        grpc=options.grpc,
        http=Address.parse(options.http),
        http_token=_token(options.http_token_file),
    )
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    aggregator = Aggregator(settings)
    allow_open_files()
    search_garbage_rarely()
    log_to_stderr()
    await aggregator.run()


def _token(file: Path | None) -> str | None:
    return None if file is None else checked_token(read_key(file).decode(errors="replace"))


def _check(options: argparse.Namespace) -> int:
    if options.url is not None:
        print(*report(asked(options.url, _token(options.token_file))), sep="\n")
        return 0
    site = load(options.site)
    own = served_by(site, options.aggregator)
    names = ", ".join(one.name for one in own.spec.filesystems) or "none"
    print(f"{options.site} is good. File systems of aggregator {options.aggregator}: {names}.")
    for part in unimplemented(site):
        print(f"warning: the site asks for `{part}`, which this version does not do yet")
    return 0


def _influx_check(options: argparse.Namespace) -> int:
    from harvest_aggregator.influx_check import InfluxCheckError, check, chosen  # noqa: PLC0415 - 50 MB for no other

    folder = _secrets(options)
    worst = 0
    for sink in chosen(served_by(load(options.site), options.aggregator), options.sink):
        try:
            for line in check(sink, folder):
                print(f"sink {sink.name}: {line}")
        except InfluxCheckError as error:
            print(f"sink {sink.name}: {error}", file=sys.stderr)
            worst = worst or error.code
    return worst


def _backup(options: argparse.Namespace) -> int:
    size = backup(options.data / LEDGER, options.file, overwrite=options.overwrite)
    print(f"{options.file}: {size} bytes")
    return 0


def _restore(options: argparse.Namespace) -> int:
    kept = restore(options.file, options.data / LEDGER)
    print(f"{options.data / LEDGER} is what the backup held." + (f" What was there is now {kept}." if kept else ""))
    print("Next: start the aggregator; agents send again what it lacks, as far as their spools have it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
