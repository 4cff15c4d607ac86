"""A site on the API server, what it should have become, and what it has."""

import base64
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature

from harvest_operator.deciding import decide
from harvest_operator.minting import Mint
from harvest_operator.names import ROTATION, SITE_UID, Key, Object, Owner, key_of
from harvest_operator.references import all_references
from harvest_pki.certificates import belongs, load_bundle
from harvest_pki.keys import load_key
from harvest_site.loading import checked
from support.kubernetes.api import Api
from support.kubernetes.resources import sites_path
from support.operators import applied, children, path_of, status_of
from support.processes import wait_for
from support.sites_in_kubernetes import OPTIONS, masked

SECONDS: Final = 120.0
Json = dict[str, Any]


def site(name: str, **spec: object) -> Json:
    """Return a site with two file systems, a cluster, and a sink that needs a Secret."""
    influx = {
        "url": "http://influx:8086",
        "org": "o",
        "bucket": "b",
        "tokenSecretRef": {"name": "influx", "key": "token"},
    }
    return {
        "apiVersion": "lustreharvest.dev/v1alpha1",
        "kind": "HarvestSite",
        "metadata": {"name": name},
        "spec": {
            "filesystems": [{"name": "home", "servers": ["oss[1-4]"]}, {"name": "work", "servers": ["oss5"]}],
            "clusters": [{"name": "vu", "lnets": ["o2ib"], "filesystems": ["home", "work"]}],
            "sinks": [{"name": "influx", "influxdb": influx}],
            **spec,
        },
    }


def two_aggregators(first: str = "a", second: str = "b") -> list[Json]:
    """Return how a site is shared by two aggregators."""
    return [{"name": first, "filesystems": ["home"]}, {"name": second, "filesystems": ["work"]}]


@dataclass(frozen=True)
class Scene:
    """One site in a namespace."""

    api: Api
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{sites_path(self.namespace)}/{self.name}"

    def put(self, **spec: object) -> None:
        """Make the site, and the Secret that it needs."""
        self.secret("first")
        self.api.post(sites_path(self.namespace), site(self.name, **spec))

    def secret(self, content: str, *, name: str = "influx", keys: Collection[str] = ("token",)) -> None:
        """Write a Secret that the site refers to: what the sink needs, or another one."""
        data = dict.fromkeys(keys, content)
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        self.api.apply(path_of(self.namespace, ("Secret", name)), body, force=True)

    def edit(self, **spec: object) -> None:
        """Change the site: what is named replaces what was there."""
        self.api.patch(self.path, {"spec": spec})

    def annotate(self, **marks: str | None) -> None:
        """Put annotations on the site: ``rotate_ca`` is ``lustreharvest.dev/rotate-ca``."""
        named = {f"lustreharvest.dev/{name.replace('_', '-')}": value for name, value in marks.items()}
        self.api.patch(self.path, {"metadata": {"annotations": named}})

    def children(self) -> dict[Key, Json]:
        """Return what was made for the site."""
        return children(self.api, self.namespace, self.name)

    def state(self) -> dict[Key, Json]:
        """Return what the operator says of every child, without what is random, and without the names of rotations."""
        return {key: _stated(one) for key, one in self.children().items()}

    def wanted(self) -> dict[Key, Json]:
        """Return the same as it would be if the site had just been made as it is."""
        body = self.api.get(self.path)
        spec, owner = checked(body), Owner.of(body)
        there: dict[Key, Object] = {}
        for reference in all_references(spec):
            if (found := self.api.find(path_of(self.namespace, reference.object))) is not None:
                there[reference.object] = found
        plan = decide(spec, owner, there, options=OPTIONS, mint=Mint(), now=datetime.now(UTC))
        return {key_of(write.manifest): _unrotated(masked(write.manifest), ROTATION) for write in plan.writes}

    def goal(self, kept: Collection[Key] = ()) -> Callable[[], bool]:
        """Return what tells whether all is as if the site had just been made, and told; ``kept`` is there besides."""
        wanted, generation = self.wanted(), self.api.get(self.path)["metadata"]["generation"]

        def reached() -> bool:
            state = self.state()
            rest = {key: one for key, one in state.items() if key not in kept}
            is_told = self.status().get("observedGeneration") == generation
            return is_told and rest == wanted and set(kept) <= set(state) and self.is_certified()

        return reached

    def is_certified(self) -> bool:
        """Tell whether every certificate fits its key, and is of the CA that the site has now."""
        secrets = {key[1]: one["data"] for key, one in self.children().items() if key[0] == "Secret"}
        (authority,) = load_bundle(_decoded(secrets[f"harvest-{self.name}-ca"]["tls.crt"]))
        for data in (one for name, one in secrets.items() if name.endswith("-tls")):
            (certificate,) = load_bundle(_decoded(data["tls.crt"]))
            try:
                certificate.verify_directly_issued_by(authority)
            except (ValueError, InvalidSignature):
                return False
            if not belongs(load_key(_decoded(data["tls.key"])), certificate):
                return False
        return True

    def settle(self, what: str, kept: Collection[Key] = ()) -> None:
        """Wait until it is so."""
        try:
            wait_for(self.goal(kept), what, seconds=SECONDS)
        except AssertionError as error:
            state, wanted = self.state(), self.wanted()
            lacking = {key: (state.get(key), one) for key, one in wanted.items() if state.get(key) != one}
            beside = set(state) - set(wanted) - set(kept)
            raise AssertionError(f"{error}: lacking {lacking}, besides {beside}, told {self.status()}") from error

    def status(self) -> Json:
        """Return what is told about the site."""
        return status_of(self.api, self.namespace, self.name)

    def ready(self) -> Json:
        """Return the condition Ready."""
        ready: Json = next(one for one in self.status()["conditions"] if one["type"] == "Ready")
        return ready

    def generation(self, key: Key) -> tuple[str, int]:
        """Return what changes if an object is made anew, or its spec is changed: a Deployment's Pods with it."""
        metadata = self.api.get(path_of(self.namespace, key))["metadata"]
        return metadata["uid"], metadata.get("generation", 0)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


def _stated(found: Json) -> Json:
    said = applied(found)
    if found["kind"] in {"Secret", "ConfigMap"} and not said.get("data"):
        return said  # somebody emptied it
    one = masked(said)
    past = [ROTATION, *([SITE_UID] if "ownerReferences" in one["metadata"] else [])]  # of a site that thought otherwise
    return _unrotated(one, *past)


def _unrotated(one: Json, *past: str) -> Json:
    """Return an object without annotations that tell of the past."""
    rest = {name: what for name, what in one["metadata"].items() if name != "annotations"}
    marks = {name: text for name, text in one["metadata"].get("annotations", {}).items() if name not in past}
    return {**one, "metadata": {**rest, **({"annotations": marks} if marks else {})}}
