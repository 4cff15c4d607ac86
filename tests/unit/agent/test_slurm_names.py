"""Names of uids and gids: answered at once, looked up behind the scenes, kept for a while."""

import threading
from types import SimpleNamespace

import pytest
from typing_extensions import override

from harvest_agent.slurm.names import SystemNames, User


class Names(SystemNames):
    """Looks up when it is told to, in a book."""

    def __init__(self, now: list[float], told: list[tuple[int, str]]) -> None:
        super().__init__(lambda uid, user: told.append((uid, user[0])), clock=lambda: now[0])
        self.looked_up: list[str] = []

    @override
    def _found(self, kind: str, number: int) -> User:
        self.looked_up.append(f"{kind} {number}")
        if number == 1000:
            return ("alice", 100, "users") if kind == "user" else ("", 1000, "staff")
        return "", 0, ""

    def work(self) -> None:
        while self.look_up_one():
            pass


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def told() -> list[tuple[int, str]]:
    return []


@pytest.fixture
def names(now: list[float], told: list[tuple[int, str]]) -> Names:
    return Names(now, told)


def test_nothing_is_waited_for(names: Names) -> None:
    assert (names.user(1000), names.group(1000)) == ("", "")
    assert names.looked_up == []
    names.work()
    assert (names.user(1000), names.group(1000)) == ("alice", "staff")
    assert names.looked_up == ["user 1000", "group 1000"]


def test_answers_are_kept_also_that_there_is_none(names: Names, now: list[float]) -> None:
    for _ in range(3):
        names.user(1000)
        names.user(7)
        names.work()
    assert names.looked_up == ["user 1000", "user 7"]
    now[0] = 700.0
    names.user(1000)
    names.user(7)
    names.work()
    assert names.looked_up[2:] == ["user 7"], "who is unknown may be there soon"
    now[0] = 4000.0
    assert names.user(1000) == "alice", "what was known stays known while it is looked up again"
    names.work()
    assert names.looked_up[3:] == ["user 1000"]


def test_who_asks_is_told_also_when_nobody_has_the_uid(names: Names, told: list[tuple[int, str]]) -> None:
    names.user(1000)
    names.ask(1000)
    names.ask(7)
    names.work()
    names.ask(1000)
    names.work()
    assert told == [(1000, "alice"), (7, ""), (1000, "alice")]
    assert names.looked_up == ["user 1000", "user 7"]


def test_questions_are_bounded(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_agent.slurm.names._MOST", 2)
    for uid in (1, 2, 3, 4):
        names.ask(uid)
    names.work()
    assert names.looked_up == ["user 1", "user 2"]


def test_the_system_knows_root_and_not_everybody() -> None:
    names = SystemNames()
    for uid in (0, 3999999, 1 << 70):
        names.user(uid)
        names.group(uid)
    while names.look_up_one():
        pass
    assert (names.user(0), names.group(0), names.user(3999999), names.group(3999999)) == ("root", "root", "", "")


def test_the_group_of_a_user_is_the_primary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", {1000: SimpleNamespace(pw_name="alice", pw_gid=100)}.__getitem__)
    groups = {100: "users", 1000: "staff"}
    monkeypatch.setattr("grp.getgrgid", lambda gid: SimpleNamespace(gr_name=groups[gid]))
    told: list[tuple[int, User]] = []
    names = SystemNames(lambda uid, user: told.append((uid, user)))
    names.ask(1000)
    assert names.look_up_one()
    assert told == [(1000, ("alice", 100, "users"))]


def test_a_lookup_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on, is_over = threading.Event(), threading.Event(), threading.Event()

    def hang(_: int) -> None:
        hangs.set()
        goes_on.wait(10)
        is_over.set()
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", hang)
    names = SystemNames()
    names.start()
    names.ask(1000)
    hangs.wait()
    assert (names.user(1000), names.group(7)) == ("", "")
    names.stop()
    assert not is_over.is_set()
    goes_on.set()
