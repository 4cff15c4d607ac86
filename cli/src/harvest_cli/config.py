"""Which aggregators are asked, and how: the command line, the environment, or a TOML file."""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

DEFAULT_URL: Final = "http://127.0.0.1:8024"
SYSTEM_FILE: Final = Path("/etc/harvest/cli.toml")
_SEPARATORS: Final = re.compile(r"[,\s]+")
_LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]+){3}|::1")
_TOKEN: Final = re.compile(r"[!-~]+")


class ConfigError(Exception):
    """What was configured cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """``[[aggregator]]``: one to ask."""

    url: str
    """Its address, such as `https://harvest.example:8024`."""
    token_file: str = ""
    """File with its HTTP token; none is needed on loopback, unless it was started with one."""
    ca: str = ""
    """File with the certificates of the site's CA, `ca.crt`; default: those that this machine trusts."""
    server_name: str = ""
    """The name in its certificate, such as `main.example.harvest`; default: the host of the address."""

    @classmethod
    def parse(cls, raw: object) -> Self:
        """Check one section of a file."""
        if not isinstance(raw, dict):
            raise ConfigError("[[aggregator]] must be a section, not a value")
        known = [field.name for field in fields(cls)]
        for key, value in raw.items():
            if key not in known:
                raise ConfigError(f"[[aggregator]]: unknown key {key!r}; known are {', '.join(known)}")
            if not isinstance(value, str):
                raise ConfigError(f"[[aggregator]] {key} must be text")
        if "url" not in raw:
            raise ConfigError(f'[[aggregator]]: url is missing, such as url = "{DEFAULT_URL}"')
        return cls(**{**raw, "url": checked_url(raw["url"])})

    def token(self) -> str | None:
        """Read its token, if it has one."""
        if not self.token_file:
            return None
        parts = urlsplit(self.url)
        if parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or ""):
            raise ConfigError(
                f"a token is never sent unencrypted beyond this machine: write https instead of {self.url}"
            )
        path = Path(self.token_file).expanduser()
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                text = file.read(4096).decode("ascii", "replace").strip()
        except OSError as error:
            raise ConfigError(f"cannot read the token file {path}: {error.strerror}") from error
        if too_open(mode=status.st_mode, owner=status.st_uid, reader=os.geteuid()):
            raise ConfigError(f"others can read the token file {path}: chmod 600 {path} (or root's, 640, for a group)")
        if not _TOKEN.fullmatch(text):
            raise ConfigError(f"the token file {path} does not hold one line of printable characters")
        return text


def too_open(*, mode: int, owner: int, reader: int) -> bool:
    """Tell whether others than its owner can read a secret; root may share one with a group."""
    allowed = 0o740 if owner == 0 and reader != 0 else 0o700
    return bool(stat.S_IMODE(mode) & 0o777 & ~allowed)


def checked_url(text: str) -> str:
    """Return an address in one form, or say what is wrong with it."""
    example = f"write one such as {DEFAULT_URL}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is no address of an aggregator ({error}): {example}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not text.isprintable():
        raise ConfigError(f"{text!r} is no address of an aggregator: {example}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"{parts.scheme}://{parts.hostname}…: an address holds no user, `?` or `#`: {example}")
    return text.rstrip("/")


def parse_file(raw: Mapping[str, Any]) -> tuple[Aggregator, ...]:
    """Check what a file said."""
    if unknown := sorted(raw.keys() - {"aggregator"}):
        raise ConfigError(f"unknown key {unknown[0]!r}; there are [[aggregator]] sections only")
    sections = raw.get("aggregator", [])
    if not isinstance(sections, list):
        raise ConfigError("write [[aggregator]], with two brackets: there may be several")
    found = tuple(Aggregator.parse(section) for section in sections)
    if len({one.url for one in found}) != len(found):
        raise ConfigError("two [[aggregator]] have the same url: it would be asked twice")
    return found


def load(path: Path) -> tuple[Aggregator, ...] | None:
    """Read a file; nothing if there is none."""
    try:
        return parse_file(tomllib.loads(path.read_bytes().decode()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the configuration files in the order in which they are looked for."""
    base = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if (home := environment.get("HOME")) else "")
    own = (Path(base) / "harvest/config.toml",) if base else ()
    return (*own, SYSTEM_FILE)


def chosen(
    options: Mapping[str, Any], environment: Mapping[str, str], configured: Iterable[Aggregator]
) -> tuple[Aggregator, ...]:
    """Return who is asked: those of the command line, else of the environment, else of a file, else the local one.

    An address that a file knows too keeps what the file says of it.
    """
    by_url = {one.url: one for one in configured}
    urls = [url for text in options.get("url") or [environment.get("HARVEST_URL", "")] for url in _split(text)]
    found = [by_url.get(url, Aggregator(url=url)) for url in dict.fromkeys(urls)] or list(by_url.values())
    overrides = {key: value for key in ("token_file", "ca", "server_name") if (value := options.get(key))}
    token_file = environment.get("HARVEST_TOKEN_FILE", "")
    return tuple(
        replace(one, **{**({"token_file": token_file} if token_file else {}), **overrides})
        for one in found or [Aggregator(url=DEFAULT_URL)]
    )


def _split(text: str) -> list[str]:
    return [checked_url(part) for part in _SEPARATORS.split(text) if part]
