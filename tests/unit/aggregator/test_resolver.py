"""Names by DNS, without waiting for it; the test is clock, DNS and worker."""

import socket
import threading

import pytest

from harvest_aggregator import resolver as module
from harvest_aggregator.resolver import Resolver, reverse_lookup

ADDRESS = "10.1.0.7"
HOUR = 3600.0


class Dns:
    """A resolver whose questions are answered when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.names: dict[str, str | None] = {}
        """Addresses that are not there get no answer."""
        self.asked: list[str] = []
        self.resolver = Resolver(lookup=self.lookup, elapsed_seconds=lambda: self.now)

    def lookup(self, address: str) -> str | None:
        self.asked.append(address)
        if address not in self.names:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self.names[address]

    def name(self, address: str = ADDRESS) -> str | None:
        return self.resolver.name(address)

    def learn(self, name: str | None, address: str = ADDRESS) -> str | None:
        """Ask, answer, and ask again."""
        self.names[address] = name
        self.name(address)
        assert self.resolver.answer_one()
        return self.name(address)


@pytest.fixture
def dns() -> Dns:
    return Dns()


def test_a_name_is_open_until_dns_said_it(dns: Dns) -> None:
    assert dns.name() is None
    assert not dns.asked
    assert dns.learn("vu7.example") == "vu7.example"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("VU7.Example", "VU7.Example"),
        ("vu_7.example.", "vu_7.example"),
        (None, ""),
        ("", ""),
        ("vu7:10.0.0.1", ""),
        ('vu7"/><HOST', ""),
        ("vu7\n", ""),
        ("v" * 254, ""),
    ],
)
def test_a_name_is_what_dns_says_if_it_can_be_one(dns: Dns, said: str | None, name: str) -> None:
    assert dns.learn(said) == name


def test_ipv6_has_names(dns: Dns) -> None:
    assert dns.learn("vu8", "fd00:1::8") == "vu8"


def test_an_address_is_asked_for_once_however_often_it_is_wanted(dns: Dns) -> None:
    for _ in range(5):
        assert dns.name() is None
    dns.learn("vu7")
    dns.now += HOUR - 1
    assert dns.name() == "vu7"
    dns.name("10.1.0.8")
    dns.resolver.answer_one()
    assert dns.asked == [ADDRESS, "10.1.0.8"]


def test_a_name_stays_in_use_while_it_is_asked_for_anew(dns: Dns) -> None:
    dns.learn("vu7")
    dns.now += HOUR
    assert (dns.name(), dns.name()) == ("vu7", "vu7")
    assert dns.learn("other") == "other"
    assert dns.asked == [ADDRESS] * 2


def test_a_name_stays_in_use_while_dns_does_not_answer(dns: Dns) -> None:
    dns.learn("vu7")
    del dns.names[ADDRESS]
    for _ in range(3):
        dns.now += HOUR
        assert dns.name() == "vu7"
        dns.resolver.answer_one()
    assert dns.name() == "vu7"
    dns.now += 60
    assert dns.learn("other") == "other"


def test_a_name_that_dns_has_no_more_is_gone(dns: Dns) -> None:
    dns.learn("vu7")
    dns.now += HOUR
    assert not dns.learn(None)


@pytest.mark.parametrize(("answers", "life_seconds"), [(True, 600), (False, 60)])
def test_a_failure_is_kept_too_and_for_a_shorter_time(dns: Dns, *, answers: bool, life_seconds: float) -> None:
    if answers:
        dns.names[ADDRESS] = None
    dns.name()
    dns.resolver.answer_one()
    dns.now += life_seconds - 1
    assert not dns.name()
    assert len(dns.asked) == 1
    dns.now += 1
    assert dns.learn("vu7") == "vu7"


def test_who_waits_for_five_minutes_waits_no_more_and_still_gets_the_answer(dns: Dns) -> None:
    dns.name()
    dns.now += 299
    assert dns.name() is None
    dns.now += 1
    assert not dns.name()
    assert dns.name() is not None
    assert dns.learn("vu7") == "vu7"
    assert dns.asked == [ADDRESS]


def test_answers_and_questions_are_bounded(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ADDRESSES_MAX", 3)
    addresses = [f"10.1.0.{number}" for number in range(5)]
    dns.names = {address: f"vu-{address}" for address in addresses}
    for address in addresses:
        dns.name(address)
    for _ in range(3):
        dns.resolver.answer_one()
    assert dns.asked == addresses[:3]
    for address in reversed(addresses[3:]):
        assert dns.learn(f"vu-{address}", address) == f"vu-{address}"
    assert dns.asked[3:] == [addresses[4], addresses[3]]
    assert [dns.name(address) is not None for address in addresses] == [False, False, True, True, True]


def test_after_the_stop_nothing_is_asked(dns: Dns) -> None:
    dns.name()
    dns.resolver.stop()
    assert not dns.resolver.answer_one()
    assert not dns.asked


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("resolver ")]


def test_a_dns_server_that_hangs_holds_up_eight_threads_and_nobody_else() -> None:
    answers = threading.Event()
    resolver = Resolver(lookup=lambda address: f"vu-{address}" if answers.wait() else None, elapsed_seconds=lambda: 0)
    resolver.start()
    assert [resolver.name(f"10.1.0.{number}") for number in range(50)] == [None] * 50
    hung = workers()
    assert len(hung) == 8
    resolver.stop()
    answers.set()
    for worker in hung:
        worker.join()
    assert not workers()


def test_threads_answer() -> None:
    asked = threading.Event()

    def lookup(address: str) -> str:
        asked.set()
        return f"vu-{address}"

    resolver = Resolver(lookup=lookup, elapsed_seconds=lambda: 0)
    resolver.start()
    resolver.name(ADDRESS)
    asked.wait()
    started = workers()
    resolver.stop()
    for worker in started:
        worker.join()
    assert resolver.name(ADDRESS) == f"vu-{ADDRESS}"


def test_no_name_and_no_answer_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    code = socket.EAI_NONAME

    def getnameinfo(where: tuple[str, int], _flags: int) -> tuple[str, str]:
        if where == (ADDRESS, 0):
            raise socket.gaierror(code, "no")
        return "vu8", "0"

    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    assert reverse_lookup("fd00:1::8") == "vu8"
    assert reverse_lookup(ADDRESS) is None
    code = socket.EAI_AGAIN
    with pytest.raises(socket.gaierror):
        reverse_lookup(ADDRESS)
