"""The site's CA: read, made, or turned over to a new one. Pure: the clock is an argument, and what is random, too."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from cryptography import x509

from harvest_operator.minting import Made, Mint, content_of, is_marked, replaced, secret
from harvest_operator.names import FINISH_CA_ROTATION, ROTATE_CA, ROTATION, SITE_UID, Object, Owner
from harvest_pki.authorities import Authority, rotated
from harvest_pki.certificates import bundle_pem, load_bundle
from harvest_pki.errors import PkiError
from harvest_pki.keys import key_pem, load_key

_PREVIOUS: Final = ("previous.crt", "previous.key")


class NoAuthorityError(Exception):
    """There is no CA to issue with; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Who is trusted, and who issues."""

    bundle: tuple[x509.Certificate, ...]
    issuer: Authority
    """For aggregators: during a rotation the old CA, which every agent trusts."""
    for_agents: Authority
    """Issues for agents: during a rotation the new CA, which every aggregator trusts."""
    rotation: str | None = None
    """The one that is going on."""

    @property
    def pem(self) -> bytes:
        """What both ends of TLS trust."""
        return bundle_pem(self.bundle)


def given_authority(found: Object | None, owner: Owner, name: str) -> Trust:
    """Read the CA that the site brought: a certificate or several in ``tls.crt``, and the key of one of them."""
    if found is None:
        raise NoAuthorityError(f"secret/{name} is not there: make it, with the CA's tls.crt and tls.key")
    return _read(found, owner, "tls.crt", "ca.crt")


def own_authority(found: Object, owner: Owner) -> Trust:
    """Read the CA that the operator made before. During a rotation the old one still issues for aggregators."""
    trust = _read(found, owner, "tls.crt", "ca.crt")
    content = content_of(found)
    if not set(_PREVIOUS) <= content.keys():
        return trust
    try:
        previous = Authority.of(load_bundle(content[_PREVIOUS[0]]), load_key(content[_PREVIOUS[1]]))
    except PkiError as error:
        raise NoAuthorityError(f"the old CA in secret/{owner.ca} cannot be used: {error}") from error
    annotations = found["metadata"].get("annotations") or {}
    rotation = annotations.get(ROTATION) or owner.annotations.get(ROTATE_CA, "")
    return replace(trust, issuer=previous, rotation=rotation)


def new_authority(
    owner: Owner, metadata: dict[str, Any], in_use: Iterable[Object], mint: Mint, now: datetime
) -> tuple[Made, Trust]:
    """Make the site's CA. One that was there and is lost stays trusted as long as certificates of it are in use."""
    made = Authority.create(owner.name, key=mint.key(), serial=mint.serial(), now=now)
    trusted = [one for found in in_use for one in _bundle(found)]
    bundle = tuple(dict.fromkeys(rotated(trusted, made, now=now)))
    asked = owner.annotations.get(ROTATE_CA)  # of a CA that is no more: this one has not been asked to go
    if asked:
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), ROTATION: asked}}
    manifest = secret(metadata, _ca_content(made, bundle), kind="kubernetes.io/tls")
    said = f"the CA of the site is in secret/{owner.ca}, valid until {made.certificate.not_valid_after_utc:%Y-%m-%d}"
    lost = ". The one before is lost and stays trusted: give every agent new files, then rotate" if trusted else ""
    return Made(manifest, ("CaCreated", said + lost)), Trust(bundle=bundle, issuer=made, for_agents=made)


def turned(
    found: Object, trust: Trust, owner: Owner, metadata: dict[str, Any], mint: Mint, now: datetime
) -> tuple[Made | None, Trust]:
    """Return what becomes of the CA: begin a rotation, end one, forget what expired, or mend its labels."""
    content = content_of(found)
    marks = found["metadata"].get("annotations") or {}
    asked, finish = owner.annotations.get(ROTATE_CA), owner.annotations.get(FINISH_CA_ROTATION)
    if trust.rotation is None and asked and not marks.keys() & {ROTATION, SITE_UID} and not owner.owns(found):
        # Somebody took its marks away: what was asked for may have been done long ago.
        manifest = replaced(found, content, metadata, {ROTATION: asked})
        return Made(manifest, ("CaTaken", f"secret/{owner.ca} is this site's")), trust
    if trust.rotation is None and asked and asked != marks.get(ROTATION):
        new = Authority.create(owner.name, key=mint.key(), serial=mint.serial(), now=now)
        bundle = rotated(trust.bundle, new, now=now)
        kept = dict(zip(_PREVIOUS, (content["tls.crt"], content["tls.key"]), strict=True))
        manifest = replaced(found, {**_ca_content(new, bundle), **kept}, metadata, {ROTATION: asked})
        said = (
            "CaRotationBegun",
            (
                f"rotation {asked}: a new CA issues for agents, both are trusted. Give every agent new files, then set "
                f"the annotation {FINISH_CA_ROTATION}={asked}"
            ),
        )
        return Made(manifest, said), Trust(bundle=bundle, issuer=trust.issuer, for_agents=new, rotation=asked)
    current = Authority.of(trust.bundle, load_key(content["tls.key"]))
    if trust.rotation is not None and (finish == trust.rotation or now >= trust.issuer.certificate.not_valid_after_utc):
        manifest = replaced(found, _ca_content(current, (current.certificate,)), metadata)
        said = "CaRotationFinished", f"rotation {trust.rotation}: the old CA is trusted no more"
        return Made(manifest, said), Trust(bundle=(current.certificate,), issuer=current, for_agents=current)
    if not is_marked(found, metadata):
        return Made(replaced(found, content, metadata), ("CaTaken", f"secret/{owner.ca} is this site's")), trust
    return None, trust


def _read(found: Object, owner: Owner, *bundles: str) -> Trust:
    content = content_of(found)
    name = found["metadata"]["name"]
    if not {"tls.crt", "tls.key"} <= content.keys():
        raise NoAuthorityError(f"secret/{name} needs tls.crt and tls.key")
    try:
        trusted = dict.fromkeys(one for key in bundles if key in content for one in load_bundle(content[key]))
        authority = Authority.of(trusted, load_key(content["tls.key"]))
    except PkiError as error:
        raise NoAuthorityError(f"secret/{name} is no CA that can be used: {error}") from error
    if authority.site != owner.name:
        raise NoAuthorityError(f"secret/{name} is the CA of site {authority.site}; this is site {owner.name}")
    return Trust(bundle=tuple(trusted), issuer=authority, for_agents=authority)


def _bundle(found: Object) -> tuple[x509.Certificate, ...]:
    try:
        return load_bundle(content_of(found).get("ca.crt", b""))
    except PkiError:
        return ()


def _ca_content(authority: Authority, bundle: Iterable[x509.Certificate]) -> dict[str, bytes]:
    return {
        "tls.crt": bundle_pem([authority.certificate]),
        "tls.key": key_pem(authority.key),
        "ca.crt": bundle_pem(bundle),
    }
