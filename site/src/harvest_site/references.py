"""Secrets and ConfigMaps by name: nothing secret stands in a site."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from harvest_site.fields import Model, Shape

ObjectName = Annotated[
    str,
    Field(max_length=253),
    Shape("[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*", "the name of a Kubernetes object"),
]
Key = Annotated[
    str,
    Field(max_length=253),
    Shape("[A-Za-z0-9_-][A-Za-z0-9._-]*", "a key of the object's data, such as token; the first sign no '.'"),
]


class ObjectRef(Model):
    """A Secret or ConfigMap as a whole."""

    name: ObjectName
    """Name of the object; outside of Kubernetes a folder under `--secrets`."""


class TlsSecretRef(ObjectRef):
    """A Secret with `tls.crt`, `tls.key` and `ca.crt`."""


class KeyRef(ObjectRef):
    """One key of a Secret or ConfigMap."""

    key: Key
    """Key in its data; outside of Kubernetes a file in that folder."""


class SecretRef(KeyRef):
    """One key of a Secret."""


class CaSecretRef(SecretRef):
    """A certificate to trust."""

    key: Key = "ca.crt"
    """Key in its data; outside of Kubernetes a file in that folder."""


class MungeSecretRef(SecretRef):
    """The key of munge."""

    key: Key = "munge.key"
    """Key in its data."""


class SlurmConfigRef(KeyRef):
    """A ConfigMap with Slurm's configuration."""

    key: Key = "slurm.conf"
    """Key in its data."""


def secret_folder(secrets: Path, ref: ObjectRef) -> Path:
    """Return the folder with one file per key of the object."""
    return secrets / ref.name


def secret_path(secrets: Path, ref: KeyRef) -> Path:
    """Return the file that holds the key's value."""
    return secret_folder(secrets, ref) / ref.key
