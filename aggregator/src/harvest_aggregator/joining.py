"""``ca serve`` and ``ca token``: servers join a site without Kubernetes, and renew their certificates."""

import argparse
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509

from harvest_aggregator.files import stamps
from harvest_aggregator.logs import log_to_stderr
from harvest_aggregator.serving import Address, listener
from harvest_pki.certificates import fingerprint
from harvest_pki.commands import parse_lifetime
from harvest_pki.desks import Desk
from harvest_pki.errors import PkiError, shown
from harvest_pki.folders import CaFolder
from harvest_pki.identities import Identity, Kind
from harvest_pki.joining import Door, Uplink
from harvest_pki.joining_folders import FolderSite, tokens_of
from harvest_pki.keys import new_secret
from harvest_pki.serving import JoiningServer
from harvest_pki.tokens import TOKEN_LIFETIME, Entry, Token
from harvest_site.hostlists import expand
from harvest_site.loading import SiteError, load
from harvest_site.model import Site
from harvest_site.views import aggregators_for, aggregators_of, servers_of

_UPLINK: Final = re.compile(r"(?:([a-z0-9-]{1,63})=)?((?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})")
_DATA: Final = "the aggregator's data folder: the CA is in DIR/ca"


def add_joining(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``serve`` and ``token`` to the commands of ``ca``."""
    text = "let servers join with tokens, and renew their certificates, until SIGTERM"
    serve = commands.add_parser("serve", help=text, description=text)
    serve.add_argument("--data", type=Path, required=True, metavar="DIR", help=_DATA)
    text = "the site, as YAML: only servers that it lists get certificates; a change counts at once"
    serve.add_argument("--site", type=Path, required=True, metavar="FILE", help=text)
    text = "where servers come to (default: %(default)s: all addresses)"
    serve.add_argument("--listen", default="[::]:8025", metavar="ADDRESS", help=text)
    text = "where an aggregator is reached, as HOST:PORT or NAME=HOST:PORT (default: where it was joined, port 8023)"
    serve.add_argument("--uplink", action="append", default=[], metavar="ADDRESS", help=text)
    text = "how long certificates are valid (default: what the site says, 90d if nothing)"
    serve.add_argument("--lifetime", type=parse_lifetime, metavar="TIME", help=text)
    serve.set_defaults(command=_serve)

    text = "make tokens with which servers join, one per line"
    token = commands.add_parser("token", help=text, description=text)
    token.add_argument("--data", type=Path, required=True, metavar="DIR", help=_DATA)
    text = "the site, as YAML: refuse servers that it does not list"
    token.add_argument("--site", type=Path, metavar="FILE", help=text)
    text = "how long it may be used, at most 7d (default: 1h)"
    token.add_argument("--lifetime", type=parse_lifetime, default=TOKEN_LIFETIME, metavar="TIME", help=text)
    text = "a server as the site lists it, or several in short: oss[01-04]"
    token.add_argument("servers", nargs="+", metavar="SERVER", help=text)
    token.set_defaults(command=_token)


def new_tokens(ca: CaFolder, servers: Iterable[str], *, now: datetime, lifetime: timedelta) -> list[Token]:
    """Make a token for each server, and keep what is needed to know it again."""
    authority = ca.load()
    made = [
        Token(
            site=authority.site,
            server=Identity(site=authority.site, kind=Kind.SERVER, name=name).name,
            secret=new_secret(),
            ca=fingerprint(authority.certificate),
        )
        for name in servers
    ]
    tokens_of(ca).add([Entry.of(token, now=now, lifetime=lifetime) for token in made], now=now)
    return made


class SiteDoor:
    """What a site's file says about who may join; it is read again when it was changed.

    Anybody may ask for the CAs, as often as he likes: what thousands of servers are told is not put together for that.
    """

    def __init__(self, path: Path, uplinks: Mapping[str, str], lifetime: timedelta | None) -> None:
        self._path, self._uplinks, self._lifetime = path, uplinks, lifetime
        self._read: tuple[object, Door] | None = None

    def __call__(self, name: str, trusted: tuple[x509.Certificate, ...]) -> Door:
        """Return what is asked of a site whose CA has this name."""
        (stamp,) = stamps([self._path])
        read = self._read
        if read is None or read[0] != (stamp, name, trusted):
            self._read = read = (stamp, name, trusted), self._door(name, trusted)
        return read[1]

    def _door(self, name: str, trusted: tuple[x509.Certificate, ...]) -> Door:
        try:
            site = load(self._path)
        except SiteError as error:
            raise PkiError(f"{self._path}: {error}") from error
        if site.name not in {None, name}:
            raise PkiError(f"{self._path} is site {site.name}, and the CA is that of site {name}")
        return Door(
            site=name,
            trusted=trusted,
            servers=servers_of(site),
            denied_serials=site.spec.certificates.denied_serials,
            lifetime=self._lifetime or timedelta(seconds=site.spec.certificates.agent_lifetime_seconds),
            uplinks={server: self._uplinks_of(site, name, server) for server in servers_of(site)},
        )

    def _uplinks_of(self, site: Site, name: str, server: str) -> tuple[Uplink, ...]:
        names = [one.name for one in aggregators_for(site, server)]
        if unknown := sorted(self._uplinks.keys() - {"", *(one.name for one in aggregators_of(site))}):
            raise PkiError(f"--uplink: there is no aggregator {shown(unknown[0])} in the site")
        if len(aggregators_of(site)) > 1 and (missing := [one for one in names if one not in self._uplinks]):
            raise PkiError(f"the site has several aggregators: say --uplink {missing[0]}=HOST:PORT, and so for each")
        return tuple(
            Uplink(
                server_name=Identity(site=name, kind=Kind.AGGREGATOR, name=one).text,
                address=self._uplinks.get(one, self._uplinks.get("", "")),
            )
            for one in names
        )


def parse_uplinks(texts: Iterable[str]) -> dict[str, str]:
    """Read ``[NAME=]HOST:PORT``; the one without a name stands for all."""
    found: dict[str, str] = {}
    for text in texts:
        match = _UPLINK.fullmatch(text)
        if match is None:
            raise PkiError(f"--uplink '{shown(text)}' is no address: write HOST:PORT, or NAME=HOST:PORT")
        found[match[1] or ""] = match[2]
    return found


def _serve(options: argparse.Namespace) -> int:
    ca = CaFolder(options.data / "ca")
    door = SiteDoor(options.site, parse_uplinks(options.uplink), options.lifetime)
    site = FolderSite(ca, door, clock=_now)
    site.door()  # what is wrong with site and CA is told here, not to the first server that comes
    site.prepare()
    opened = listener(Address.parse(options.listen), "joining")
    log_to_stderr()
    log = structlog.get_logger()
    desk = Desk(clock=_now, monotonic=time.monotonic, say=log.info)
    server = JoiningServer(opened, site, desk, log.info)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    log.info("servers may join", port=server.port, site=ca.load().site)
    server.serve()
    return 0


def _token(options: argparse.Namespace) -> int:
    try:
        servers = [name for text in options.servers for name in expand(text)]
    except ValueError as error:
        raise PkiError(str(error)) from error
    if options.site is not None and (unlisted := sorted(set(servers) - servers_of(load(options.site)))):
        raise PkiError(f"{options.site} does not list {', '.join(unlisted[:5])}: no token was made")
    made = new_tokens(CaFolder(options.data / "ca"), servers, now=_now(), lifetime=options.lifetime)
    sys.stdout.write("".join(f"{token.text}\n" for token in made))
    return 0


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)  # certificates know whole seconds
