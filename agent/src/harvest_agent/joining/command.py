"""``harvest-agent join``: from a token to a server whose agent can be started."""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from harvest_agent.config import Config, ConfigError
from harvest_agent.joining.client import Address, AwayError, JoinError, RefusedError, join
from harvest_agent.joining.folders import CA, CERTIFICATE, FOLDER, KEY, KeptKey, TlsLink
from harvest_agent.timing import BackOff
from harvest_pki import files
from harvest_pki.errors import PkiError
from harvest_pki.joining import Answer, Uplink
from harvest_pki.keys import PrivateKey
from harvest_pki.tokens import Token

STATE: Final = "/var/lib/harvest-agent"
_GRPC_PORT: Final = 8023
_ATTEMPTS: Final = 4
_CONFIG_MODE: Final = 0o640


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done."""

    address: Address
    token: Token
    config: Path
    state: Path
    force: bool = False


def joined(order: Order) -> str:
    """Join; return what is to be said about it. Nothing that is there is touched before the CA has said yes.

    Whatever breaks off, the same order again brings it to its end: the key is kept until then, as the token is good for
    no other.
    """
    link, kept = TlsLink(order.state / FOLDER), KeptKey(order.state, order.token)
    files.make_folder(order.config.parent)
    with _as_owner(order.state), files.locked(order.state):
        is_repeated = kept.is_there()
        _check_free(order, link, kept)
        key = kept.key()
        try:
            draft = link.draft(key)
            certificate, answer = _asked(order, key)
            config = config_text(order, answer)
            link.take(draft, answer.certificate, answer.ca)
        except RefusedError:
            if not is_repeated:
                kept.forget()
            raise
        finally:
            link.tidy()
    before = _write_config(order, config)
    with _as_owner(order.state):
        kept.forget()
    return _said(order, certificate, before)


def _check_free(order: Order, link: TlsLink, kept: KeptKey) -> None:
    """Refuse to replace what is there, unless that was said, or it is of a join that broke off."""
    if order.force:
        return
    if os.path.lexists(link.path) and not kept.is_unfinished(link):
        raise _is_there(link.path)
    if os.path.lexists(order.config) and not kept.is_there():
        raise _is_there(order.config)


def _is_there(path: Path) -> JoinError:
    return JoinError(f"{path} is there already: --force replaces it, and keeps a copy of the configuration")


def config_text(order: Order, answer: Answer) -> str:
    """Return the configuration of an agent that has just joined, if it is one."""
    tls = order.state / FOLDER
    lines = [
        f"# Server {order.token.server} of site {order.token.site}, written by `harvest-agent join`.",
        "[agent]",
        f"name = {json.dumps(order.token.server)}",
        "",
        "# Here the certificate is renewed, in time and by itself.",
        "[join]",
        f"address = {json.dumps(order.address.text)}",
        "",
    ]
    for uplink in answer.uplinks:
        values = {
            "address": _address(uplink, order.address),
            "server_name": uplink.server_name,
            "ca": str(tls / CA),
            "cert": str(tls / CERTIFICATE),
            "key": str(tls / KEY),
        }
        lines += ["[[uplink]]", *(f"{name} = {json.dumps(value)}" for name, value in values.items()), ""]
    if str(order.state) != STATE:
        lines += ["[spool]", f"directory = {json.dumps(str(order.state / 'spool'))}", ""]
    text = "\n".join(lines)
    try:
        Config.read(text)
    except ConfigError as error:
        raise JoinError(f"the site's answer is not for this version of the agent: {error}") from error
    return text


def _address(uplink: Uplink, joined: Address) -> str:
    """Return where an aggregator is; what has no host is where the site was joined."""
    host, _, port = uplink.address.rpartition(":")
    return uplink.address if host else joined.at(int(port) if port.isdecimal() else _GRPC_PORT)


def _asked(order: Order, key: PrivateKey) -> tuple[x509.Certificate, Answer]:
    """Ask some times: with the same key the token stays good, whatever happened to the first answer."""
    back_off = BackOff()
    for left in reversed(range(_ATTEMPTS)):
        try:
            return join(order.address, order.token, key)
        except AwayError:
            if not left:
                raise
            time.sleep(back_off.seconds(random.random()))  # noqa: S311 - only spreads servers
    raise AssertionError


@contextmanager
def _as_owner(folder: Path) -> Iterator[None]:
    """Write as the user whose folder it is, as the agent will: nothing that lies there can lead root elsewhere."""
    files.make_folder(folder)
    owner = os.stat(folder)
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _write_config(order: Order, text: str) -> Path | None:
    """Write the configuration, unless it says the same already; return where the earlier one is kept."""
    kept = None
    # the agent's group may read it; the folder is its own, or the administrator's
    group = os.stat(order.config.parent).st_gid if os.geteuid() == 0 else None
    if os.path.lexists(order.config):
        before = files.read(order.config)
        if _sends_equally(before, text):
            return None
        if not order.force:  # somebody wrote it since the same token was tried first
            raise _is_there(order.config)
        kept = order.config.with_name(f"{order.config.name}.old")
        files.write(kept, before, mode=_CONFIG_MODE, group=group)
    files.write(order.config, text.encode(), mode=_CONFIG_MODE, group=group)
    return kept


def _sends_equally(before: bytes, text: str) -> bool:
    """Tell whether a configuration leads to the same aggregators with the same files: what else it says is kept."""
    try:
        old, new = Config.read(before.decode()), Config.read(text)
    except (ConfigError, UnicodeDecodeError):
        return False
    return (old.uplinks, old.join, old.agent.name or new.agent.name) == (new.uplinks, new.join, new.agent.name)


def _said(order: Order, certificate: x509.Certificate, kept: Path | None) -> str:
    until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    lines = [
        f"{order.token.server} has joined site {order.token.site}; its agent renews the certificate before {until}.",
        f"  configuration  {order.config}" + (f" (before: {kept})" if kept else ""),
        f"  certificate    {order.state / FOLDER}",
        "Next: systemctl enable --now harvest-agent (or restart it, if it runs)",
    ]
    return "\n".join(lines)


def read_token(text: str | None, file: str | None, standard_input: Iterator[str]) -> Token:
    """Return the token that was given on the command line, in a file, or (``-``) on standard input."""
    if (text is None) == (file is None):
        raise JoinError("give the token with --token-file FILE (- for standard input), or with --token")
    if text is not None:
        return Token.parse(text)
    if file == "-":
        return Token.parse(next(standard_input, ""))
    try:
        return Token.parse(files.read(Path(str(file))).decode(errors="replace"))
    except PkiError as error:
        raise JoinError(f"{file}: {error}") from error
