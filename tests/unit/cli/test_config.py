from pathlib import Path

import pytest

from harvest_cli.config import Aggregator, ConfigError, checked_url, chosen, files, load, parse_file, too_open

FILE = (
    Aggregator(url="https://one:8024", token_file="/t", ca="/ca", server_name="main.x.harvest"),  # noqa: S106
    Aggregator(url="http://127.0.0.1:1"),
)


def test_without_anything_this_machine_is_asked() -> None:
    assert chosen({}, {}, ()) == (Aggregator(url="http://127.0.0.1:8024"),)


def test_the_command_line_wins_over_the_environment_and_that_over_a_file() -> None:
    environment = {"HARVEST_URL": "http://b:1, http://c:2/\thttp://b:1"}
    assert chosen({}, {}, FILE) == FILE
    assert [one.url for one in chosen({}, environment, FILE)] == ["http://b:1", "http://c:2"]
    assert [one.url for one in chosen({"url": ["http://d:1", "http://e:1"]}, environment, FILE)] == [
        "http://d:1",
        "http://e:1",
    ]


def test_an_address_that_a_file_knows_keeps_what_the_file_says() -> None:
    (one,) = chosen({"url": ["https://one:8024/"], "ca": "/other"}, {}, FILE)
    assert (one.token_file, one.ca, one.server_name) == ("/t", "/other", "main.x.harvest")


def test_the_token_file_comes_from_the_command_line_else_from_the_environment() -> None:
    environment = {"HARVEST_TOKEN_FILE": "/env"}
    assert chosen({}, environment, FILE)[0].token_file == "/env"  # noqa: S105
    assert chosen({"token_file": "/own"}, environment, FILE)[0].token_file == "/own"  # noqa: S105


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"agregator": []}, "unknown key 'agregator'"),
        ({"aggregator": {"url": "http://a"}}, "two brackets"),
        ({"aggregator": ["http://a"]}, "must be a section"),
        ({"aggregator": [{"ca": "/x"}]}, "url is missing"),
        (
            {"aggregator": [{"url": "http://a", "tokn_file": "/x"}]},
            "unknown key 'tokn_file'; known are url, token_file",
        ),
        ({"aggregator": [{"url": 5}]}, "url must be text"),
        ({"aggregator": [{"url": "http://a"}, {"url": "http://a/"}]}, "asked twice"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_what_to_write(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        parse_file(raw)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8024",
        "ftp://a",
        "http://",
        "http://a:0",
        "http://a:99999",
        "http://u:p@a",
        "http://a?x",
        "http://a\x1b",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="write one such as http://127"):
        checked_url(url)


def test_secrets_of_an_address_are_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        checked_url("https://ada:secret@a:8024")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_no_error_and_one_that_is_no_toml_is(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert load(path) is None
    path.write_text("[[aggregator]\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(path)
    path.write_text('[[aggregator]]\nurl = "http://a:1"\n')
    assert load(path) == (Aggregator(url="http://a:1"),)


def test_configuration_files_are_the_users_and_then_the_systems() -> None:
    system = Path("/etc/harvest/cli.toml")
    assert files({"HOME": "/home/ada"}) == (Path("/home/ada/.config/harvest/config.toml"), system)
    assert files({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/x"}) == (Path("/x/harvest/config.toml"), system)
    assert files({}) == (system,)


def test_a_token_is_read_once_it_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o600)
    one = Aggregator(url="https://a", token_file=str(path))
    assert one.token() == "0123456789abcdef"
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read the token file"):
        one.token()
    with pytest.raises(ConfigError, match="cannot read the token file"):
        Aggregator(url="https://a", token_file=str(tmp_path / "none")).token()
    path.chmod(0o600)
    path.write_text("two words\n")
    with pytest.raises(ConfigError, match="one line of printable characters"):
        one.token()


def test_root_may_share_a_token_with_a_group() -> None:
    assert not too_open(mode=0o100640, owner=0, reader=1000)
    assert too_open(mode=0o100640, owner=1000, reader=1000)
    assert too_open(mode=0o100644, owner=0, reader=1000)


@pytest.mark.parametrize("url", ["http://harvest.example:8024", "http://127.evil.example", "http://10.0.0.1"])
def test_a_token_is_never_sent_unencrypted_beyond_this_machine(url: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="write https"):
        Aggregator(url=url, token_file=str(path)).token()
    for loopback in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        assert Aggregator(url=loopback, token_file=str(path)).token()
