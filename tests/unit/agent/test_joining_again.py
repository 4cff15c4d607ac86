"""A join that breaks off anywhere is brought to its end by the same order: no CA is asked, but one that counts keys."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cryptography import x509

from harvest_agent.joining import command
from harvest_agent.joining.client import Address, AwayError, JoinError, RefusedError
from harvest_agent.joining.command import Order, joined
from harvest_agent.joining.folders import TlsLink
from harvest_pki import files
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_certificate
from harvest_pki.errors import PkiError
from harvest_pki.folders import read_tls
from harvest_pki.identities import Identity, Kind
from harvest_pki.joining import Answer, Uplink, key_digest
from harvest_pki.keys import PrivateKey, new_key, new_secret, new_serial
from harvest_pki.tokens import Token
from unit.pki.making import DAY, NOW, authority

WRITTEN = ["tls.key", "ca.crt", "ca-then.crt", "tls.crt", "agent.toml"]


class PowerError(BaseException):
    """The machine is off."""


@dataclass
class Ca:
    """A CA whose tokens are good for one key each, as all are."""

    issuer: Authority = field(default_factory=authority)
    used_by: dict[str, str] = field(default_factory=dict)
    uplinks: tuple[Uplink, ...] = (Uplink(server_name="main.example.harvest", address="harvest:8023"),)
    loses_answers: bool = False

    def join(self, _address: Address, token: Token, key: PrivateKey) -> tuple[x509.Certificate, Answer]:
        if self.used_by.setdefault(token.secret, key_digest(key.public_key())) != key_digest(key.public_key()):
            raise RefusedError("the token was used already")
        if self.loses_answers:
            raise AwayError("harvest.example:8025 does not answer: timed out")
        identity = Identity(site=token.site, kind=Kind.SERVER, name=token.server)
        made = self.issuer.issue(identity, key.public_key(), serial=new_serial(), now=NOW, lifetime=90 * DAY)
        ca = bundle_pem([self.issuer.certificate])
        return made, Answer(certificate=bundle_pem([made]), ca=ca, uplinks=self.uplinks)


@pytest.fixture
def ca(monkeypatch: pytest.MonkeyPatch) -> Ca:
    here = Ca()
    monkeypatch.setattr(command, "join", here.join)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return here


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Return the order of somebody who joins a server for the first time."""
    return new_order(tmp_path)


def new_order(folder: Path, *, force: bool = False) -> Order:
    token = Token(site="example", server="oss1", secret=new_secret(), ca="0" * 64)
    address = Address("harvest.example", 8025)
    return Order(address=address, token=token, config=folder / "etc/agent.toml", state=folder / "state", force=force)


def left(order: Order) -> set[str]:
    """Return what is in the state folder, but the version that is used."""
    return {path.name for path in order.state.iterdir()} - {str((order.state / "tls").readlink())}


def is_joined(order: Order, ca: Ca) -> bool:
    """Tell whether all is there, for the key of which the CA knows, and nothing else."""
    own = load_certificate(read_tls(order.state / "tls").certificate)
    key = (order.state / "tls/tls.key").stat()
    modes = stat.S_IMODE(key.st_mode), stat.S_IMODE(order.config.stat().st_mode)
    return (key_digest(own.public_key()), modes, left(order)) == (  # type: ignore[arg-type]
        ca.used_by[order.token.secret],
        (0o600, 0o640),
        {"tls"},
    )


def full_at(name: str) -> Callable[..., None]:
    write = files.write

    def full(path: Path, content: bytes, *, mode: int, group: int | None = None) -> None:
        if path.name == name:
            raise PkiError(f"cannot write {path}: No space left on device")
        write(path, content, mode=mode, group=group)

    return full


@pytest.mark.parametrize("force", [False, True], ids=["new", "force"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_disk_that_was_full_costs_no_token(
    ca: Ca, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, force: bool
) -> None:
    if force:
        joined(new_order(tmp_path))
        (tmp_path / "etc/agent.toml").write_text("mine")
    order = new_order(tmp_path, force=force)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", full_at(name))
        for _ in range(2):
            with pytest.raises(PkiError, match="No space left on device"):
                joined(order)
    (kept,) = [path for path in order.state.iterdir() if path.name.startswith(".joining-")]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert order.token.secret not in kept.name
    assert "oss1 has joined site example" in joined(order)
    assert is_joined(order, ca)
    assert not force or (tmp_path / "etc/agent.toml.old").read_text() == "mine"


def test_a_machine_that_is_switched_off_at_any_moment_costs_no_token(
    ca: Ca, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, replaces = os.replace, 0
    for count in range(20):
        order, there = new_order(tmp_path / str(count)), [0]

        def cut(source: str, target: str, count: int = count, there: list[int] = there) -> None:
            if there[0] == count // 2 and count % 2 == 0:
                raise PowerError
            whole(source, target)
            if there[0] == count // 2:
                raise PowerError
            there[0] += 1

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", cut)
            patched.setattr(TlsLink, "tidy", lambda _self: None)
            try:
                joined(order)
            except PowerError:
                replaces += 1
        if replaces == count:  # it came to its end
            break
        joined(order)
        assert is_joined(order, ca), f"switched off {('before', 'after')[count % 2]} replacing {count // 2}"
    assert replaces == 2 * (len(WRITTEN) + 2)  # and the key that is kept, and the link


def test_an_answer_that_is_lost_costs_no_token_though_the_agent_beside_it_renews(ca: Ca, tmp_path: Path) -> None:
    joined(new_order(tmp_path))
    order = new_order(tmp_path, force=True)
    ca.loses_answers = True
    with pytest.raises(AwayError):
        joined(order)
    link = TlsLink(order.state / "tls")
    link.tidy()  # as every renewal does, also one that is refused
    key = new_key()
    link.take(link.draft(key), read_tls(link.path).certificate, read_tls(link.path).ca)
    ca.loses_answers = False
    joined(order)
    assert is_joined(order, ca)


def test_who_is_refused_leaves_nothing_and_a_key_that_may_be_known_stays(ca: Ca, order: Order) -> None:
    ca.used_by[order.token.secret] = "another key"
    with pytest.raises(RefusedError):
        joined(order)
    assert list(order.state.iterdir()) == []
    del ca.used_by[order.token.secret]
    ca.loses_answers = True
    with pytest.raises(AwayError):
        joined(order)
    ours = ca.used_by[order.token.secret]
    ca.used_by[order.token.secret] = "as if the server were not listed now"
    with pytest.raises(RefusedError):
        joined(order)
    ca.used_by[order.token.secret], ca.loses_answers = ours, False
    joined(order)
    assert is_joined(order, ca)


def test_another_token_is_used_with_another_key(ca: Ca, order: Order, tmp_path: Path) -> None:
    ca.loses_answers = True
    with pytest.raises(AwayError):
        joined(order)
    ca.loses_answers, other = False, new_order(tmp_path)
    joined(other)
    assert is_joined(other, ca)
    assert len(set(ca.used_by.values())) == 2
    with pytest.raises(RefusedError):  # once joined, a token is over, and its key with it
        joined(replace(other, force=True))


def test_what_broke_off_before_the_configuration_is_finished_with_another_token_too(
    ca: Ca, order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ansible does, which makes tokens anew for whoever has no configuration yet."""
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", full_at("agent.toml"))
        with pytest.raises(PkiError, match="No space left on device"):
            joined(order)
    other = new_order(tmp_path)
    joined(other)
    assert is_joined(other, ca)
    with pytest.raises(JoinError, match="tls is there already"):
        joined(new_order(tmp_path))


def test_what_somebody_wrote_after_the_first_attempt_is_not_replaced_unasked(ca: Ca, order: Order) -> None:
    ca.loses_answers = True
    with pytest.raises(AwayError):
        joined(order)
    ca.loses_answers = False
    order.config.write_text("mine")
    with pytest.raises(JoinError, match="is there already: --force replaces it"):
        joined(order)
    assert order.config.read_text() == "mine"
    joined(replace(order, force=True))
    assert is_joined(order, ca)
    assert order.config.with_name("agent.toml.old").read_text() == "mine"
