"""What the doctor says about a certificate: whose it is, how long it is valid, who renews it, and that in time."""

from datetime import timedelta
from pathlib import Path

import pytest

from harvest_agent import certificates, credentials
from harvest_agent.config import Config, ConfigError
from harvest_agent.identifying import examine_identity
from harvest_pki.folders import CaFolder
from unit.pki.making import DAY, NOW, authority

FILES = {"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"}


@pytest.fixture(autouse=True)
def _without_children(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(ca: bytes, certificate: bytes, key: bytes) -> dict[str, str]:
        found = certificates.checked(ca, certificate, key)
        if "problem" in found:
            raise ConfigError(found["problem"])
        return found

    monkeypatch.setattr(credentials, "said_by_child", said)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return the configuration of a server that has joined, whose certificate ends in 90 days."""
    return configured(tmp_path, 90 * DAY)


def configured(folder: Path, lifetime: timedelta) -> Config:
    ca = CaFolder(folder / "ca")
    ca.create(authority())
    ca.write_agent(folder / "tls", "oss1", now=NOW, lifetime=lifetime)
    files = {name: str(folder / "tls" / file) for name, file in FILES.items()}
    uplink = {"address": "harvest.example:8023", "server_name": "main.example.harvest", **files}
    return Config.parse({"uplink": [uplink], "join": {"address": "harvest.example:8025"}})


@pytest.mark.parametrize(
    ("after", "left", "is_problem"),
    [
        (0 * DAY, "ends in 90 days", False),
        (83 * DAY, "ends in 7 days", False),
        (83 * DAY + timedelta(seconds=1), "ends in 6 days", True),
        (90 * DAY, "ends in 0 days", True),
        (90 * DAY + timedelta(seconds=1), "has expired", True),
    ],
)
def test_the_doctor_warns_a_week_before_the_end(config: Config, after: timedelta, left: str, is_problem: bool) -> None:  # noqa: FBT001
    said, problems = examine_identity(config, NOW + after)
    assert said == f"identity  oss1 of site example; its certificate {left}, renewed at harvest.example:8025"
    assert bool(problems) is is_problem
    for one in problems:
        assert one.what == f"the certificate of oss1 {left}"
        assert "the agent's log says why it is not renewed" in one.mend


def test_of_a_short_lifetime_a_sixth_is_soon(tmp_path: Path) -> None:
    short = configured(tmp_path, timedelta(hours=6))
    assert examine_identity(short, NOW + timedelta(hours=5))[1] == []
    assert len(examine_identity(short, NOW + timedelta(hours=5, seconds=1))[1]) == 1


def test_files_that_are_gone_or_do_not_belong_together_are_a_problem(config: Config, tmp_path: Path) -> None:
    CaFolder(tmp_path / "ca").write_agent(tmp_path / "other", "oss1", now=NOW)
    (tmp_path / "other/tls.key").replace(tmp_path / "tls/tls.key")
    (found,) = examine_identity(config, NOW)[1]
    assert "certificate and key do not belong together" in found.what
    (tmp_path / "tls/tls.crt").unlink()
    (found,) = examine_identity(config, NOW)[1]
    assert ("cannot read" in found.what, "harvest-agent join" in found.mend) == (True, True)
