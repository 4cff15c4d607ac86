"""Tokens: what they carry, what is kept of them, and when they are good."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from harvest_pki.errors import PkiError
from harvest_pki.keys import new_secret
from harvest_pki.token_folders import TokenFolder
from harvest_pki.tokens import TOKEN_LIFETIME, TOKENS_MAX, Entry, Token, digest, why_refused
from unit.pki.making import DAY, NOW

TOKEN = Token(site="example", server="oss1.example.org", secret=new_secret(), ca="ab" * 32)
ENTRY = Entry.of(TOKEN, now=NOW, lifetime=TOKEN_LIFETIME)


def test_a_token_is_one_word_that_reads_back() -> None:
    assert Token.parse(f"{TOKEN.text}\n") == TOKEN
    assert len(TOKEN.text.split()) == 1
    assert TOKEN.secret not in repr(TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "harvest1",
        TOKEN.text[:-1],
        TOKEN.text.replace("harvest1", "harvest2"),
        TOKEN.text.replace(":oss1", ":../oss1"),
        TOKEN.text.replace("example:", "Example:", 1),
        f"{TOKEN.text} x",
    ],
)
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(PkiError) as refused:
        Token.parse(text)
    assert TOKEN.secret not in str(refused.value)


def test_the_secret_is_not_kept() -> None:
    kept = ENTRY.line()
    assert TOKEN.secret not in kept
    assert Entry.parse(kept) == ENTRY
    assert ENTRY.digest == digest(TOKEN.secret)
    assert Entry.parse(ENTRY.used("k").line()).used_by == "k"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": 1}', '{"digest": "a", "server": "b", "expires": "c"}'])
def test_what_is_no_entry_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the file's name is added by whoever reads it
        Entry.parse(text)


def test_a_token_is_good_for_its_server_until_it_expires_and_for_one_key() -> None:
    def reason(
        entry: Entry | None = ENTRY, server: str = TOKEN.server, by: str = "k", after: timedelta = DAY * 0
    ) -> str:
        return why_refused(entry, server=server, by=by, now=NOW + after) or ""

    assert reason() == ""
    assert reason(after=TOKEN_LIFETIME - timedelta(seconds=1)) == ""
    assert "expired" in reason(after=TOKEN_LIFETIME)
    assert "is for server oss1.example.org" in reason(server="oss2")
    assert "not known" in reason(None)
    assert reason(ENTRY.used("k")) == ""
    assert "used already" in reason(ENTRY.used("other"))


@pytest.mark.parametrize("lifetime", [timedelta(0), 8 * DAY])
def test_a_token_lives_neither_no_time_nor_long(lifetime: timedelta) -> None:
    with pytest.raises(PkiError):
        Entry.of(TOKEN, now=NOW, lifetime=lifetime)


def test_a_folder_keeps_tokens_and_gives_each_to_one_key_only(tmp_path: Path) -> None:
    folder = TokenFolder(tmp_path / "tokens")
    folder.add([ENTRY], now=NOW)
    (file,) = (tmp_path / "tokens").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.find(ENTRY.digest) == ENTRY
    assert folder.find(digest("other")) is None
    assert folder.use(ENTRY, "k")
    assert folder.use(ENTRY, "k")
    assert not folder.use(ENTRY, "other")
    assert not folder.use(replace(ENTRY, digest=digest("other")), "k")
    assert folder.find(ENTRY.digest) == ENTRY.used("k")


def test_a_folder_forgets_tokens_that_are_long_over_and_is_bounded(tmp_path: Path) -> None:
    folder = TokenFolder(tmp_path / "tokens")
    folder.add([ENTRY], now=NOW)
    many = [replace(ENTRY, digest=f"{number:064x}") for number in range(TOKENS_MAX)]
    with pytest.raises(PkiError, match="there are 1 tokens"):
        folder.add(many, now=NOW)
    folder.add([replace(ENTRY, digest="1" * 64, expires=NOW + 3 * DAY)], now=NOW + 2 * DAY)
    assert [path.name for path in (tmp_path / "tokens").iterdir()] == ["1" * 64]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ENTRY.digest).write_text("{")
    with pytest.raises(PkiError, match=r"is broken: remove it"):
        TokenFolder(tmp_path).find(ENTRY.digest)
