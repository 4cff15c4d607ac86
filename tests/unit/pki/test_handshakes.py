"""The files that are written, used by a real TLS. It looks at the wall clock, so these tests must, too."""

import shutil
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_certificate
from harvest_pki.folders import CaFolder
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import load_key
from unit.pki.making import DAY, authority, shake_hands

HOST = "main.example.harvest"


class Site:
    """A site's folders, with an aggregator `main` and an agent on `oss1`."""

    def __init__(self, root: Path) -> None:
        self.now = datetime.now(UTC)
        self.server, self.agent = root / "tls", root / "oss1"
        self.ca = CaFolder(root / "ca")

    def make(self) -> None:
        self.ca.create(authority(now=self.now))
        self.issue_server()
        self.issue_agent()

    def issue_server(self) -> None:
        self.ca.write_server(self.server, "main", now=self.now)

    def issue_agent(self) -> None:
        self.ca.write_agent(self.agent, "oss1", now=self.now)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    roots = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("stranger")
    for root in roots:
        Site(root).make()
    return roots


@pytest.fixture
def site(made: tuple[Path, Path], tmp_path: Path) -> Site:
    return Site(shutil.copytree(made[0], tmp_path / "site"))


@pytest.fixture
def stranger(made: tuple[Path, Path], tmp_path: Path) -> Site:
    """Make another site of the same name, with a CA of its own."""
    return Site(shutil.copytree(made[1], tmp_path / "stranger"))


def test_an_agent_and_its_aggregator_know_each_other(site: Site) -> None:
    at_server, at_agent = shake_hands(site.server, site.agent, host=HOST)

    assert identity_of(load_certificate(at_server)).text == "harvest:example:server:oss1"
    assert identity_of(load_certificate(at_agent)).text == HOST


def test_an_agent_refuses_another_aggregator(site: Site) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(site.server, site.agent, host="other.example.harvest")


def test_an_aggregator_refuses_an_agent_of_another_ca(site: Site, stranger: Site) -> None:
    shutil.copy(site.agent / "ca.crt", stranger.agent / "ca.crt")
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        shake_hands(site.server, stranger.agent, host=HOST)


def test_an_agent_refuses_an_aggregator_of_another_ca(site: Site, stranger: Site) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shake_hands(stranger.server, site.agent, host=HOST)


def test_an_aggregator_refuses_an_expired_agent(site: Site) -> None:
    site.ca.write_agent(site.agent, "oss1", now=site.now - 2 * DAY, lifetime=DAY)
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        shake_hands(site.server, site.agent, host=HOST)


def test_an_agent_refuses_an_expired_aggregator(site: Site) -> None:
    site.ca.write_server(site.server, "main", now=site.now - 2 * DAY, lifetime=DAY)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        shake_hands(site.server, site.agent, host=HOST)


def test_a_clock_that_is_hours_behind_does_no_harm(site: Site) -> None:
    """For a machine whose clock is behind, the certificate was made in the future."""
    site.ca.write_agent(site.agent, "oss1", now=site.now + DAY * 0.9)
    shake_hands(site.server, site.agent, host=HOST)


def test_an_agent_cannot_pose_as_the_aggregator(site: Site) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake_hands(site.agent, site.agent, host=HOST)


def test_an_aggregator_can_be_a_client_of_another(site: Site) -> None:
    shake_hands(site.server, site.server, host=HOST)


def test_an_agent_cannot_make_certificates(site: Site) -> None:
    """Its key signs for another server, and its own certificate links that to the CA."""
    own = (site.agent / "tls.crt").read_bytes()
    key = load_key((site.agent / "tls.key").read_bytes())
    false_ca = Authority(site="example", certificate=load_certificate(own), key=key)
    mds1 = Identity(site="example", kind=Kind.SERVER, name="mds1")
    forged = false_ca.issue(mds1, key.public_key(), serial=1, now=site.now)
    (site.agent / "tls.crt").write_bytes(bundle_pem([forged]) + own)

    with pytest.raises(ssl.SSLError, match="certificate verify failed: invalid CA certificate"):
        shake_hands(site.server, site.agent, host=HOST)


def test_a_rotation_interrupts_nobody(site: Site, tmp_path: Path) -> None:
    site.ca.rotate(authority(now=site.now), now=site.now)
    site.ca.write_trusted(site.server)
    shake_hands(site.server, site.agent, host=HOST)  # old agent, old aggregator that trusts both

    old_agent = shutil.copytree(site.agent, tmp_path / "old")
    site.issue_agent()
    shake_hands(site.server, site.agent, host=HOST)  # new agent, old aggregator

    site.issue_server()
    shake_hands(site.server, site.agent, host=HOST)  # both new
    shutil.copy(site.agent / "ca.crt", old_agent)
    shake_hands(site.server, old_agent, host=HOST)  # old agent that has the new bundle, new aggregator

    site.ca.finish_rotation(now=site.now)
    site.ca.write_trusted(site.server)
    shake_hands(site.server, site.agent, host=HOST)
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        shake_hands(site.server, old_agent, host=HOST)


def test_two_authorities_of_one_name_are_told_apart_in_any_order(site: Site) -> None:
    old_first = (site.server / "ca.crt").read_bytes()
    site.ca.rotate(authority(now=site.now), now=site.now)
    site.issue_agent()
    new_first = (site.agent / "ca.crt").read_bytes()
    new = new_first.removesuffix(old_first)
    assert new + old_first == new_first
    for trusted in (new_first, old_first + new):
        (site.server / "ca.crt").write_bytes(trusted)
        shake_hands(site.server, site.agent, host=HOST)
