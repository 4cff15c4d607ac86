"""What another site's aggregator needs to be let in as a relay, from what this site accepts. Pure."""

import argparse
import base64
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from harvest_cli.bundles import KEY, NOT_FOUND, WRONG, BundleError
from harvest_pki.certificates import load_certificate
from harvest_pki.identities import Identity, Kind
from harvest_site.model import DEFAULT_AGGREGATOR, Accept, Site
from harvest_site.references import ObjectRef
from harvest_site.views import aggregators_of

MANIFEST: Final = "secret.yaml"
_ANY_NODE: Final = "ANY-NODE:"


@dataclass(frozen=True, slots=True)
class RelayBundle:
    """What ``harvest relay-bundle`` makes: the Secret of the sender's ``tlsSecretRef``, as files and as a manifest."""

    site: Site
    accept: Accept
    secret: str
    endpoints: Mapping[str, str]
    """Where relays reach each aggregator that wants to hear of them, as far as the site's status says."""
    names = (KEY, "tls.crt", "ca.crt", MANIFEST)

    @classmethod
    def of(cls, site: Site, status: Mapping[str, Any], options: argparse.Namespace) -> "RelayBundle":
        """Return it for a relay that the site accepts; one that would not be let in is refused."""
        accept = _accepted(site, options.relay)
        told = {line["name"]: line.get("endpoint") or "HOST:PORT" for line in status.get("aggregators") or ()}
        wanting = _wanting(site, accept)
        secret = _secret_name(options.secret or f"relay-{site.name}")
        return cls(site, accept, secret, {name: told.get(name, "HOST:PORT") for name in wanting})

    @property
    def identity(self) -> Identity:
        """The relay."""
        return Identity(site=str(self.site.name), kind=Kind.RELAY, name=self.accept.name)

    @property
    def folder(self) -> Path:
        """Named as the Secret, as a folder under ``--secrets`` is."""
        return Path(self.secret)

    def files(self, certificate: bytes, cas: bytes, key: bytes) -> dict[str, bytes]:
        """Return its files: what TLS needs, and all of it once more as a Secret."""
        data = {"tls.crt": certificate, KEY: key, "ca.crt": cas}
        end = load_certificate(certificate).not_valid_after_utc
        lines = [
            f"# With this relay {self.accept.name} comes to site {self.site.name}, until {end:%Y-%m-%d}. It is secret.",
            "apiVersion: v1",
            "kind: Secret",
            "metadata:",
            f"  name: {self.secret}",
            "  labels: {app.kubernetes.io/part-of: harvest}",
            "data:",
            *(f"  {name}: {base64.b64encode(content).decode()}" for name, content in data.items()),
        ]
        return {**data, MANIFEST: ("\n".join(lines) + "\n").encode()}

    def said(self, folder: Path, end: datetime) -> str:
        """Return how it gets to the sender, and what its site says then."""
        own, there = f"{folder}/tls.crt {folder}/{KEY} {folder}/ca.crt", f"SECRETS/{self.secret}"
        notes = [
            f"  where ANY-NODE is the address of any node of this cluster, for aggregator {name}\n"
            for name, endpoint in self.endpoints.items()
            if endpoint.startswith(_ANY_NODE)
        ]
        return (
            f"{folder} has all with which relay {self.accept.name} is let in by site {self.site.name}; its certificate "
            f"ends on {end:%Y-%m-%d}.\n"
            f"Next, give it to whoever runs {self.accept.name}. In Kubernetes, in that site's namespace:\n"
            f"  kubectl apply --namespace NAMESPACE --filename {folder}/{MANIFEST}\n"
            "Elsewhere, in the folder of its aggregator's --secrets:\n"
            f"  install -d -m 700 {there} && cp -p {own} {there}/\n"
            "What that site says of it:\n"
            "  relays:\n"
            f"{''.join(f'    - {self._entry(name, endpoint)}{chr(10)}' for name, endpoint in self.endpoints.items())}"
            f"{''.join(notes)}"
            f"Then remove {folder}: its key is the relay's. To renew it, do the same again before its end.\n"
        )

    def _entry(self, aggregator: str, endpoint: str) -> str:
        """Return a line of the sender's ``relays``: YAML, as JSON is."""
        served = next(one.filesystems for one in aggregators_of(self.site) if one.name == aggregator)
        clusters = list(_mounting(self.site, set(served) & set(self.accept.filesystems)))
        named = "" if aggregator == DEFAULT_AGGREGATOR else f"aggregator: {aggregator}, "
        return (
            f"{{cluster: {clusters[0] if len(clusters) == 1 else 'CLUSTER'}, "
            f"filesystems: [{', '.join(name for name in self.accept.filesystems if name in served)}], "
            f"endpoint: {json.dumps(endpoint)}, {named}tlsSecretRef: {{name: {self.secret}}}}}"
        )


def _accepted(site: Site, relay: str) -> Accept:
    accept = next((one for one in site.spec.accepts if one.name == relay), None)
    if accept is None:
        near = difflib.get_close_matches(relay, [one.name for one in site.spec.accepts], 1)
        hint = f"did you mean {near[0]}? Else add" if near else "add"
        raise BundleError(
            f"site {site.name} takes in no relay {relay}: {hint} it to `accepts`, and apply the site", NOT_FOUND
        )
    if accept.ca_secret_ref is not None:
        raise BundleError(
            f"relay {relay} is to come with a certificate of another CA (secret/{accept.ca_secret_ref.name}): it is "
            "issued where that CA is, or take `caSecretRef` out of `accepts`, and apply the site",
            WRONG,
        )
    return accept


def _wanting(site: Site, accept: Accept) -> list[str]:
    """Return the aggregators that want to hear of a relay. A sender tells one of them alone what a cluster does."""
    told = set(accept.filesystems)
    parts = {one.name: part for one in aggregators_of(site) if (part := told.intersection(one.filesystems))}
    for mounted in _mounting(site, told).values() or [told]:
        wanting = [name for name, part in parts.items() if part & mounted]
        if len(wanting) > 1:
            shared = ", ".join(name for name in accept.filesystems if name in mounted)
            raise BundleError(
                f"aggregators {', '.join(wanting)} of site {site.name} share what relay {accept.name} tells of a "
                f"cluster ({shared}), and a cluster's relay goes to one aggregator: give all of these file systems to "
                f"one, such as {wanting[0]} (`aggregators[].filesystems`), and apply the site",
                WRONG,
            )
    return list(parts)


def _mounting(site: Site, names: set[str]) -> dict[str, set[str]]:
    """Return the clusters that mount any of these file systems, and which."""
    return {one.name: found for one in site.spec.clusters if (found := names & set(one.filesystems))}


def _secret_name(name: str) -> str:
    try:
        return ObjectRef.model_validate({"name": name}).name
    except ValidationError:
        raise BundleError(
            f"{name!r} cannot be the name of a Secret: write small letters, digits and '-'", WRONG
        ) from None
