"""How an agent that has joined keeps its certificate fresh: no CA is asked here, but what it would say."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from harvest_agent.config import Config, ConfigError, JoinSettings
from harvest_agent.joining import looking
from harvest_agent.joining.client import Address, AwayError, JoinError, RefusedError
from harvest_agent.joining.command import Order, config_text
from harvest_agent.joining.folders import TlsLink
from harvest_agent.joining.looking import LOOK, Said, look
from harvest_agent.renewing import Renewal
from harvest_pki import files
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_bundle, load_certificate
from harvest_pki.errors import PkiError
from harvest_pki.folders import read_tls
from harvest_pki.identities import Identity, Kind
from harvest_pki.joining import Answer, Uplink
from harvest_pki.keys import PrivateKey, new_key, new_serial
from harvest_pki.tokens import Token
from unit.pki.making import DAY, NOW, authority

ADDRESS = Address("harvest.example", 8025)
IDENTITY = Identity(site="example", kind=Kind.SERVER, name="oss1")
LIFETIME = 90 * DAY


@dataclass
class Ca:
    """What the site's CA would say."""

    link: TlsLink
    now: datetime = NOW
    trouble: JoinError | None = None
    lifetime: timedelta = LIFETIME
    issuers: list[Authority] = field(default_factory=lambda: [authority()])
    """The one that issues first."""

    def __post_init__(self) -> None:
        key = new_key()
        self.link.take(self.link.draft(key), bundle_pem([self.issue(key)]), bundle_pem(self.trusted))
        self._set_times()

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        return tuple(one.certificate for one in self.issuers)

    def issue(self, key: PrivateKey) -> x509.Certificate:
        return self.issuers[0].issue(
            IDENTITY, key.public_key(), serial=new_serial(), now=self.now, lifetime=self.lifetime
        )

    def trusted_now(self, *_: object) -> tuple[x509.Certificate, ...]:
        if self.trouble is not None:
            raise self.trouble
        return self.trusted

    def renew(
        self, _address: Address, old: bytes, _key: PrivateKey, new: PrivateKey, _trusted: Sequence[x509.Certificate]
    ) -> tuple[x509.Certificate, Answer]:
        assert old == (self.link.path / "tls.crt").read_bytes()
        if self.trouble is not None:
            raise self.trouble
        made = self.issue(new)
        return made, Answer(certificate=bundle_pem([made]), ca=bundle_pem(self.trusted), uplinks=())

    def look(self, after: timedelta = timedelta(0)) -> Said:
        """Look at some time after now; files that are written then are of that time."""
        self.now += after
        before = (self.link.path / "ca.crt").stat().st_ino
        said = look(ADDRESS, self.link, now=self.now, chance=1.0)
        if (self.link.path / "ca.crt").stat().st_ino != before:
            os.utime(self.link.path / "ca.crt", (self.now.timestamp(), self.now.timestamp()))
            if "join.renewed" in events(said):
                self._set_times()
        return said

    def _set_times(self) -> None:
        for name in ("ca.crt", "tls.crt"):
            os.utime(self.link.path / name, (self.now.timestamp(), self.now.timestamp()))


def events(said: Said) -> list[str]:
    return [one["event"] for one in said["events"]]


@pytest.fixture
def ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ca:
    here = Ca(TlsLink(tmp_path / "state/tls"))
    monkeypatch.setattr(looking, "trusted_now", here.trusted_now)
    monkeypatch.setattr(looking, "renew", here.renew)
    return here


@pytest.fixture(autouse=True)
def state(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)


def serial(ca: Ca) -> int:
    return load_certificate(read_tls(ca.link.path).certificate).serial_number


def test_it_is_renewed_after_two_thirds_of_its_lifetime_and_before_much_more(ca: Ca) -> None:
    first = serial(ca)
    assert ca.look(59 * DAY) == {"events": [], "wait_seconds": LOOK.total_seconds()}
    assert serial(ca) == first
    assert events(ca.look(10 * DAY)) == ["join.renewed"]
    assert serial(ca) != first
    assert len(list(ca.link.path.parent.iterdir())) == 2
    assert ca.look()["events"] == []


def test_what_is_due_soon_is_looked_at_then(ca: Ca) -> None:
    waits = [ca.look(timedelta(hours=12))["wait_seconds"] for _ in range(140)]
    assert min(waits) < LOOK.total_seconds() / 2 or max(waits) == LOOK.total_seconds()


def test_short_lives_are_looked_at_ten_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Ca(TlsLink(tmp_path / "state/tls"), lifetime=timedelta(seconds=100))
    monkeypatch.setattr(looking, "trusted_now", here.trusted_now)
    assert here.look()["wait_seconds"] == 10.0


def test_a_new_ca_is_trusted_at_once_and_asked_for_a_certificate_some_minutes_later(ca: Ca) -> None:
    first = serial(ca)
    ca.issuers.insert(0, authority(now=NOW))
    assert events(ca.look(timedelta(hours=1))) == ["join.trusts"]
    assert load_bundle(read_tls(ca.link.path).ca) == ca.trusted
    assert serial(ca) == first
    assert events(ca.look(timedelta(minutes=4))) == []
    assert events(ca.look(timedelta(minutes=6))) == ["join.renewed"]
    assert events(ca.look(timedelta(hours=1))) == []
    ca.issuers.pop()
    assert events(ca.look(timedelta(hours=1))) == ["join.trusts"]
    assert events(ca.look(timedelta(hours=1))) == []


def test_a_new_ca_is_noticed_also_where_the_clock_was_years_ahead_when_the_server_joined(ca: Ca) -> None:
    ahead = (NOW + 1000 * DAY).timestamp()
    for name in ("ca.crt", "tls.crt"):
        os.utime(ca.link.path / name, (ahead, ahead))
    ca.issuers.insert(0, authority(now=NOW))
    assert events(ca.look(timedelta(hours=1))) == ["join.trusts"]
    assert events(ca.look(timedelta(minutes=11))) == ["join.renewed"]


def test_a_ca_that_is_away_or_refuses_is_a_problem_with_the_days_that_are_left(ca: Ca) -> None:
    first = serial(ca)
    ca.trouble = AwayError("it does not answer")
    said = ca.look(70 * DAY)
    assert said["problem"] == "renewing the certificate fails: it does not answer. It is valid for 20 days more"
    ca.trouble = RefusedError("oss1 is not listed")
    said = ca.look(21 * DAY)
    assert said["problem"].startswith("renewing the certificate is refused: oss1 is not listed. It expired on 2026-05")
    assert serial(ca) == first
    ca.trouble = None
    assert events(ca.look()) == ["join.renewed"]


def test_a_clock_that_is_far_ahead_is_told_and_asks_no_more_often(ca: Ca) -> None:
    """The new certificate is made by the CA's clock."""
    said = look(ADDRESS, ca.link, now=NOW + 2 * LIFETIME, chance=1.0)
    assert events(said) == ["join.renewed"]
    assert said["problem"] == (
        "by the clock of this server the certificate, from 2026-02-28 to 2026-05-30, is not valid now: set the clock"
    )
    assert said["wait_seconds"] == LOOK.total_seconds()


def test_a_clock_that_is_far_behind_is_told_and_all_is_well_once_it_is_set(ca: Ca) -> None:
    """By it nothing is ever due: where the certificate ends, by other clocks, is told by the aggregator's metric."""
    first = serial(ca)
    said = look(ADDRESS, ca.link, now=NOW - 60 * DAY, chance=1.0)
    assert (events(said), "is not valid now: set the clock" in said["problem"]) == ([], True)
    assert said["wait_seconds"] == LOOK.total_seconds()
    assert "problem" not in ca.look()
    assert serial(ca) == first
    assert events(ca.look(70 * DAY)) == ["join.renewed"]


@pytest.mark.parametrize("name", ["tls.key", "ca.crt", "tls.crt"])
def test_a_full_disk_leaves_the_old_files_whole_and_is_mended_by_itself(
    ca: Ca, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    first, write = serial(ca), files.write

    def full(path: Path, content: bytes, *, mode: int) -> None:
        if path.name == name:
            raise PkiError(f"cannot write {path}: No space left on device")
        write(path, content, mode=mode)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", full)
        assert "No space left on device" in ca.look(70 * DAY)["problem"]
        assert serial(ca) == first
        assert len(list(ca.link.path.parent.iterdir())) == 2
    assert events(ca.look()) == ["join.renewed"]


def test_a_crash_at_any_moment_leaves_a_key_and_a_certificate_that_belong_together(
    ca: Ca, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, whole = os.replace, 0

    class PowerError(BaseException):
        pass

    def cut(count: int) -> None:
        left = [count]

        def stop(source: str, target: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise PowerError
            replace(source, target)

        monkeypatch.setattr(os, "replace", stop)
        monkeypatch.setattr(TlsLink, "tidy", lambda _self: None)

    ca.now += 70 * DAY
    for count in range(6):
        cut(count)
        try:
            look(ADDRESS, ca.link, now=ca.now, chance=1.0)
            whole += 1
        except PowerError:
            pass
        read_tls(ca.link.path)
    assert whole == 1


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "state/tls").mkdir()
    with pytest.raises(PkiError, match="is not of `harvest-agent join`"):
        look(ADDRESS, TlsLink(tmp_path / "state/tls"), now=NOW, chance=1.0)


def renewal() -> Renewal:
    return Renewal(JoinSettings(address="harvest:8025"), "/var/lib/harvest-agent/tls")


def test_troubles_are_tried_again_soon_and_then_less_often() -> None:
    here = renewal()
    assert here._taken({"events": [], "wait_seconds": 3600.0}, 1.0) == 3600.0  # noqa: SLF001
    waits = [here._taken({"problem": "away", "wait_seconds": 3600.0}, 1.0) for _ in range(12)]  # noqa: SLF001
    assert waits[:4] == [10.0, 20.0, 40.0, 80.0]
    assert waits[-1] == 3600.0
    assert here.problems() == ["away"]
    assert here._taken({"problem": "away", "wait_seconds": 6.0}, 1.0) == 6.0  # noqa: SLF001
    here._taken({"events": [], "wait_seconds": 3600.0}, 1.0)  # noqa: SLF001
    assert here.problems() == []


@pytest.mark.parametrize(
    "said",
    [
        OSError("No space left on device"),  # as of a log that cannot be written
        {"events": [{"serial": "0a"}]},
        {"events": 7},
        {"wait_seconds": "soon"},
        ["nothing"],
    ],
)
def test_nothing_ends_renewing_and_what_is_odd_is_told(monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    here, waits, seen = renewal(), list[float](), list[list[str]]()
    answers = iter([said, said, {"events": [], "wait_seconds": 3600.0}])

    def look() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Stopped:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            seen.append(here.problems())
            return len(waits) > 3

    monkeypatch.setattr(here, "_look", look)
    monkeypatch.setattr(here, "_stopped", Stopped())
    monkeypatch.setattr("random.random", lambda: 1.0)
    here._run()  # noqa: SLF001 - the thread, in this one
    assert waits == [5.0, 10.0, 20.0, 3600.0]
    assert [len(problems) for problems in seen] == [0, 1, 1, 0]
    assert seen[1][0].startswith("what renews the certificate failed: ")


UPLINK = {
    "address": "h:8023",
    "server_name": "main.example.harvest",
    "ca": "/s/tls/ca.crt",
    "cert": "/s/tls/tls.crt",
    "key": "/s/tls/tls.key",
}


def test_what_is_renewed_is_one_folder() -> None:
    good = {"uplink": [UPLINK, UPLINK | {"address": "i:8023"}], "join": {"address": "h:8025"}}
    assert Config.parse(good).join == JoinSettings(address="h:8025")
    for raw, why in (
        (good | {"join": {}}, "address is missing"),
        (good | {"join": {"address": "h"}}, "is not HOST:PORT"),
        (good | {"uplink": [UPLINK, UPLINK | {"address": "i:8023", "key": "/t/tls.key"}]}, "must be in one folder"),
        (good | {"uplink": [UPLINK | {"cert": "/s/tls/oss1.crt"}]}, "must be in one folder"),
    ):
        with pytest.raises(ConfigError, match=why):
            Config.parse(raw)


def test_the_configuration_leads_where_the_site_says_or_to_the_host_that_was_joined(tmp_path: Path) -> None:
    token = Token(site="example", server="oss1", secret="s" * 32, ca="0" * 64)
    order = Order(address=Address("::1", 8025), token=token, config=tmp_path / "c", state=tmp_path / "s")
    uplinks = (
        Uplink(server_name="main.example.harvest"),
        Uplink(server_name="two.example.harvest", address="other:30023"),
        Uplink(server_name="three.example.harvest", address=":30023"),
    )
    config = Config.read(config_text(order, Answer(certificate=b"", ca=b"", uplinks=uplinks)))
    assert [one.address for one in config.uplinks] == ["[::1]:8023", "other:30023", "[::1]:30023"]
    assert config.join == JoinSettings(address="[::1]:8025")
    assert config.agent.name == "oss1"
    assert config.spool.directory == f"{tmp_path}/s/spool"
    with pytest.raises(JoinError, match="at least one"):
        config_text(order, Answer(certificate=b"", ca=b"", uplinks=()))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("harvest.example", ADDRESS),
        ("10.0.0.1:30025", Address("10.0.0.1", 30025)),
        ("[fd00::1]", Address("fd00::1", 8025)),
        ("[fd00::1]:1", Address("fd00::1", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(address.text) == address


@pytest.mark.parametrize("text", ["", "a b", "h:0", "h:65536", "h:", "https://h", "fd00::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(JoinError, match="is no address"):
        Address.parse(text)
