"""``harvest token create``: tokens with which servers join a site that an operator serves."""

import argparse
import base64
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from harvest_cli import bundles
from harvest_cli.bundles import WRONG, BundleError
from harvest_cli.bundling import Cluster, cas_of, done, site_of
from harvest_cli.kube import Kube
from harvest_cli.signing_requests import Json
from harvest_pki.certificates import fingerprint, load_bundle
from harvest_pki.commands import parse_lifetime
from harvest_pki.errors import PkiError
from harvest_pki.keys import new_secret
from harvest_pki.tokens import Entry, Token
from harvest_site.hostlists import expand

ROLE: Final = "harvest-token-create"
_JOIN: Final = "lustreharvest.dev/join"


def run(options: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    return done(ROLE, lambda: _made(Kube(options.kubeconfig, options.context), options), everywhere=False)


def _made(cluster: Cluster, options: argparse.Namespace) -> str:
    namespace = options.namespace or cluster.namespace
    try:
        lifetime = parse_lifetime(options.lifetime)
    except argparse.ArgumentTypeError as error:
        raise PkiError(str(error)) from error
    now = datetime.now(UTC).replace(microsecond=0)
    made = create(cluster, namespace, options.site, options.servers, lifetime=lifetime, now=now)
    return "".join(f"{token.text}\n" for token in made)


def create(
    cluster: Cluster, namespace: str, site: str, servers: Iterable[str], *, lifetime: timedelta, now: datetime
) -> list[Token]:
    """Make a token for each server; what is needed to know it again goes into a Secret beside the site.

    Creating is all that is needed for it: whoever makes tokens need not be able to read anybody's Secrets.
    """
    try:
        names = [name for text in servers for name in expand(text)]
    except ValueError as error:
        raise BundleError(str(error), WRONG) from error
    body, read = site_of(cluster, namespace, site)
    for name in names:
        bundles.check_listed(read, name)
    ca = fingerprint(load_bundle(cas_of(cluster, namespace, site))[0])
    made = [Token(site=site, server=name, secret=new_secret(), ca=ca) for name in names]
    entries = [Entry.of(token, now=now, lifetime=lifetime) for token in made]
    for entry in entries:
        cluster.create(f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets", secret_of(body, entry))
    return made


def secret_of(site: Json, entry: Entry) -> Json:
    """Return what is kept of a token, as the operator looks for it; it goes when the site goes."""
    metadata = site["metadata"]
    owner = {
        "apiVersion": "lustreharvest.dev/v1alpha1",
        "kind": "HarvestSite",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"harvest-{metadata['name']}-join-{entry.digest[:32]}",
            "labels": {"app.kubernetes.io/part-of": "harvest", _JOIN: metadata["name"]},
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "data": {"token": base64.b64encode(entry.line().encode()).decode()},
    }
