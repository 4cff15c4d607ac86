"""Who may speak to this aggregator, and which part of the site is its own."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from harvest_pki.certificates import load_bundle, load_certificate
from harvest_pki.checks import why_refused
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_site.loading import Problem, SiteError
from harvest_site.model import Site
from harvest_site.views import aggregators_of, servers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who is let in: the site's servers, with certificates of the CAs that are trusted now."""

    site: str
    issuers: tuple[x509.Certificate, ...]
    servers: frozenset[str]
    denied_serials: frozenset[int]

    def why_refused(self, certificate: x509.Certificate, now: datetime) -> str | None:
        """Return why the holder may not come in, or not stay; nothing if it may."""
        return why_refused(
            certificate,
            site=self.site,
            issuers=self.issuers,
            listed={Kind.SERVER: self.servers},
            denied_serials=self.denied_serials,
            now=now,
        )


def admission(site: Site, tls: Tls, aggregator: str) -> Admission:
    """Put together who may come; refuse files of another site or aggregator: no agent would believe them."""
    own = identity_of(load_certificate(tls.certificate))
    wanted = Identity(site=site.name or own.site, kind=Kind.AGGREGATOR, name=aggregator)
    if own != wanted:
        raise PkiError(
            f"tls.crt is of {own.kind} {own.name} of site {own.site}, and this is aggregator {aggregator} of site "
            f"{wanted.site}: issue one with `harvest-aggregator ca issue-server {aggregator}`"
        )
    return Admission(
        site=own.site,
        issuers=load_bundle(tls.ca),
        servers=servers_of(site),
        denied_serials=site.spec.certificates.denied_serials,
    )


def served_by(site: Site, aggregator: str) -> Site:
    """Return the site with only the file systems that one of its aggregators serves."""
    there = {one.name: one.filesystems for one in aggregators_of(site)}
    if aggregator not in there:
        raise SiteError(
            [
                Problem(
                    "spec.aggregators", f"there is no aggregator {aggregator}: --aggregator is one of {_listed(there)}"
                )
            ]
        )
    own = tuple(one for one in site.spec.filesystems if one.name in there[aggregator])
    return Site(site.name, site.spec.model_copy(update={"filesystems": own}))


def _listed(names: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(sorted(names))
