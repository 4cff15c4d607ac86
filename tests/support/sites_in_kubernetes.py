"""Sites as Kubernetes has them, what they refer to, and the objects that they must become (tests/data/operator).

A case is a folder: ``site.yaml``, ``given.yaml`` (what the site refers to; ``ca: NAME`` makes a CA of that site), and
``expected`` with one file per object and the status. What is random, or Kubernetes' own to choose, is masked.
``python -m support.sites_in_kubernetes`` writes the expected files anew.
"""

import base64
import copy
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from typing_extensions import override

from harvest_operator.deciding import decide
from harvest_operator.manifests import Options
from harvest_operator.minting import Mint
from harvest_operator.names import APPLIED, REFERENCES, SITE_UID, Key, Object, Owner, key_of
from harvest_operator.plan import Plan
from harvest_operator.status import concluded
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_bundle
from harvest_pki.errors import PkiError
from harvest_pki.keys import key_pem, new_key, new_serial
from harvest_site.loading import checked, load
from harvest_site.model import Site

DATA: Final = Path(__file__).parents[1] / "data" / "operator"
CASES: Final = sorted(path.name for path in DATA.iterdir())
NOW: Final = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
UID: Final = "11111111-2222-3333-4444-555555555555"
OPTIONS: Final = Options(aggregator_image="images.example/harvest-aggregator:0.1.0", pull_secrets=("pull",))
ARGUMENTS: Final = ("--aggregator-image", OPTIONS.aggregator_image, "--image-pull-secret", *OPTIONS.pull_secrets)
"""The same, as a real operator is told it."""
_OWN: Final = ("name", "labels", "annotations", "ownerReferences")


def body_of(case: str, *, uid: str = UID, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a case's site as the API server would hand it out."""
    body: dict[str, Any] = yaml.safe_load((DATA / case / "site.yaml").read_text())
    body["metadata"] |= {"uid": uid, "generation": 1, "annotations": dict(annotations or {})}
    return body


def given(case: str, *, now: datetime = NOW) -> list[dict[str, Any]]:
    """Return what a case's site refers to, as one would apply it."""
    objects: list[dict[str, Any]] = yaml.safe_load((DATA / case / "given.yaml").read_text())
    for one in objects:
        one["metadata"]["namespace"] = "harvest"
        if (site := one.pop("ca", None)) is not None:
            one["stringData"] = authority_data(site, now=now)
    return objects


def authority_data(site: str, *, now: datetime = NOW) -> dict[str, str]:
    """Make a CA as somebody could bring it."""
    made = Authority.create(site, key=new_key(), serial=new_serial(), now=now)
    return {"tls.crt": bundle_pem([made.certificate]).decode(), "tls.key": key_pem(made.key).decode()}


def stored(manifest: Mapping[str, Any], *, version: int = 1) -> dict[str, Any]:
    """Return an object as the API server would hand it out."""
    one: dict[str, Any] = copy.deepcopy(dict(manifest))
    one["metadata"] |= {"resourceVersion": str(version)}
    one["metadata"].setdefault("uid", f"uid-of-{one['metadata']['name']}")
    texts = one.pop("stringData", {})
    if texts:
        one["data"] = one.get("data", {}) | {
            key: base64.b64encode(text.encode()).decode() for key, text in texts.items()
        }
    return one


def world(objects: Iterable[Mapping[str, Any]]) -> dict[Key, Object]:
    """Return objects by kind and name."""
    return {key_of(one): one for one in map(stored, objects)}


def decided(body: Mapping[str, Any], objects: Mapping[Key, Object], *, now: datetime = NOW) -> tuple[Site, Owner, Plan]:
    """Read a site and decide about it."""
    site, owner = checked(dict(body)), Owner.of(body)
    return site, owner, decide(site, owner, objects, options=OPTIONS, mint=Mint(), now=now)


def expected(case: str) -> dict[str, Any]:
    """Return what a case must become, by file name."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted((DATA / case / "expected").iterdir())}


def masked(found: Object) -> dict[str, Any]:
    """Return an object without what is random or Kubernetes' own: certificates by their names, digests not at all."""
    one = copy.deepcopy(dict(found))
    metadata = {name: value for name, value in one["metadata"].items() if name in _OWN}
    marks = metadata.get("annotations", {})
    marks |= {name: "…" for name in (APPLIED, SITE_UID) if name in marks}
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = "…"
    one["metadata"] = metadata
    if one["kind"] == "Deployment":
        one["spec"]["template"]["metadata"]["annotations"][REFERENCES] = "…"
    if one["kind"] == "ConfigMap" and "ca.crt" in one["data"]:
        one["data"]["ca.crt"] = _described(one["data"]["ca.crt"].encode())
    elif one["kind"] == "ConfigMap":  # with every default, whoever filled it in
        site = load(one["data"]["site.yaml"])
        one["data"]["site.yaml"] = {"name": site.name, "spec": site.spec.model_dump(mode="json", by_alias=True)}
    if one["kind"] == "Secret":
        one["data"] = {key: _described(base64.b64decode(value)) for key, value in sorted(one["data"].items())}
    return one


def masked_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status without times."""
    one = copy.deepcopy(dict(status))
    for condition in one["conditions"]:
        condition["lastTransitionTime"] = "…"
    for line in one["aggregators"]:
        line.pop("lastSweep", None)
    return one


def file_name(key: Key) -> str:
    """Return the name of the file with an object that is expected."""
    return f"{key[0]}.{key[1]}"


def _described(content: bytes) -> str:
    try:
        return "; ".join(map(_certificate, load_bundle(content)))
    except PkiError:
        return "a key" if b"PRIVATE KEY" in content else f"{len(content)} bytes"


def _certificate(one: x509.Certificate) -> str:
    names = one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    days = (one.not_valid_after_utc - one.not_valid_before_utc).days
    return f"{', '.join(str(name.value) for name in names)} by {one.issuer.rfc4514_string()}, {days} days"


def results(case: str) -> dict[str, Any]:
    """Return what a case becomes, as it is expected: decided without a cluster."""
    objects = world(given(case))
    body = body_of(case)
    site, owner, plan = decided(body, objects)
    made = {file_name(key_of(write.manifest)): masked(write.manifest) for write in plan.writes}
    there = objects | world(write.manifest for write in plan.writes)
    status = concluded(site, owner, plan, there, refused=[], reports={}, stored={}, now=NOW)
    return made | {"status": masked_status(status)}


class _Dumper(yaml.SafeDumper):
    """For people: nothing by reference, and texts of several lines as such."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def main() -> None:
    """Write all expected files anew."""
    for case in CASES:
        folder = DATA / case / "expected"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in results(case).items():
            text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
            (folder / f"{name}.yaml").write_text(text)


if __name__ == "__main__":
    main()
