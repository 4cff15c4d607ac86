"""The command line, and the page about it."""

import re
from pathlib import Path

import pytest

from harvest_aggregator.__main__ import main, parser
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.running import LEDGER
from unit.pki.test_page import below, words

PAGE = Path(__file__).parents[3] / "docs/reference/aggregator.md"
SITE = "filesystems: [{name: home, servers: [oss1]}]\n"


def test_the_page_names_every_command_and_option() -> None:
    page = PAGE.read_text()
    known = below(parser())
    assert set(re.findall(r"^\| `([a-z][a-z-]*)` \|", page, re.MULTILINE)) == set(known)
    documented: dict[str, set[str]] = {name: set() for name in known if name != "ca"}
    for option, of in re.findall(r"^\| `((?:--|FILE)[^`]*)` \| ([^|]*) \|", page, re.MULTILINE):
        for name in re.findall(r"`([a-z-]+)`", of):
            documented[name].add(option)
    assert documented == {name: words(known[name]) for name in documented}


def test_a_good_site_is_called_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(SITE)
    assert main(["check", "--site", str(site)]) == 0
    said = capsys.readouterr()
    assert "is good. File systems of aggregator main: home." in said.out
    assert "warning" not in said.out


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("filesystems: [{name: home, servers: [oss1], colour: red}]", (), "site.yaml: filesystems[0].colour: "),
        ("", (), "site.yaml: write a mapping"),
        (SITE, ("--aggregator", "b"), "spec.aggregators: there is no aggregator b: --aggregator is one of main"),
    ],
)
def test_a_bad_site_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: tuple[str, ...], said: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(text)
    assert main(["check", "--site", str(site), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_run_lacks_is_said_before_anything_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(SITE)
    run = ["run", "--site", str(site), "--data", str(tmp_path)]
    for arguments, said in (
        (["--http", "nowhere"], "no address"),
        (["--http-token-file", str(tmp_path / "none")], "cannot read"),
        (["--secrets", str(tmp_path / "none")], "there is no folder"),
        ([], "tls.crt"),
    ):
        assert main([*run, *arguments]) == 2
        assert said in capsys.readouterr().err


def test_backup_and_restore_say_what_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    assert main(["backup", "--data", str(tmp_path), str(copy)]) == 2
    assert "ledger.db" in capsys.readouterr().err
    ledger = Ledger(tmp_path / LEDGER)
    ledger.open()
    assert main(["backup", "--data", str(tmp_path), str(copy)]) == 0
    assert f"{copy}: {copy.stat().st_size} bytes" in capsys.readouterr().out
    assert main(["restore", "--data", str(tmp_path), str(copy)]) == 2
    assert "stop that one first" in capsys.readouterr().err
    ledger.close()
    assert main(["restore", "--data", str(tmp_path), str(copy)]) == 0
    assert "is what the backup held. What was there is now" in capsys.readouterr().out
