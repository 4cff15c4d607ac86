"""``harvest agent-bundle`` and ``relay-bundle``: ask the operator for a certificate, and write what goes with it."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from harvest_cli import bundles, signing_requests
from harvest_cli.bundles import KEY, NO_ANSWER, ROLE, WRONG, AgentBundle, Bundle, BundleError
from harvest_cli.config import ConfigError
from harvest_cli.kube import AwayError, ConflictError, ForbiddenError, Kube
from harvest_cli.printing import complain
from harvest_cli.relay_bundles import MANIFEST, RelayBundle
from harvest_cli.signing_requests import Json
from harvest_pki.certificates import load_certificate
from harvest_pki.errors import PkiError
from harvest_pki.files import KEY_MODE, PUBLIC_MODE, make_folder, write
from harvest_pki.identities import Identity
from harvest_pki.keys import key_pem, new_key
from harvest_pki.requests import new_request
from harvest_site.loading import SiteError, checked
from harvest_site.model import Site

_SITES: Final = "/apis/lustreharvest.dev/v1alpha1"
_REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_SECRET: Final = (KEY, MANIFEST)
"""Files that hold a key."""
_BUNDLES: Final[Mapping[str, Callable[[Site, Mapping[str, Any], argparse.Namespace], Bundle]]] = {
    "agent-bundle": AgentBundle.of,
    "relay-bundle": RelayBundle.of,
}
_LOOK_SECONDS: Final = 0.5
_WORD_SECONDS: Final = 10.0


class Cluster(Protocol):
    """What is asked of Kubernetes."""

    namespace: str

    def get(self, path: str) -> Json | None:
        """Return an object or a list, if it is there."""

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""

    def replace(self, path: str, body: Json) -> Json:
        """Replace an object as it was seen."""


def run(options: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    return done(ROLE, lambda: Bundling(Kube(options.kubeconfig, options.context), options).made())


def done(role: str, act: Callable[[], str], *, everywhere: bool = True) -> int:
    """Do something that needs the rights of a role of the chart; say what came of it, and return the exit code.

    ``everywhere`` tells whether the role is needed in the whole cluster, or in the site's namespace alone.
    """
    binding, where = ("clusterrolebinding", "") if everywhere else ("rolebinding", " --namespace=NAMESPACE-OF-THE-SITE")
    try:
        said = act()
    except ForbiddenError as error:
        complain(
            f"{error}\nThe chart's ClusterRole {role} has what this command needs. Somebody who may gives it to you:\n"
            f"  kubectl create {binding} {role}-YOU --clusterrole={role} --user=YOU{where}"
        )
        return WRONG
    except (ConfigError, PkiError) as error:
        complain(str(error))
        return WRONG
    except AwayError as error:
        complain(str(error))
        return NO_ANSWER
    except BundleError as error:
        complain(str(error))
        return error.code
    sys.stdout.write(said)
    return 0


def site_of(cluster: Cluster, namespace: str, name: str) -> tuple[Json, Site]:
    """Return a site as Kubernetes has it, and as it is read."""
    body = _body(cluster, namespace, name)
    try:
        return body, checked(body)
    except SiteError as error:
        raise BundleError(f"site {name} breaks a rule, and is left alone: {error}", WRONG) from error


def _body(cluster: Cluster, namespace: str, name: str) -> Json:
    place = f"{_SITES}/namespaces/{quote(namespace, safe='')}/harvestsites"
    found = cluster.get(f"{place}/{quote(name, safe='')}")
    if found is not None:
        return found
    if cluster.get(_SITES) is None:
        raise BundleError("this cluster does not know HarvestSites: is Harvest installed in it?", WRONG)
    sites: list[tuple[str, str]] = []
    for path in (place, f"{_SITES}/harvestsites"):
        with suppress(ForbiddenError):
            items = (cluster.get(path) or {}).get("items", ())
            sites += [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in items]
    raise bundles.no_such_site(name, namespace, sorted(set(sites)))


def cas_of(cluster: Cluster, namespace: str, site: str) -> bytes:
    """Return what agents trust, as the operator tells it: the CA that issues first."""
    name = f"harvest-{site}-agents"
    found = cluster.get(f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{name}")
    if found is None or "ca.crt" not in (found.get("data") or {}):
        raise BundleError(
            f"configmap/{name} is not there, or has no ca.crt: the operator has not looked at the site yet. "
            f"{_where_to_look(namespace, site)}",
            NO_ANSWER,
        )
    text: str = found["data"]["ca.crt"]
    return text.encode()


def _where_to_look(namespace: str, site: str) -> str:
    return (
        "Look at `kubectl get pods --all-namespaces --selector app.kubernetes.io/name=harvest-operator` and "
        f"`kubectl describe hs {site} --namespace {namespace}`"
    )


class Bundling:
    """One bundle: everything that can be known to be wrong is found out before anything is asked for."""

    def __init__(
        self,
        cluster: Cluster,
        options: argparse.Namespace,
        *,
        say: Callable[[str], None] = complain,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._site: str = options.site
        self._namespace: str = options.namespace or cluster.namespace
        self._limit_seconds: float = options.timeout
        self._say, self._clock, self._sleep = say, clock, sleep

    def made(self) -> str:
        """Make the bundle; return what its maker should know."""
        body, site = site_of(self._cluster, self._namespace, self._site)
        bundle = _BUNDLES[self._options.command](site, body.get("status") or {}, self._options)
        folder: Path = self._options.out or bundle.folder
        cas = cas_of(self._cluster, self._namespace, self._site)
        _check_folder(folder, bundle)
        key = new_key()
        certificate = self._certificate(bundle.identity, new_request(bundle.identity, key))
        if not signing_requests.is_of(certificate, cas):
            cas = cas_of(self._cluster, self._namespace, self._site)
        _write(folder, bundle.files(certificate, cas, key_pem(key)))
        return bundle.said(folder, load_certificate(certificate).not_valid_after_utc)

    def _certificate(self, holder: Identity, pem: bytes) -> bytes:
        """Ask for a certificate, vouch for the request, and wait."""
        request = self._cluster.create(_REQUESTS, signing_requests.request_for(self._namespace, holder, pem))
        name = request["metadata"]["name"]
        begun = said = self._clock()
        self._say(f"asked for a certificate with request {name}")
        may_approve = True
        while (certificate := signing_requests.certificate_of(request)) is None:
            if may_approve and not signing_requests.is_approved(request):
                try:
                    vouched = signing_requests.approved(request, holder)
                    request = self._cluster.replace(f"{_REQUESTS}/{name}/approval", vouched)
                    continue
                except ForbiddenError as error:
                    may_approve = False
                    self._say(f"you may not approve it: {error}")
                    self._say(f"waiting for somebody with the ClusterRole {ROLE}: `kubectl certificate approve {name}`")
                except ConflictError:  # somebody else was quicker
                    pass
            now = self._clock()
            if now - begun >= self._limit_seconds:
                raise BundleError(self._too_late(request), NO_ANSWER)
            if now - said >= _WORD_SECONDS:
                said = now
                self._say(
                    f"still waiting: {'signing' if signing_requests.is_approved(request) else 'approval'} of {name}"
                )
            self._sleep(_LOOK_SECONDS)
            found = self._cluster.get(f"{_REQUESTS}/{name}")
            if found is None:
                raise BundleError(f"somebody deleted request {name}", NO_ANSWER)
            request = found
        return certificate

    def _too_late(self, request: Json) -> str:
        name = request["metadata"]["name"]
        if not signing_requests.is_approved(request):
            return (
                f"nobody approved request {name} within {self._limit_seconds:g} s, and its key is forgotten now. Begin "
                f"again with a longer --timeout, and have somebody run `kubectl certificate approve` meanwhile"
            )
        return (
            f"the operator has not signed request {name} within {self._limit_seconds:g} s: does it run, and serve "
            f"namespace {self._namespace}? {_where_to_look(self._namespace, self._site)}"
        )


def _check_folder(folder: Path, bundle: Bundle) -> None:
    make_folder(folder)
    there = [name for name in bundle.names if (folder / name).exists()]
    if there:
        raise BundleError(
            f"{folder / there[0]} is there already, and nothing is overwritten: choose another folder with "
            "--out, or remove it",
            WRONG,
        )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write what is secret first, and never over anything: somebody else may have been here meanwhile."""
    for name in _SECRET:
        if name not in files:
            continue
        path = folder / name
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, KEY_MODE), "wb") as file:
                file.write(files[name])
        except OSError as error:
            raise BundleError(f"cannot write {path}: {error.strerror}", WRONG) from error
    for name in files.keys() - set(_SECRET):
        write(folder / name, files[name], mode=PUBLIC_MODE)
