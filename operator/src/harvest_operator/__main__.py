"""The ``harvest-operator`` command."""

import argparse
import asyncio
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from harvest_operator.agenda import Agenda
from harvest_operator.cluster import Cluster, UnavailableError, connected
from harvest_operator.handlers import watch
from harvest_operator.joining import Joining
from harvest_operator.logs import log_to_stderr
from harvest_operator.manifests import Options
from harvest_operator.minting import Mint
from harvest_operator.names import Object
from harvest_operator.polling import ADDRESS, Poller, asking
from harvest_operator.reconciling import Reconciler, work
from harvest_operator.signing import Agents
from harvest_pki.desks import Desk
from harvest_pki.serving import JoiningServer

_WORKERS: Final = 4
_WAIT_SECONDS: Final = 5.0
_EPILOG: Final = """\
It runs in the cluster as the chart installs it, or anywhere with a kubeconfig:
  KUBECONFIG=~/.kube/config harvest-operator --aggregator-image images.example/harvest-aggregator:0.1.0
  kubectl apply -f site.yaml; kubectl get hs
"""

_log = structlog.get_logger()


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal ends it, and return the exit code."""
    options = parser().parse_args(arguments)
    if options.kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(options.kubeconfig)
    log_to_stderr()
    try:
        asyncio.run(run(options))
    except UnavailableError as error:
        print(f"harvest-operator: {error}", file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """Return what understands the command line."""
    whole = argparse.ArgumentParser(
        prog="harvest-operator",
        description="Turns every HarvestSite into running aggregators, and keeps them as their site says.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "image of the aggregators, with its tag or digest"
    whole.add_argument("--aggregator-image", required=True, metavar="IMAGE", help=text)
    text = "when images are pulled (default: %(default)s)"
    policies = ["Always", "IfNotPresent", "Never"]
    whole.add_argument("--image-pull-policy", default="IfNotPresent", choices=policies, help=text)
    text = "Secret of the site's namespace with which its Pods' images are pulled; repeat for several"
    whole.add_argument("--image-pull-secret", action="append", default=[], metavar="NAME", help=text)
    text = "only sites in this namespace; repeat for several (default: all)"
    whole.add_argument("--namespace", action="append", default=[], metavar="NAME", help=text)
    text = "ServiceAccount and site of agents in the cluster: each gets its own node's certificate (default: none)"
    whole.add_argument("--agents", type=_agents, metavar="NAMESPACE:NAME=NAMESPACE/SITE", help=text)
    text = "where liveness is told, as http://ADDRESS/healthz (default: %(default)s); '' for nowhere"
    whole.add_argument("--health", default="0.0.0.0:8026", type=_address, metavar="ADDRESS", help=text)
    text = "where servers outside the cluster join sites and renew certificates (default: nowhere)"
    whole.add_argument("--join", default="", type=_address, metavar="ADDRESS", help=text)
    text = "host and port at which an aggregator's HTTP API is asked (default: %(default)s)"
    whole.add_argument("--aggregator-address", default=ADDRESS, type=_template, metavar="TEMPLATE", help=text)
    text = "how to reach Kubernetes (default: KUBECONFIG, the Pod's service account, or ~/.kube/config)"
    whole.add_argument("--kubeconfig", type=Path, metavar="FILE", help=text)
    return whole


async def run(options: argparse.Namespace) -> None:
    """Start everything; whatever ends, ends all."""
    agenda, mint = Agenda(), Mint()
    async with connected() as cluster, asking(options.aggregator_address) as ask:
        await _wait_for_sites(cluster)
        poller = Poller(ask, agenda.soon)
        joining = Joining(cluster, asyncio.get_running_loop(), mint) if options.join else None
        reconciler = Reconciler(
            cluster=cluster,
            aggregators=poller,
            options=Options(
                aggregator_image=options.aggregator_image,
                pull_policy=options.image_pull_policy,
                pull_secrets=tuple(options.image_pull_secret),
            ),
            mint=mint,
            namespaces=options.namespace,
            agents=options.agents,
            joining=joining,
        )

        def seen(event: str | None, found: Object) -> None:
            for key in reconciler.concerned(event, found):
                agenda.soon(key)

        with _listening(options.join, joining) as server:
            async with asyncio.TaskGroup() as tasks:
                if server is not None:  # in threads: what somebody does there delays no site
                    tasks.create_task(asyncio.to_thread(server.serve), name="joining")
                others = [tasks.create_task(work(agenda, reconciler)) for _ in range(_WORKERS)]
                others.append(tasks.create_task(poller.run()))
                _log.info("sites are watched", namespaces=options.namespace or "all")
                await watch(seen, namespaces=options.namespace, health=options.health or None)
                for task in others:
                    task.cancel()
                if server is not None:
                    server.stop()
    _log.info("stopped")


@contextmanager
def _listening(address: str, sites: Joining | None) -> Iterator[JoiningServer | None]:
    """Give what lets servers join, if they may; it is stopped afterwards, whatever happened."""
    if sites is None:
        yield None
        return
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        listener = socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UnavailableError(f"cannot listen on {address} for joining: {error.strerror or error}") from error
    desk = Desk(clock=lambda: datetime.now(UTC).replace(microsecond=0), monotonic=time.monotonic, say=_log.info)
    server = JoiningServer(listener, sites, desk, _log.info)
    _log.info("servers may join", port=server.port)
    try:
        yield server
    finally:
        server.stop()


async def _wait_for_sites(cluster: Cluster) -> None:
    while True:
        try:
            if await cluster.serves_sites():
                return
            reason = "it does not know HarvestSites: apply the CRD, as the chart does"
        except UnavailableError as error:
            reason = str(error)
        _log.warning("waiting for Kubernetes", reason=reason)
        await asyncio.sleep(_WAIT_SECONDS)


def _address(text: str) -> str:
    if text and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no address: write HOST:PORT")
    return text


def _agents(text: str) -> Agents:
    found = re.fullmatch(r"([a-z0-9-]{1,63}:[a-z0-9.-]{1,253})=([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})", text)
    if found is None:
        reason = f"{text!r} is no ServiceAccount and site: write NAMESPACE:NAME=NAMESPACE/SITE"
        raise argparse.ArgumentTypeError(reason)
    return Agents(f"system:serviceaccount:{found[1]}", (found[2], found[3]))  # as Kubernetes calls its user


def _template(text: str) -> str:
    try:
        text.format(service="service", namespace="namespace")
    except (KeyError, IndexError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} may only hold {{service}} and {{namespace}}") from None
    return text


if __name__ == "__main__":
    sys.exit(main())
