"""Requests for agents' and relays' certificates (CSRs): made where the key is, read where the CA is."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from harvest_pki.authorities import subject
from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import PrivateKey, PublicKey, load_request, strong


def new_request(identity: Identity, key: PrivateKey) -> bytes:
    """Return a request (PEM) with the names that the certificate will have."""
    names = x509.SubjectAlternativeName([identity.alternative_name])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject(identity.name))
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def requested(data: bytes, site: str) -> tuple[Identity, PublicKey]:
    """Return the agent or relay that a request is for, and the key that its sender proved to own.

    The subject names the server or relay. The name of the certificate may stand beside it, and must for relays, and
    where the subject's is too short for the name: 64 characters. Whoever asks for anything else is refused: it would
    not be in the certificate.
    """
    request = load_request(data)
    kind, name = _asked(request, site)
    identity = Identity(site=site, kind=kind, name=name)
    if request.subject != subject(identity.name):
        what = shown(request.subject.rfc4514_string())
        raise PkiError(f"the request's subject is '{what}': it must be CN={identity.name[:64]} and no more")
    return identity, strong(request.public_key())


def _asked(request: x509.CertificateSigningRequest, site: str) -> tuple[Kind, str]:
    try:
        wanted = [one.value for one in request.extensions]
        names = list(wanted[0]) if len(wanted) == 1 and isinstance(wanted[0], x509.SubjectAlternativeName) else []
        common = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise PkiError(f"the request's names cannot be read: {shown(str(error))}") from error
    if not wanted:
        return Kind.SERVER, next(iter(common), "")
    prefixes = {kind: f"harvest:{site}:{kind}:" for kind in (Kind.SERVER, Kind.RELAY)}
    if len(names) == 1 and isinstance(names[0], x509.UniformResourceIdentifier):
        for kind, prefix in prefixes.items():
            if names[0].value.startswith(prefix):
                return kind, names[0].value.removeprefix(prefix)
    listed = " or ".join(f"{prefix}NAME" for prefix in prefixes.values())
    raise PkiError(f"the request asks for more than its name: at most the URI {listed} may stand beside it")
