"""The agent's configuration: a TOML file, read once; what is unknown or makes no sense is refused."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, Self

from harvest_agent.tables import shown

_ADDRESS: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")
_SERVER_NAME: Final = re.compile(r"[a-z0-9-]{1,63}\.[a-z0-9-]{1,63}\.harvest")
_SPOOL_LEAST: Final = 1 << 20
_SECTIONS: Final = ("agent", "lustre", "uplink", "spool", "slurm", "join")
_TLS_FILES: Final = {"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
_KINDS: Final[Mapping[object, str]] = {str: "text", int: "a whole number", float: "a number"}
_SOURCES: Final = ("command", "pyslurm", "slurmrestd")
_API_VERSION: Final = re.compile(r"v\d\.\d\.\d{1,4}")


class ConfigError(Exception):
    """The configuration cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """``[agent]``."""

    name: str = ""
    """The server's name; it must be the one in the certificate (default: that one)."""
    duty_limit: float = 0.1
    """The largest part of the time that reading may cost the kernel; above it, sweeps become rarer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreSettings:
    """``[lustre]``."""

    root: str = "/"
    """The folder that holds `proc/fs/lustre`, `sys/…`."""
    filesystems: tuple[str, ...] = ()
    """Only targets of these file systems are read (default: all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkSettings:
    """``[[uplink]]``: one aggregator."""

    address: str
    """Host and port, such as `harvest.example:8023`."""
    server_name: str
    """The name in the aggregator's certificate, such as `main.example.harvest`; the address may be anything."""
    ca: str
    """File with the certificates of the site's CA."""
    cert: str
    """File with the agent's certificate."""
    key: str
    """File with its key, readable by its owner only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """``[spool]``."""

    directory: str = "/var/lib/harvest-agent/spool"
    """Where sweeps are kept until every aggregator has them, and a day longer while there is room."""
    max_bytes: int = 1 << 30
    """How much they may take up; at least 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """``[slurm]``; without the section there is no slurm collector."""

    source: str = "command"
    """How Slurm is asked: `command`, `pyslurm` or `slurmrestd`."""
    period_seconds: int = 30
    """How often it is asked for all its jobs."""
    limit_seconds: float = 20.0
    """How long an answer may take; what hangs longer is killed."""
    slurm_conf: str = ""
    """The file slurm.conf, where it is not in its usual place."""
    squeue: str = ""
    """For `command`: the command squeue (default: the one in PATH)."""
    sacct: str = ""
    """For `command`: the command sacct (default: the one in PATH)."""
    interpreter: str = ""
    """For `pyslurm`: the Python that has it."""
    address: str = ""
    """For `slurmrestd`: `unix:/path` of its socket, or HOST:PORT."""
    token_file: str = ""
    """For `slurmrestd`: file with a JSON Web Token, readable by its owner only."""
    api_version: str = ""
    """For `slurmrestd`: such as `v0.0.40` (default: the newest it offers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """``[join]``, as `harvest-agent join` writes it; without the section certificates are not renewed by the agent."""

    address: str
    """Host and port where the certificate is renewed, such as `harvest.example:8025`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be configured."""

    agent: AgentSettings
    lustre: LustreSettings
    uplinks: tuple[UplinkSettings, ...]
    spool: SpoolSettings
    slurm: SlurmSettings | None = None
    join: JoinSettings | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the text of a file."""
        try:
            return cls.parse(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"it is not TOML: {error}") from error

    @classmethod
    def load(cls, path: str) -> Self:
        """Read a file."""
        try:
            with open(path, "rb") as file:
                raw = tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from error
        try:
            return cls.parse(raw)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Check what a file said; paths must be absolute, so that nothing depends on where the agent was started."""
        for key in raw.keys() - set(_SECTIONS):
            raise ConfigError(f"unknown section '{shown(key)}'; known are {_listed(_SECTIONS)}")
        uplinks = raw.get("uplink", [])
        if not isinstance(uplinks, list) or not uplinks:
            raise ConfigError("at least one [[uplink]] is needed: the aggregator to send to")
        config = cls(
            agent=AgentSettings(**_section(AgentSettings, "[agent]", raw.get("agent", {}))),
            lustre=LustreSettings(**_section(LustreSettings, "[lustre]", raw.get("lustre", {}))),
            uplinks=tuple(UplinkSettings(**_section(UplinkSettings, "[[uplink]]", uplink)) for uplink in uplinks),
            spool=SpoolSettings(**_section(SpoolSettings, "[spool]", raw.get("spool", {}))),
            slurm=SlurmSettings(**_section(SlurmSettings, "[slurm]", raw["slurm"])) if "slurm" in raw else None,
            join=JoinSettings(**_section(JoinSettings, "[join]", raw["join"])) if "join" in raw else None,
        )
        _check(config)
        if config.join is not None:
            _check_join(config.join, config.uplinks)
        return config


def _section(kind: type, name: str, raw: object) -> dict[str, Any]:
    """Return a section's values, each of its field's type."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{name} must be a section, not a value")
    known = {field.name: field for field in fields(kind)}
    if unknown := sorted(raw.keys() - known.keys()):
        raise ConfigError(f"{name}: unknown key '{shown(unknown[0])}'; known are {_listed(known)}")
    values = {key: _value(f"{name} {key}", raw[key], known[key].type) for key in raw}
    for key, field in known.items():
        if field.default is MISSING and not values.get(key):
            raise ConfigError(f"{name}: {key} is missing")
    return values


def _value(name: str, value: object, kind: Any) -> object:  # noqa: ANN401 - a type, or a form of one
    if kind is float and type(value) in {int, float}:
        return float(value)  # type: ignore[arg-type]  # it is a number
    if kind in _KINDS and type(value) is kind:  # True is an int for isinstance
        return value
    if kind not in _KINDS and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise ConfigError(f"{name} must be {_KINDS.get(kind, 'a list of texts')}")


def _check(config: Config) -> None:
    if not 0 < config.agent.duty_limit <= 1:
        raise ConfigError("[agent] duty_limit must be above 0 and at most 1, such as 0.1 for a tenth of the time")
    if config.spool.max_bytes < _SPOOL_LEAST:
        raise ConfigError(f"[spool] max_bytes must be at least {_SPOOL_LEAST}")
    paths = {"[lustre] root": config.lustre.root, "[spool] directory": config.spool.directory}
    for uplink in config.uplinks:
        if not is_address(uplink.address):
            raise ConfigError(f"[[uplink]] address '{shown(uplink.address)}' is not HOST:PORT, such as harvest:8023")
        if not _SERVER_NAME.fullmatch(uplink.server_name):
            raise ConfigError(
                f"[[uplink]] server_name '{shown(uplink.server_name)}' is not <aggregator>.<site>.harvest, "
                "the name in the aggregator's certificate"
            )
        paths |= {f"[[uplink]] {name}": getattr(uplink, name) for name in ("ca", "cert", "key")}
    if config.slurm is not None:
        paths |= _check_slurm(config.slurm)
    for name, path in paths.items():
        if not os.path.isabs(path):
            raise ConfigError(f"{name} must be an absolute path, not '{shown(path)}'")
    names = [(uplink.address, uplink.server_name) for uplink in config.uplinks]
    if len(set(names)) != len(names):
        raise ConfigError("two [[uplink]] are the same")


def _check_join(join: JoinSettings, uplinks: Sequence[UplinkSettings]) -> None:
    """There is one certificate, for all aggregators, in a folder that is replaced as a whole."""
    if not is_address(join.address):
        raise ConfigError(f"[join] address '{shown(join.address)}' is not HOST:PORT, such as harvest:8025")
    folder = os.path.dirname(uplinks[0].cert)
    wanted = {name: os.path.join(folder, file) for name, file in _TLS_FILES.items()}
    if any({name: getattr(uplink, name) for name in _TLS_FILES} != wanted for uplink in uplinks):
        names = ", ".join(f"{name} {file}" for name, file in _TLS_FILES.items())
        raise ConfigError(f"with [join] the files of all [[uplink]] must be in one folder, and be called: {names}")


def _check_slurm(slurm: SlurmSettings) -> dict[str, str]:
    """Check what can be checked without asking Slurm; return its paths."""
    if slurm.source not in _SOURCES:
        raise ConfigError(f"[slurm] source '{shown(slurm.source)}' is not known; known are {_listed(_SOURCES)}")
    if not 1 <= slurm.period_seconds <= 3600:
        raise ConfigError("[slurm] period_seconds must be from 1 to 3600")
    if not 0 < slurm.limit_seconds <= 600:
        raise ConfigError("[slurm] limit_seconds must be above 0 and at most 600")
    if slurm.source == "pyslurm" and not slurm.interpreter:
        raise ConfigError("[slurm]: interpreter is missing: the Python that can import pyslurm")
    if slurm.source == "slurmrestd" and not slurm.address.startswith("unix:") and not is_address(slurm.address):
        raise ConfigError(f"[slurm] address '{shown(slurm.address)}' is neither unix:/PATH nor HOST:PORT")
    if slurm.api_version and not _API_VERSION.fullmatch(slurm.api_version):
        raise ConfigError(f"[slurm] api_version '{shown(slurm.api_version)}' is not as v0.0.40")
    named = ("slurm_conf", "squeue", "sacct", "interpreter", "token_file")
    paths = {f"[slurm] {name}": path for name in named if (path := getattr(slurm, name))}
    if slurm.address.startswith("unix:"):
        paths["[slurm] address"] = slurm.address.removeprefix("unix:")
    return paths


def is_address(address: str) -> bool:
    """Tell whether this is HOST:PORT."""
    return bool(_ADDRESS.fullmatch(address)) and 0 < int(address.rpartition(":")[2]) < 1 << 16


def _listed(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(names)
