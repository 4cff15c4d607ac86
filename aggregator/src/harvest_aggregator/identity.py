"""Who may speak to this aggregator, and which part of the site is its own."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from cryptography import x509

from harvest_pki.certificates import load_bundle, load_certificate
from harvest_pki.checks import why_refused
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls
from harvest_pki.identities import Identity, Kind, identity_of, site_of_ca
from harvest_site.loading import Problem, SiteError
from harvest_site.model import Accept, Relay, Site
from harvest_site.views import aggregators_of, servers_of

_Shared = TypeVar("_Shared", Relay, Accept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who is let in: the site's servers, and relays that it accepts, with certificates of CAs that are trusted now."""

    site: str
    issuers: tuple[x509.Certificate, ...]
    servers: frozenset[str]
    relays: Mapping[str, tuple[x509.Certificate, ...]]
    """Those that are taken in, each with the CAs of another site that vouch for it; none where that is our own."""
    unvouched: Mapping[str, str]
    """Those that would be, with why nobody knows the CA that is to vouch for them: nobody is let in as one of these."""
    denied_serials: frozenset[int]

    def why_refused(self, certificate: x509.Certificate, now: datetime) -> str | None:
        """Return why an agent may not come in, or not stay; nothing if it may."""
        return self._why_refused(certificate, self.site, self.issuers, {Kind.SERVER: self.servers}, now)

    def why_relay_refused(self, certificate: x509.Certificate, now: datetime) -> str | None:
        """Return why a relay may not come in; nothing if it may."""
        try:
            holder = identity_of(certificate)
        except PkiError as error:
            return str(error)
        if holder.name in self.unvouched:
            return f"nobody is let in as relay {holder.name}: {self.unvouched[holder.name]}"
        others = self.relays.get(holder.name, ())
        site = site_of_ca(others[0]) if others else self.site
        return self._why_refused(certificate, site, others or self.issuers, {Kind.RELAY: self.relays}, now)

    def _why_refused(
        self,
        certificate: x509.Certificate,
        site: str,
        issuers: tuple[x509.Certificate, ...],
        listed: Mapping[Kind, Collection[str]],
        now: datetime,
    ) -> str | None:
        return why_refused(
            certificate, site=site, issuers=issuers, listed=listed, denied_serials=self.denied_serials, now=now
        )


def admission(
    site: Site,
    tls: Tls,
    aggregator: str,
    relay_cas: Mapping[str, tuple[x509.Certificate, ...]] | None = None,
    unvouched: Mapping[str, str] | None = None,
) -> Admission:
    """Put together who may come; refuse files of another site or aggregator: no agent would believe them.

    ``relay_cas`` are the CAs of relays that this site's own does not vouch for, by the relay's name; ``unvouched`` says
    of such relays why there is none.
    """
    own = identity_of(load_certificate(tls.certificate))
    wanted = Identity(site=site.name or own.site, kind=Kind.AGGREGATOR, name=aggregator)
    if own != wanted:
        raise PkiError(
            f"tls.crt is of {own.kind} {own.name} of site {own.site}, and this is aggregator {aggregator} of site "
            f"{wanted.site}: issue one with `harvest-aggregator ca issue-server {aggregator}`"
        )
    cas = relay_cas or {}
    return Admission(
        site=own.site,
        issuers=load_bundle(tls.ca),
        servers=servers_of(site),
        relays={
            one.name: cas.get(one.name, ())
            for one in site.spec.accepts
            if one.ca_secret_ref is None or one.name in cas  # never our own CA instead of one that is not there
        },
        unvouched=unvouched or {},
        denied_serials=site.spec.certificates.denied_serials,
    )


def served_by(site: Site, aggregator: str) -> Site:
    """Return the site with only the file systems that one of its aggregators serves, its own and others'."""
    there = {one.name: one.filesystems for one in aggregators_of(site)}
    if aggregator not in there:
        raise SiteError(
            [
                Problem(
                    "spec.aggregators", f"there is no aggregator {aggregator}: --aggregator is one of {_listed(there)}"
                )
            ]
        )
    served = there[aggregator]
    own = tuple(one for one in site.spec.filesystems if one.name in served)
    parts = {"filesystems": own, "relays": _cut(site.spec.relays, served), "accepts": _cut(site.spec.accepts, served)}
    return Site(site.name, site.spec.model_copy(update=parts))


def _cut(ones: tuple[_Shared, ...], served: Collection[str]) -> tuple[_Shared, ...]:
    """Return relays with those of their file systems that are served, as far as any is left."""
    return tuple(
        one.model_copy(update={"filesystems": names})
        for one in ones
        if (names := tuple(name for name in one.filesystems if name in served))
    )


def _listed(names: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(sorted(names))
