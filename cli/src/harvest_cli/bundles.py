"""What a server's agent needs to join a site in Kubernetes, from what the site says. Pure."""

import argparse
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from harvest_pki.identities import Identity, Kind
from harvest_site.model import Site
from harvest_site.views import aggregators_for, servers_of, slurm_agents_of

NOT_FOUND, WRONG, NO_ANSWER = 1, 2, 3
HOME: Final = "/etc/harvest-agent"
"""Where the files belong on the server."""
ROLE: Final = "harvest-agent-bundle"
KEY: Final = "tls.key"
_ENDPOINT: Final = re.compile(r"(?:([a-z0-9-]{1,63})=)?((?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})")
_ANY_NODE: Final = "ANY-NODE:"
_NEAR: Final = 5


class BundleError(Exception):
    """There is no bundle; the message says why and what to do, ``code`` is the command's exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Bundle(Protocol):
    """A folder that is to be made: whose certificate is in it, and what else."""

    @property
    def identity(self) -> Identity:
        """Whom the certificate speaks for."""

    @property
    def folder(self) -> Path:
        """Where it is written unless somebody says otherwise."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its files."""

    def files(self, certificate: bytes, cas: bytes, key: bytes) -> dict[str, bytes]:
        """Return what is in each."""

    def said(self, folder: Path, end: datetime) -> str:
        """Return what its maker should know: what to do with it, and until when it is good."""


@dataclass(frozen=True, slots=True)
class Uplink:
    """One aggregator, as it is reached from outside the cluster."""

    aggregator: str
    address: str


def parse_endpoints(texts: Iterable[str]) -> dict[str, str]:
    """Read ``[AGGREGATOR=]HOST:PORT``; the one without a name stands for all."""
    found: dict[str, str] = {}
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise BundleError(f"{text!r} is no endpoint: write HOST:PORT, or AGGREGATOR=HOST:PORT", WRONG)
        found[match[1] or ""] = match[2]
    return found


def no_such_site(name: str, namespace: str, sites: Sequence[tuple[str, str]]) -> BundleError:
    """Say that a site is not there, and which are: ``sites`` are namespaces and names."""
    here = [other for space, other in sites if space == namespace]
    elsewhere = [space for space, other in sites if other == name]
    if elsewhere:
        hint = f": it is in {', '.join(elsewhere[:_NEAR])}, so write --namespace {elsewhere[0]}"
    elif near := difflib.get_close_matches(name, here, 1):
        hint = f": did you mean {near[0]}?"
    elif here:
        hint = f": there are {', '.join(here[:_NEAR])}"
    else:
        hint = ", and no other that you may see: `kubectl get hs --all-namespaces`"
    return BundleError(f"there is no site {name} in namespace {namespace}{hint}", NOT_FOUND)


def check_listed(site: Site, server: str) -> None:
    """Refuse a server that would not be let in."""
    names = servers_of(site)
    if server in names:
        return
    near = difflib.get_close_matches(server, names, 1) or [
        name for name in sorted(names) if name.partition(".")[0] == server.partition(".")[0]
    ]
    hint = f"did you mean {near[0]}? Else add" if near else "add"
    raise BundleError(
        f"{server} is not listed in site {site.name}: {hint} it to the `servers` of a file system, or as a cluster's "
        "`slurm.server`, and apply the site",
        NOT_FOUND,
    )


def uplinks_of(site: Site, status: Mapping[str, Any], server: str, given: Mapping[str, str]) -> list[Uplink]:
    """Return how the agent of a server reaches every aggregator that wants to hear of it."""
    told = {line["name"]: line.get("endpoint", "") for line in status.get("aggregators") or ()}
    wanting = [one.name for one in aggregators_for(site, server)]
    if unknown := sorted(given.keys() - {"", *wanting}):
        raise BundleError(
            f"{unknown[0]} is no aggregator of site {site.name} that {server} reports to: {', '.join(wanting)}", WRONG
        )
    if "" in given and len(wanting) > 1:
        raise BundleError(
            f"{server} reports to several aggregators: write --endpoint AGGREGATOR=HOST:PORT for each of "
            f"{', '.join(wanting)}",
            WRONG,
        )
    return [Uplink(name, given.get(name) or given.get("") or _outside(name, told.get(name, ""))) for name in wanting]


def _outside(name: str, endpoint: str) -> str:
    """Return where an aggregator is reached from outside, as the site's status says."""
    if endpoint.startswith(_ANY_NODE):
        port = endpoint.removeprefix(_ANY_NODE)
        raise BundleError(
            f"aggregator {name} is reached at port {port} of any node: write --endpoint {name}=NODE:{port}, or put the "
            "address into the site's service.hostnames",
            WRONG,
        )
    if endpoint.rpartition(":")[0].endswith(".svc"):
        raise BundleError(
            f"aggregator {name} has a Service for the inside of the cluster only ({endpoint}): write --endpoint "
            f"{name}=HOST:PORT if it is reached otherwise, or give its service the type NodePort or LoadBalancer",
            WRONG,
        )
    if not endpoint:
        raise BundleError(
            f"nobody knows yet where aggregator {name} is reached: look at `kubectl describe hs`, or write --endpoint "
            f"{name}=HOST:PORT",
            NO_ANSWER,
        )
    return endpoint


def config_of(site: Site, server: str, uplinks: Iterable[Uplink]) -> str:
    """Write the agent's configuration."""
    lines = [
        f"# The agent of {server}, site {site.name}. All four files belong into {HOME}; only root may read tls.key.",
        "[agent]",
        f"name = {json.dumps(server)}",
    ]
    for one in uplinks:
        name = Identity(site=str(site.name), kind=Kind.AGGREGATOR, name=one.aggregator).text
        lines += ["", "[[uplink]]", f"address = {json.dumps(one.address)}", f"server_name = {json.dumps(name)}"]
        lines += [
            f'{key} = "{HOME}/{file}"' for key, file in (("ca", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key"))
        ]
    if server in slurm_agents_of(site).values():
        lines += [
            "",
            "# It reports a cluster's jobs: see docs/reference/agent.md for where Slurm's commands are.",
            "[slurm]",
        ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class AgentBundle:
    """What ``harvest agent-bundle`` makes."""

    site: Site
    server: str
    uplinks: tuple[Uplink, ...]
    names = (KEY, "tls.crt", "ca.crt", "agent.toml")

    @classmethod
    def of(cls, site: Site, status: Mapping[str, Any], options: argparse.Namespace) -> "AgentBundle":
        """Return it for a server that the site lists; one that would not be let in is refused."""
        given = parse_endpoints(options.endpoint or ())
        check_listed(site, options.server)
        return cls(site, options.server, tuple(uplinks_of(site, status, options.server, given)))

    @property
    def identity(self) -> Identity:
        """The server."""
        return Identity(site=str(self.site.name), kind=Kind.SERVER, name=self.server)

    @property
    def folder(self) -> Path:
        """Named for the server."""
        return Path(f"harvest-agent-{self.server}")

    def files(self, certificate: bytes, cas: bytes, key: bytes) -> dict[str, bytes]:
        """Return its files: the agent's configuration beside what TLS needs."""
        config = config_of(self.site, self.server, self.uplinks)
        return {KEY: key, "tls.crt": certificate, "ca.crt": cas, "agent.toml": config.encode()}

    def said(self, folder: Path, end: datetime) -> str:
        """Return how it gets to the server."""
        return (
            f"{folder} has all that the agent of {self.server} needs; its certificate ends on {end:%Y-%m-%d}.\n"
            f"Next, give it to {self.server}, and start the agent there:\n"
            f"  ssh root@{self.server} install -d -m 700 {HOME}\n"
            f"  scp -p {folder}/* root@{self.server}:{HOME}/\n"
            f"  ssh root@{self.server} harvest-agent run --config {HOME}/agent.toml\n"
            f"Then remove {folder}: its key is the server's.\n"
        )
