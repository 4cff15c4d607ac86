"""A CA is rotated with an overlap, and nothing is started anew for it."""

import base64

from harvest_pki.certificates import load_bundle
from support.processes import wait_for
from support.scenes import SECONDS, Scene

DEPLOYMENT = ("Deployment", "harvest-hard-main")


def certificates(scene: Scene, secret: str, key: str) -> list[bytes]:
    """Return the fingerprints in a file of a Secret."""
    data = scene.children()["Secret", f"harvest-hard-{secret}"]["data"][key]
    return [one.tbs_certificate_bytes for one in load_bundle(base64.b64decode(data))]


def condition(scene: Scene) -> str:
    return str(next(one["reason"] for one in scene.status()["conditions"] if one["type"] == "CertificatesValid"))


def test_a_ca_is_rotated_with_an_overlap(served: Scene) -> None:
    deployment = served.generation(DEPLOYMENT)
    (old,) = certificates(served, "ca", "ca.crt")
    served.annotate(rotate_ca="2026-11")
    wait_for(lambda: condition(served) == "Rotating", "the rotation", seconds=SECONDS)
    trusted = certificates(served, "main-tls", "ca.crt")
    assert len(trusted) == 2
    assert old in trusted, "agents with certificates of the old one are let in"
    served.annotate(finish_ca_rotation="2026-11")
    wait_for(lambda: condition(served) == "Valid", "the end of it", seconds=SECONDS)
    served.settle("one CA, and certificates of it")
    (new,) = certificates(served, "main-tls", "ca.crt")
    assert new != old
    assert served.generation(DEPLOYMENT) == deployment, "certificates are read again by who uses them"
