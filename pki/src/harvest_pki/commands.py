"""``ca …``: a site's CA as files, for sites without Kubernetes. The programs that want these commands mount them."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from harvest_pki import files
from harvest_pki.authorities import CA_LIFETIME, LIFETIMES, Authority
from harvest_pki.certificates import fingerprint, load_bundle, serial_text
from harvest_pki.checks import days_left
from harvest_pki.errors import PkiError, shown
from harvest_pki.folders import CaFolder, Issued, newest
from harvest_pki.identities import Kind, identity_of, site_of_ca
from harvest_pki.keys import new_key, new_serial

Clock = Callable[[], datetime]
Command = Callable[[argparse.Namespace, datetime], str]

AGGREGATOR: Final = "main"
"""The name of the aggregator of a site that lists none."""
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LIFETIME_MAX: Final = timedelta(days=36500)


def _wall_clock() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)  # certificates know whole seconds


def add_commands(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", *, clock: Clock = _wall_clock
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Add ``ca`` and its commands; each sets ``command``: a function from options to an exit code.

    Returns them, for whoever has more to add.
    """
    ca = subparsers.add_parser("ca", help="the site's certificates, kept as files")
    commands = ca.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str, *, data: bool = True) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text)
        text = "the aggregator's data folder: the CA is in DIR/ca, the aggregator's own certificate in DIR/tls"
        parser.add_argument("--data", type=Path, required=data, metavar="DIR", help=text)
        parser.set_defaults(command=lambda options: _run(parser.prog, command, options, clock()))
        return parser

    init = add("init", _init, "make the CA of a site")
    init.add_argument("--site", required=True, metavar="NAME", help="the site's name")
    _add_lifetime(init, CA_LIFETIME)
    init.add_argument("--force", action="store_true", help="throw away the CA that is there, and all its certificates")

    server = add("issue-server", _issue_server, "make key and certificate of an aggregator")
    server.add_argument("name", nargs="?", default=AGGREGATOR, metavar="NAME", help="its name (default: %(default)s)")
    _add_lifetime(server, LIFETIMES[Kind.AGGREGATOR])
    server.add_argument("--out", type=Path, metavar="DIR", help="where to write them (default: tls in the data folder)")

    agent = add("issue-agent", _issue_agent, "make key and certificate of the agent on a server")
    agent.add_argument("name", metavar="NAME", help="the server, as the site lists it")
    _add_lifetime(agent, LIFETIMES[Kind.SERVER])
    text = "where to write them (default: agents/NAME in the data folder)"
    agent.add_argument("--out", type=Path, metavar="DIR", help=text)

    relay = add("issue-relay", _issue_relay, "make key and certificate with which another site's aggregator comes")
    relay.add_argument("name", metavar="NAME", help="the sender, as the site's `accepts` lists it")
    _add_lifetime(relay, LIFETIMES[Kind.RELAY])
    text = "where to write them (default: relays/NAME in the data folder)"
    relay.add_argument("--out", type=Path, metavar="DIR", help=text)

    listing = add("list", _list, "show what was issued, and how long it is valid")
    listing.add_argument("--all", action="store_true", help="also what ended and was replaced")

    show = add("show", _show, "show the CA, or what a certificate file says", data=False)
    show.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a certificate (default: the CA's)")

    rotate = add("rotate", _rotate, "replace the CA, step by step, without interruption")
    _add_lifetime(rotate, CA_LIFETIME)
    rotate.add_argument("--finish", action="store_true", help="the last step: trust the old CA no more")
    rotate.add_argument("--force", action="store_true", help="finish even if certificates of the old CA are in use")
    return commands


def parse_lifetime(text: str) -> timedelta:
    """Read a lifetime such as ``90d``."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if match and (lifetime := timedelta(**{_UNITS[match[2]]: int(match[1])})) <= _LIFETIME_MAX:
        return lifetime
    raise argparse.ArgumentTypeError(f"'{shown(text)}' is no lifetime: write 90d or 12h (s, m, h, d; at most 36500d)")


def _add_lifetime(parser: argparse.ArgumentParser, default: timedelta) -> None:
    text = f"how long the certificate is valid (default: {default.days}d)"
    parser.add_argument("--lifetime", type=parse_lifetime, default=default, metavar="TIME", help=text)


def _run(program: str, command: Command, options: argparse.Namespace, now: datetime) -> int:
    try:
        text = command(options, now)
    except PkiError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 2
    sys.stdout.write(f"{text}\n")
    return 0


def _init(options: argparse.Namespace, now: datetime) -> str:
    folder = _folder(options)
    authority = _new_authority(options.site, options, now)
    folder.create(authority, force=options.force)
    return _lines(
        f"CA of site {authority.site}: {_validity(authority.certificate, now)}",
        _facts(
            ("certificate", f"{folder.path}/ca.crt"),
            ("key", f"{folder.path}/ca.key (keep it safe: it can make anybody a server of the site)"),
            ("sha256", fingerprint(authority.certificate)),
        ),
        "Next: issue-server for the aggregator, issue-agent for every server.",
    )


def _issue_server(options: argparse.Namespace, now: datetime) -> str:
    out = options.out or options.data / "tls"
    certificate = _folder(options).write_server(out, options.name, now=now, lifetime=options.lifetime)
    return _lines(*_handed_out(certificate, out, now))


def _issue_agent(options: argparse.Namespace, now: datetime) -> str:
    out = options.out or options.data / "agents" / options.name
    certificate = _folder(options).write_agent(out, options.name, now=now, lifetime=options.lifetime)
    return _lines(
        *_handed_out(certificate, out, now),
        f"Next: move the three files to {options.name}, where its agent's configuration names them.",
    )


def _issue_relay(options: argparse.Namespace, now: datetime) -> str:
    out = options.out or options.data / "relays" / options.name
    certificate = _folder(options).write_relay(out, options.name, now=now, lifetime=options.lifetime)
    return _lines(
        *_handed_out(certificate, out, now),
        f"Next: move the three files to the aggregator of {options.name}, into the folder of its `--secrets` that the "
        "relay's `tlsSecretRef` names.",
    )


def _list(options: argparse.Namespace, now: datetime) -> str:
    folder = _folder(options)
    current = fingerprint(folder.load().certificate)
    issued = folder.issued()
    last = set(newest(issued))
    rows = [
        _row(entry, current=current, now=now)
        for entry in sorted(issued, key=lambda entry: (entry.kind, entry.name))
        if options.all or entry in last or now < entry.not_after
    ]
    return _aligned([("KIND", "NAME", "VALID UNTIL", "LEFT", "CA", "SERIAL"), *rows]) if rows else "Nothing was issued."


def _show(options: argparse.Namespace, now: datetime) -> str:
    if options.file:
        certificates = load_bundle(files.read(options.file))
        return "\n\n".join(_facts(("name", _name(one)), *_details(one, now)) for one in certificates)
    if not options.data:
        raise PkiError("give a certificate file, or --data DIR for the CA in it")
    folder = _folder(options)
    authority = folder.load()
    others = [certificate for certificate in folder.bundle() if certificate != authority.certificate]
    return _facts(
        ("site", authority.site),
        *_details(authority.certificate, now),
        *(("trusted too", f"{fingerprint(other)}, {_validity(other, now)}") for other in others),
    )


def _rotate(options: argparse.Namespace, now: datetime) -> str:
    folder = _folder(options)
    if options.finish:
        folder.finish_rotation(now=now, force=options.force)
        said = "The old CA is trusted no more. Agents keep it in their ca.crt until they get new files."
    elif options.force:
        raise PkiError("--force goes with --finish")
    else:
        authority = _new_authority(folder.load().site, options, now)
        folder.rotate(authority, now=now)
        said = _lines(
            f"New CA of site {authority.site}: {_validity(authority.certificate, now)}",
            _facts(("sha256", fingerprint(authority.certificate))),
            "It issues from now on; the old one is trusted beside it. Next, in this order:",
            "  1. issue-agent for every server, issue-relay for every relay: they then trust both",
            "  2. issue-server for the aggregator, once all of them have their new files",
            "  3. rotate --finish",
        )
    if (tls := options.data / "tls").is_dir():
        folder.write_trusted(tls)
    return said


def _folder(options: argparse.Namespace) -> CaFolder:
    return CaFolder(options.data / "ca")


def _new_authority(site: str, options: argparse.Namespace, now: datetime) -> Authority:
    return Authority.create(site, key=new_key(), serial=new_serial(), now=now, lifetime=options.lifetime)


def _handed_out(certificate: x509.Certificate, out: Path, now: datetime) -> Iterable[str]:
    holder = identity_of(certificate)
    yield f"{holder.kind} {holder.name} of site {holder.site}: {_validity(certificate, now)}"
    yield _facts(
        ("certificate", f"{out}/tls.crt"),
        ("key", f"{out}/tls.key"),
        ("trusted CAs", f"{out}/ca.crt"),
        ("name", holder.text),
        ("serial", serial_text(certificate.serial_number)),
    )


def _name(certificate: x509.Certificate) -> str:
    with suppress(PkiError):
        return identity_of(certificate).text
    with suppress(PkiError):
        return f"CA of site {site_of_ca(certificate)}"
    return "none of Harvest's"


def _details(certificate: x509.Certificate, now: datetime) -> Iterable[tuple[str, str]]:
    yield "validity", _validity(certificate, now)
    yield "serial", serial_text(certificate.serial_number)
    yield "issuer", shown(certificate.issuer.rfc4514_string())
    yield "sha256", fingerprint(certificate)


def _validity(certificate: x509.Certificate, now: datetime) -> str:
    end = certificate.not_valid_after_utc
    return f"valid until {end:%Y-%m-%d %H:%M} UTC ({_left(end, now)})"


def _left(end: datetime, now: datetime) -> str:
    if now >= end:
        return "expired"
    days = days_left(end, now)
    return f"{days} days" if days > 1 else f"{(end - now) // timedelta(hours=1)} h"


def _row(entry: Issued, *, current: str, now: datetime) -> Sequence[str]:
    ca = "current" if entry.ca == current else "old"
    end = f"{entry.not_after:%Y-%m-%d %H:%M}"
    return (entry.kind, shown(entry.name), end, _left(entry.not_after, now), ca, serial_text(entry.serial))


def _facts(*facts: tuple[str, str]) -> str:
    return _aligned([(f"  {name}", value) for name, value in facts])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return _lines(*(line.rstrip() for line in lines))


def _lines(*lines: str) -> str:
    return "\n".join(lines)
