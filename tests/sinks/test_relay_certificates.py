"""A running aggregator tells when its relay's certificate ends, and takes up a new one by itself."""

import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harvest_pki.certificates import load_certificate
from support.processes import LIMIT_SECONDS, Running, running, wait_for
from support.uplinks import SITE, ca

RELAYS = """
clusters: [{name: xe, lnets: [o2ib], filesystems: [home]}]
relays: [{cluster: xe, filesystems: [home], endpoint: "127.0.0.1:9", tlsSecretRef: {name: relay-xe}}]
"""


def ends(here: Running) -> list[float]:
    with urllib.request.urlopen(f"{here.url}metrics", timeout=LIMIT_SECONDS) as answer:  # noqa: S310
        lines = answer.read().decode().splitlines()
    return [
        float(line.split()[1]) for line in lines if line.startswith('harvest_relay_certificate_end_seconds{cluster="')
    ]


def warnings(here: Running) -> list[str]:
    return [one for one in here.get("readyz")[1]["warnings"] if "certificate of relay" in one]


def test_a_relays_certificate_is_warned_of_until_there_is_another(tmp_path: Path) -> None:
    head, secrets = ca(tmp_path / "head", "xe"), tmp_path / "secrets"
    folder, now = secrets / "relay-xe", datetime.now(UTC)
    head.write_relay(folder, "demo", now=now, lifetime=timedelta(days=9, hours=12))
    with running(tmp_path, "--secrets", str(secrets), site=f"{SITE}{RELAYS}") as here:
        (told,) = warnings(here)
        assert told == (
            "the certificate of relay xe ends in 9 days: its receiver makes another (`harvest relay-bundle`)"
        )
        head.write_relay(folder, "demo", now=now, lifetime=timedelta(days=60))
        end = load_certificate((folder / "tls.crt").read_bytes()).not_valid_after_utc
        wait_for(lambda: not warnings(here), "the new certificate")
        wait_for(lambda: ends(here) == [end.timestamp()], "its end")
        assert here.stop() == 0
