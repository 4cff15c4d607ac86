"""Pages for those who come from other programs name only what there is."""

import re
from pathlib import Path

import pytest

from support.rules import known_metrics

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/reference").glob("coming-from-*.md"))
KNOWN = known_metrics()
METRICS = ("harvest_", "cluster_job_", "cluster_proc_", "cluster_exporter_", "lustre_job_", "user_target:")
"""How metrics of Harvest begin; those of others have other names."""


def test_every_seed_has_a_page() -> None:
    assert [page.stem.removeprefix("coming-from-") for page in PAGES] == [
        "cluster-exporter",
        "jobharvest",
        "jobs-exporter",
        "lustre-iostats",
        "lustreharvest",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_metrics_and_their_labels_are_there(page: Path) -> None:
    text = " ".join(re.findall(r"`([^`]+)`", page.read_text()))
    for metric, _, labels in re.findall(r"([a-z_]+[a-z0-9_:]*)(\{([^}]*)\})?", text):
        if metric.startswith(METRICS):
            names = KNOWN.get(metric, KNOWN.get(f"{metric}_count"))
            assert names is not None, metric
            assert set(re.findall(r"(\w+)=", labels)) <= names, (metric, labels)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_fields_of_the_site_are_there(page: Path) -> None:
    site = (ROOT / "docs/reference/site.md").read_text()
    for field in re.findall(r"`((?:sinks|filesystems|clusters|relays|ledger)(?:\[\])?\.[\w.\[\]]+)`", page.read_text()):
        assert f"| `{field}` |" in site, field


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_there(page: Path) -> None:
    described = {"harvest": "cli", "harvest-agent": "agent", "harvest-aggregator": "aggregator"}
    for program, command in re.findall(r"`(harvest(?:-agent|-aggregator)?) ([a-z]+)", page.read_text()):
        text = (ROOT / f"docs/reference/{described[program]}.md").read_text()
        assert re.search(rf"^\| `{command}\b", text, re.MULTILINE), (program, command)
