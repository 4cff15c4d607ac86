"""docs/how-to/relays.md: its sites are good ones, fit together, and tell clusters' jobs apart as the page says."""

import re
import shlex
from pathlib import Path

import yaml

from harvest_aggregator.__main__ import parser as aggregator_parser
from harvest_cli.arguments import parser
from harvest_core.jobs.identity import Identities
from harvest_site.loading import checked
from harvest_site.views import job_ids_of, vouched_relays_of

PAGE = (Path(__file__).parents[3] / "docs/how-to/relays.md").read_text()
BODIES = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
SITES = {str(site.name): site for site in map(checked, BODIES)}
COMMANDS = [
    line for text in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in text.splitlines()
]


def test_what_is_sent_is_what_each_head_takes_in() -> None:
    sender = SITES["alkindi"].spec
    clusters = {one.name: one for one in sender.clusters}
    assert [one.cluster for one in sender.relays] == list(clusters) == ["vu", "xe", "dcc"]
    for relay in sender.relays:
        head = SITES[relay.cluster]
        (accept,) = head.spec.accepts
        assert (accept.name, accept.filesystems) == ("alkindi", relay.filesystems)
        assert accept.lnets == clusters[relay.cluster].lnets
        (own,) = head.spec.clusters
        assert own.lnets == accept.lnets
        assert set(relay.filesystems) <= set(own.filesystems)
        assert vouched_relays_of(head) == {"alkindi"}
        host, _, port = relay.endpoint.partition(":")
        if head.spec.service.hostnames:
            assert (host, int(port)) == (head.spec.service.hostnames[0], head.spec.service.node_port)


def test_clusters_are_told_apart_by_their_job_ids() -> None:
    table = PAGE.partition("| id in job_stats |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(.*?)` \| (?:`(.*?)`|no cluster's.*?) \|$", table, re.MULTILINE)
    assert {cluster for _, cluster in rows} == {"vu", "xe", "dcc", ""}
    identities = Identities(job_ids_of(SITES["alkindi"]))
    for job, cluster in rows:
        found = identities.of("gdata", job.encode()).name.cluster
        assert found == cluster if cluster else found not in SITES, job


def test_commands_are_as_the_programs_take_them() -> None:
    secrets = {one.tls_secret_ref.name for one in SITES["alkindi"].spec.relays}
    made = set()
    for line in COMMANDS:
        program, *words = shlex.split(line.partition(" > ")[0])
        if program == "harvest":
            options = parser().parse_args(words)
            assert (options.command, options.relay) == ("relay-bundle", "alkindi")
            made.add(f"relay-{SITES[options.site].name}")
        elif program == "harvest-aggregator":
            options = aggregator_parser().parse_args(words)
            made.add(str(options.out))
        else:
            assert program == "kubectl"
    assert made == secrets
