"""Who a certificate speaks for: a server, a relay or an aggregator of one site."""

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from cryptography import x509

from harvest_pki.errors import PkiError, shown

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_LABEL_PATTERN: Final = re.compile(_LABEL)
_HOST_LABEL: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"  # hosts are called many things, and listed as they are called
_HOST_PATTERN: Final = re.compile(rf"(?=.{{1,253}}\Z){_HOST_LABEL}(?:\.{_HOST_LABEL})*")
_DOMAIN: Final = ".harvest"
_SCHEME: Final = "harvest:"
_URI: Final = r"harvest:([^:]*):(server|relay):([^:]*)"
_DNS: Final = r"([^.]*)\.([^.]*)\.harvest"


class Kind(StrEnum):
    """What the holder of a certificate is."""

    SERVER = "server"
    """A machine with an agent: a Lustre server, or the host beside Slurm."""
    RELAY = "relay"
    AGGREGATOR = "aggregator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One holder of a certificate; making one with a name that cannot be is refused."""

    site: str
    kind: Kind
    name: str

    def __post_init__(self) -> None:
        check_site(self.site)
        if self.kind is Kind.AGGREGATOR:  # a dot would make <aggregator>.<site>.harvest ambiguous
            _check_label("an aggregator's name", self.name)
        elif not _HOST_PATTERN.fullmatch(self.name):
            raise PkiError(
                f"'{shown(self.name)}' cannot be a {self.kind}'s name: it must be a host name, "
                "such as oss1 or oss1.example.org, with at most 253 characters"
            )

    @property
    def text(self) -> str:
        """The name as it stands in the certificate."""
        if self.kind is Kind.AGGREGATOR:
            return f"{self.name}.{self.site}{_DOMAIN}"
        return f"{_SCHEME}{self.site}:{self.kind}:{self.name}"

    @property
    def alternative_name(self) -> x509.GeneralName:
        """The name as a part of the certificate."""
        return (x509.DNSName if self.kind is Kind.AGGREGATOR else x509.UniformResourceIdentifier)(self.text)


def check_site(site: str) -> None:
    """Refuse what cannot be the name of a site."""
    _check_label("a site's name", site)


def ca_name(site: str) -> x509.UniformResourceIdentifier:
    """Return the name by which a CA certificate says whose it is; its subject may be too short for it."""
    return x509.UniformResourceIdentifier(f"{_SCHEME}{site}:ca")


def site_of_ca(certificate: x509.Certificate) -> str:
    """Return the site that a CA certificate was made for."""
    match _names(certificate):
        case [x509.UniformResourceIdentifier(value=name)] if ca := re.fullmatch(rf"harvest:({_LABEL}):ca", name):
            return ca[1]
        case _:
            raise PkiError("this CA certificate does not say which site it is for: make one with `ca init`")


def joining_name(site: str, ca: str) -> str:
    """Return the name of the place where servers join that trust the CA with this fingerprint.

    Nobody else's name looks so. It says which CA the client knows, and so which certificate it can be shown.
    """
    return f"{ca[:32]}.{site}.joining{_DOMAIN}"


def host_name(host: str) -> x509.GeneralName:
    """Return a host's name or address as a part of a certificate; it must not look like one of our own names."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not _HOST_PATTERN.fullmatch(host) or host.lower().endswith(_DOMAIN):
        raise PkiError(
            f"'{shown(host)}' cannot stand in a certificate: write a host name that does not end in {_DOMAIN}"
        )
    return x509.DNSName(host)


def hosts_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return the names and addresses that stand beside the identity."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = [name for name in names.get_values_for_type(x509.DNSName) if not name.lower().endswith(_DOMAIN)]
    return frozenset([*hosts, *map(str, names.get_values_for_type(x509.IPAddress))])


def identity_of(certificate: x509.Certificate) -> Identity:
    """Read the one Harvest name of a certificate; names of other worlds beside it say nothing to us."""
    match _names(certificate):
        case []:
            raise PkiError("the certificate has no Harvest name: was it made for something else?")
        case [x509.UniformResourceIdentifier(value=name)] if uri := re.fullmatch(_URI, name):
            return Identity(site=uri[1], kind=Kind(uri[2]), name=uri[3])
        case [x509.DNSName(value=name)] if dns := re.fullmatch(_DNS, name):
            return Identity(site=dns[2], kind=Kind.AGGREGATOR, name=dns[1])
        case [name]:
            raise PkiError(f"the certificate's name '{shown(name.value)}' is no agent's, relay's or aggregator's")
        case names:
            listed = shown(", ".join(name.value for name in names))
            raise PkiError(f"the certificate has several Harvest names: {listed}")


def _names(certificate: x509.Certificate) -> list[x509.UniformResourceIdentifier | x509.DNSName]:
    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise PkiError(f"the certificate's names cannot be read: {shown(str(error))}") from error
    uris = [name for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    hosts = [name for name in names if isinstance(name, x509.DNSName)]
    return [
        *(name for name in uris if name.value.startswith(_SCHEME)),
        *(name for name in hosts if name.value.endswith(_DOMAIN)),
    ]


def _check_label(what: str, text: str) -> None:
    if not _LABEL_PATTERN.fullmatch(text):
        raise PkiError(
            f"'{shown(text)}' cannot be {what}: "
            "it must have 1 to 63 lower-case letters, digits and dashes, a letter or digit first and last"
        )
