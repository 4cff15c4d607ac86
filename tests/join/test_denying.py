"""One certificate of a server is denied by its serial while it streams; others of the same server count as before."""

import asyncio
from pathlib import Path

import grpc
import pytest

from harvest_agent.joining.client import Address, RefusedError, renew
from harvest_agent.joining.folders import TlsLink
from harvest_pki.certificates import load_bundle, serial_text
from harvest_pki.folders import Tls, read_tls
from harvest_pki.keys import load_key, new_key
from support.joining import SITE, Joined, Serving, server, serving, started, written
from support.processes import Running, running, wait_for
from support.uplinks import Agent


def serials(joining: Serving, name: str) -> list[str]:
    """Return all serials of a server, as an administrator finds them."""
    lines = joining.ca("list", "--all").splitlines()
    return [word for line in lines if f" {name} " in line for word in line.split() if len(word) > 30]


def refused(site: Running, tls: Tls) -> str:
    """Come with a certificate; return why one is sent away."""

    async def come() -> str:
        agent = Agent(site.address, tls)
        code, details = await agent.ended()
        await agent.close()
        assert code is grpc.StatusCode.PERMISSION_DENIED
        return str(details)

    return asyncio.run(come())


def test_a_denied_serial_is_cut_while_it_streams_and_the_renewed_one_goes_on_exactly(tmp_path: Path) -> None:
    with running(tmp_path, site=SITE) as site, serving(site) as joining, started(tmp_path, joining) as here:
        here.show(a=2)
        wait_for(lambda: written(site) == 2, "what the job wrote")
        stolen, key = read_tls(here.tls), new_key()
        trusted, at = load_bundle(stolen.ca), Address.parse(joining.address)
        made, answer = renew(at, stolen.certificate, load_key(stolen.key), key, trusted)
        first, second = serials(joining, "oss1")
        assert second == serial_text(made.serial_number)

        site.change(f'{SITE}certificates: {{denySerials: ["{first}"]}}\n')
        wait_for(lambda: f"serial {first} is denied by `denySerials`" in here.said(), "the stream to be cut")
        wait_for(lambda: not server(site, "oss1")["connected"], "the aggregator to say so")
        here.show(a=5)
        with pytest.raises(RefusedError, match="is denied by `denySerials`"):
            renew(at, stolen.certificate, load_key(stolen.key), new_key(), trusted)

        link = TlsLink(here.tls)
        link.take(link.draft(key), answer.certificate, answer.ca)  # as the agent's own renewal does
        wait_for(lambda: written(site) == 5, "what the job wrote while the server was cut off")
        assert server(site, "oss1")["connected"]
        assert f"serial {first} is denied" in refused(site, stolen)

        site.change(f'{SITE}certificates: {{denySerials: ["{first}", "{second}"]}}\n')
        wait_for(lambda: f"serial {second} is denied by `denySerials`" in here.said(), "the stream to be cut")
        here.show(a=7)
        (token,) = joining.tokens("oss1")
        assert Joined(here.folder).join(joining.address, token, "--force").returncode == 0
        wait_for(lambda: written(site) == 7, "what the job wrote before the server joined again")
        assert len(serials(joining, "oss1")) == 3
