"""The commands as a person uses them."""

import shlex
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from harvest_pki.certificates import fingerprint, load_bundle, serial_text
from harvest_pki.folders import CaFolder, read_tls
from unit.pki.making import DAY, NOW, authority, parser

Said = tuple[int, str, str]


class Shell:
    """Runs commands at a time of its own, below a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.data = folder / "data"
        self.now = NOW
        self._capture = capture

    def __call__(self, line: str) -> Said:
        """Run `ca LINE`; DATA stands for the data folder."""
        words = [word.replace("DATA", str(self.data)) for word in shlex.split(line)]
        try:
            options = parser(lambda: self.now).parse_args(["ca", *words])
            code = options.command(options)
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = self._capture.readouterr()
        return code, said.out.replace(str(self.data), "DATA"), said.err.replace(str(self.data), "DATA")

    def serials(self) -> list[str]:
        return [serial_text(entry.serial) for entry in CaFolder(self.data / "ca").issued()]

    def fingerprints(self) -> list[str]:
        return [fingerprint(ca) for ca in CaFolder(self.data / "ca").bundle()]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a CA once: waiting for the disk takes most of a test's time."""
    folder = tmp_path_factory.mktemp("made")
    CaFolder(folder / "ca").create(authority())
    return folder


@pytest.fixture
def site(run: Shell, made: Path) -> Shell:
    shutil.copytree(made, run.data)
    return run


def test_init_says_what_was_made_and_what_is_next(run: Shell) -> None:
    code, out, err = run("init --data DATA --site example")

    assert (code, err) == (0, "")
    assert out == (
        "CA of site example: valid until 2036-02-27 12:00 UTC (3650 days)\n"
        "  certificate  DATA/ca/ca.crt\n"
        "  key          DATA/ca/ca.key (keep it safe: it can make anybody a server of the site)\n"
        f"  sha256       {run.fingerprints()[0]}\n"
        "Next: issue-server for the aggregator, issue-agent for every server.\n"
    )


def test_init_does_not_throw_a_ca_away_unless_told(site: Shell) -> None:
    before = site.fingerprints()
    code, out, err = site("init --data DATA --site example")

    assert (code, out) == (2, "")
    assert err.startswith("harvest-aggregator ca init: there is a CA already (DATA/ca/ca.crt). `ca rotate`")
    assert site.fingerprints() == before
    assert site("init --data DATA --site example --force --lifetime 10d")[0] == 0
    assert site.fingerprints() != before


def test_issue_server_writes_where_the_aggregator_looks(site: Shell) -> None:
    code, out, _ = site("issue-server --data DATA")

    assert code == 0
    assert out == (
        "aggregator main of site example: valid until 2027-03-01 12:00 UTC (365 days)\n"
        "  certificate  DATA/tls/tls.crt\n"
        "  key          DATA/tls/tls.key\n"
        "  trusted CAs  DATA/tls/ca.crt\n"
        "  name         main.example.harvest\n"
        f"  serial       {site.serials()[0]}\n"
    )
    read_tls(site.data / "tls")


def test_issue_agent_writes_files_for_a_server(site: Shell) -> None:
    code, out, _ = site("issue-agent oss1 --data DATA --lifetime 12h")

    assert code == 0
    assert out.startswith("server oss1 of site example: valid until 2026-03-02 00:00 UTC (12 h)\n")
    assert "  name         harvest:example:server:oss1\n" in out
    assert out.endswith("Next: move the three files to oss1, where its agent's configuration names them.\n")
    read_tls(site.data / "agents/oss1")


def test_issue_relay_writes_files_for_another_site(site: Shell) -> None:
    code, out, _ = site("issue-relay alkindi --data DATA")

    assert code == 0
    assert out.startswith("relay alkindi of site example: valid until ")
    assert "  name         harvest:example:relay:alkindi\n" in out
    assert "into the folder of its `--secrets` that the relay's `tlsSecretRef` names.\n" in out
    read_tls(site.data / "relays/alkindi")


def test_out_says_where_to_write(site: Shell) -> None:
    for line in ("issue-agent oss1", "issue-server second", "issue-relay vu"):
        code, out, _ = site(f"{line} --data DATA --out DATA/else/where")
        assert (code, "  key          DATA/else/where/tls.key\n" in out) == (0, True)
        read_tls(site.data / "else/where")


def test_list_shows_the_last_of_everybody_and_what_is_valid(site: Shell) -> None:
    assert site("list --data DATA")[:2] == (0, "Nothing was issued.\n")
    site("issue-server --data DATA")
    site("issue-agent oss2 --data DATA --lifetime 1d")
    site("issue-agent oss1 --data DATA --lifetime 2d")
    site("rotate --data DATA")
    site("issue-agent oss1 --data DATA")
    server, oss2, oss1, again = site.serials()

    assert site("list --data DATA")[1] == (
        "KIND        NAME  VALID UNTIL       LEFT      CA       SERIAL\n"
        f"aggregator  main  2027-03-01 12:00  365 days  old      {server}\n"
        f"server      oss1  2026-03-03 12:00  2 days    old      {oss1}\n"
        f"server      oss1  2026-05-30 12:00  90 days   current  {again}\n"
        f"server      oss2  2026-03-02 12:00  24 h      old      {oss2}\n"
    )
    site.now += 2 * DAY
    assert site("list --data DATA")[1] == (
        "KIND        NAME  VALID UNTIL       LEFT      CA       SERIAL\n"
        f"aggregator  main  2027-03-01 12:00  363 days  old      {server}\n"
        f"server      oss1  2026-05-30 12:00  88 days   current  {again}\n"
        f"server      oss2  2026-03-02 12:00  expired   old      {oss2}\n"
    )
    assert oss1 in site("list --all --data DATA")[1]


def test_show_describes_the_ca(site: Shell) -> None:
    site("rotate --data DATA")
    new, old = CaFolder(site.data / "ca").bundle()

    code, out, _ = site("show --data DATA")
    assert code == 0
    assert out == (
        "  site         example\n"
        "  validity     valid until 2036-02-27 12:00 UTC (3650 days)\n"
        f"  serial       {serial_text(new.serial_number)}\n"
        "  issuer       CN=Harvest CA example\n"
        f"  sha256       {fingerprint(new)}\n"
        f"  trusted too  {fingerprint(old)}, valid until 2036-02-27 12:00 UTC (3650 days)\n"
    )


def test_show_describes_a_file(site: Shell) -> None:
    site("issue-agent oss1 --data DATA")
    site.now += 90 * DAY
    (issued,) = load_bundle((site.data / "agents/oss1/tls.crt").read_bytes())

    code, out, _ = site("show DATA/agents/oss1/tls.crt")
    assert code == 0
    assert out == (
        "  name      harvest:example:server:oss1\n"
        "  validity  valid until 2026-05-30 12:00 UTC (expired)\n"
        f"  serial    {site.serials()[0]}\n"
        "  issuer    CN=Harvest CA example\n"
        f"  sha256    {fingerprint(issued)}\n"
    )
    site("rotate --data DATA")
    assert site("show DATA/ca/ca.crt")[1].count("  name      CA of site example\n") == 2


def test_rotate_leads_through_its_steps(site: Shell) -> None:
    site("issue-server --data DATA")
    site("issue-agent oss1 --data DATA")
    code, out, _ = site("rotate --data DATA")
    new, old = site.fingerprints()

    assert code == 0
    assert out == (
        "New CA of site example: valid until 2036-02-27 12:00 UTC (3650 days)\n"
        f"  sha256  {new}\n"
        "It issues from now on; the old one is trusted beside it. Next, in this order:\n"
        "  1. issue-agent for every server, issue-relay for every relay: they then trust both\n"
        "  2. issue-server for the aggregator, once all of them have their new files\n"
        "  3. rotate --finish\n"
    )
    assert [fingerprint(ca) for ca in load_bundle(read_tls(site.data / "tls").ca)] == [new, old]

    code, out, err = site("rotate --finish --data DATA")
    assert (code, out) == (2, "")
    assert err.startswith("harvest-aggregator ca rotate: the old CA is still needed by main, oss1: ")

    site("issue-agent oss1 --data DATA")
    site("issue-server --data DATA")
    code, out, _ = site("rotate --finish --data DATA")
    assert (code, out.startswith("The old CA is trusted no more.")) == (0, True)
    assert [fingerprint(ca) for ca in load_bundle(read_tls(site.data / "tls").ca)] == [new]


def test_a_stolen_ca_is_cut_off_at_once(site: Shell) -> None:
    site("issue-agent oss1 --data DATA")
    site("rotate --data DATA")
    assert site("rotate --finish --force --data DATA")[0] == 0
    assert len(site.fingerprints()) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("init --data DATA --site Example", "init: 'Example' cannot be a site's name"),
        ("issue-agent oss1 --data DATA/none", "issue-agent: there is no CA in DATA/none/ca: make one with `ca init`"),
        ("issue-agent ../oss1 --data DATA", "issue-agent: '../oss1' cannot be a server's name"),
        ("issue-server a.b --data DATA", "issue-server: 'a.b' cannot be an aggregator's name"),
        ("issue-agent oss1 --data DATA --out DATA/ca/ca.crt", "issue-agent: cannot make the folder DATA/ca/ca.crt"),
        ("list --data DATA/none", "list: there is no CA in DATA/none/ca"),
        ("show", "show: give a certificate file, or --data DIR"),
        ("show DATA/none", "show: cannot read DATA/none: No such file or directory"),
        ("show DATA/ca/ca.key", "show: this is no certificate"),
        ("rotate --force --data DATA", "rotate: --force goes with --finish"),
    ],
)
def test_what_cannot_be_done_is_told_on_standard_error(site: Shell, line: str, why: str) -> None:
    code, out, err = site(line)
    assert (code, out) == (2, "")
    assert err.startswith(f"harvest-aggregator ca {why}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "lifetime", ["", "0d", "90", "1y", "-1d", "1.5d", "36501d", "999999999d", "9999999999d", "90d "]
)
def test_what_is_no_lifetime_is_refused(run: Shell, lifetime: str) -> None:
    code, _, err = run(f"issue-agent oss1 --data DATA --lifetime='{lifetime}'")
    assert (code, "is no lifetime: write 90d or 12h" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "lifetime"),
    [("90s", timedelta(seconds=90)), ("5m", timedelta(minutes=5)), ("12h", timedelta(hours=12)), ("7d", 7 * DAY)],
)
def test_lifetimes_have_units(site: Shell, text: str, lifetime: timedelta) -> None:
    assert site(f"issue-agent oss1 --data DATA --lifetime {text}")[0] == 0
    assert CaFolder(site.data / "ca").issued()[0].not_after == NOW + lifetime


def test_nothing_secret_is_ever_shown(run: Shell) -> None:
    said = ""
    for line in (
        "init --site example",
        "issue-server",
        "issue-agent oss1",
        "issue-relay vu",
        "rotate",
        "list --all",
        "show",
    ):
        said += "".join(map(str, run(f"{line} --data DATA")))
    for key in run.data.rglob("*.key"):
        secret = key.read_text().splitlines()[1]
        assert len(secret) > 60
        assert secret not in said
        for other in run.data.rglob("*"):
            assert other == key or not other.is_file() or secret not in other.read_text()
