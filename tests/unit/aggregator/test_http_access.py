"""Who may ask, and what anybody is told."""

import logging
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from harvest_aggregator.http import app
from harvest_aggregator.published import Published
from harvest_aggregator.serving import Address, Serving, ServingError, bound, checked_token
from harvest_site.loading import load
from unit.aggregator.publishing import BUSY, NO_RECORDS, SITE, client, metrics

TOKEN = "0123456789abcdef-secret"  # noqa: S105 - of a test


def test_alive_is_alive() -> None:
    answer = client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"alive": True})


def test_ready_is_ready_or_says_why_not() -> None:
    ready = client().get("/readyz")
    assert (ready.status_code, ready.json()["ready"], ready.json()["reasons"]) == (200, True, [])
    unready = client(reasons=("the ledger's disk is full",)).get("/readyz")
    assert (unready.status_code, unready.json()["ready"]) == (503, False)
    assert unready.json()["reasons"] == ["the ledger's disk is full"]


def test_parts_of_the_site_that_nothing_is_done_about_are_named() -> None:
    site = load("{filesystems: [{name: home, servers: [oss1]}], certificates: {agentLifetime: 30d}}")
    ready = client(site=site).get("/readyz")
    assert ready.status_code == 200
    assert any("`certificates.agentLifetime`" in warning for warning in ready.json()["warnings"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": TOKEN},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": b"Bearer \xff\xfe"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/metrics", "/api/v1/jobs", "/api/v1/jobs/-/11", "/nothing", "/healthz/", "//healthz"]
)
def test_without_the_token_nothing_is_told(headers: dict[str, str], path: str) -> None:
    answer = client(token=TOKEN).get(path, headers=headers, follow_redirects=False)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="harvest"'
    assert "Bearer TOKEN" in answer.json()["error"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_all_is_told(scheme: str) -> None:
    answer = client(token=TOKEN).get("/api/v1/jobs", headers={"authorization": f"{scheme} {TOKEN}"})
    assert answer.status_code == 200


def test_health_is_told_without_the_token() -> None:
    for path in ("/healthz", "/readyz"):
        assert client(token=TOKEN).get(path).status_code == 200


def test_a_failure_is_an_answer_too() -> None:
    def fail() -> Published:
        raise RuntimeError("secret detail")

    asked = app(fail, site=lambda: SITE, readiness=list, metrics=metrics(BUSY), records=NO_RECORDS, token=None)
    answer = TestClient(asked, raise_server_exceptions=False).get("/api/v1/jobs")
    assert answer.status_code == 500
    assert answer.json() == {"error": "the aggregator failed to answer this; its log says why"}


def test_the_token_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client(token=TOKEN).get("/api/v1/jobs", headers={"authorization": f"Bearer {TOKEN}"})
        client(token=TOKEN).get("/api/v1/jobs", headers={"authorization": f"Bearer {TOKEN}x"})
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:8024", True),
        ("127.8.9.1:8024", True),
        ("localhost:8024", True),
        ("[::1]:8024", True),
        ("[::ffff:127.0.0.1]:8024", True),
        ("0.0.0.0:8024", False),
        ("[::]:8024", False),
        ("10.0.0.1:8024", False),
        ("[fe80::1%eth0]:8024", False),
        ("[::ffff:10.0.0.1]:8024", False),
        ("harvest.example:8024", False),
        ("localhost.example:8024", False),
        ("127.0.0.1.example:8024", False),
    ],
)
def test_only_loopback_is_loopback(text: str, *, loopback: bool) -> None:
    address = Address.parse(text)
    assert address.is_loopback is loopback
    assert str(address) == text


@pytest.mark.parametrize("text", ["8024", ":8024", "::1:8024", "localhost", "localhost:", "[::1]", "a:70000", "a:b"])
def test_what_is_no_address_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ServingError, match="HOST:PORT"):
        Address.parse(text)


def test_beyond_loopback_there_is_no_http_without_token_or_certificate() -> None:
    beyond = Address("0.0.0.0", 0)  # noqa: S104 - refused before anything is bound
    with pytest.raises(ServingError, match="--http-token-file"):
        Serving(client().app, beyond, tls=Path("tls"), token=None)
    with pytest.raises(ServingError, match="certificate"):
        Serving(client().app, beyond, tls=None, token=TOKEN)


def test_a_token_is_taken_from_its_file_as_it_is() -> None:
    assert checked_token(f"{TOKEN}\n") == TOKEN


@pytest.mark.parametrize("text", ["", "\n", "short", "two words that are long enough", "lang genug, aber ä"])
def test_a_token_that_will_not_do_is_refused_with_how_to_make_one(text: str) -> None:
    with pytest.raises(ServingError, match="openssl rand"):
        checked_token(text)


@pytest.mark.parametrize(
    ("host", "dual_stack", "number"),
    [
        ("::", True, "::"),
        ("::", False, "0.0.0.0"),  # noqa: S104 - not bound to
        ("localhost", False, "127.0.0.1"),
        ("::1", False, "::1"),
        ("192.0.2.7", True, "192.0.2.7"),
    ],
)
def test_all_addresses_are_those_that_the_kernel_has(host: str, number: str, *, dual_stack: bool) -> None:
    assert bound(host, dual_stack=dual_stack) == number
