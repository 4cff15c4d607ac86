"""What a real API server says to every example: it takes the good, and refuses the bad with the promised words."""

import re
import subprocess
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from harvest_aggregator.__main__ import main as aggregator
from harvest_site.loading import Problem, SiteError, checked, load
from harvest_site.rules import RULES
from support.kubernetes.api import Api, ApiError
from support.kubernetes.clusters import Cluster
from support.kubernetes.programs import programs
from support.kubernetes.resources import sites_path

SITES = Path(__file__).parents[1] / "data/sites"
GOOD = sorted((SITES / "good").iterdir())
BAD = sorted((SITES / "bad").iterdir())
PASSED = {"host-pattern-no-expression", "nids-overlap", "nids-overlap-ipv6", "same-fsname-same-server"}
"""What CEL cannot see (docs/reference/site.md): the operator refuses it with a condition."""
TEXTS = {"a-list", "anchors-without-end", "no-yaml", "two-documents"}
"""Bad as texts: kubectl makes no object of them that it could send."""
LAST_COUNTS = "duplicate-keys"
"""Of a key that stands twice kubectl takes the last, and nobody after it can know."""
OWN_WORDS = {
    "there is no such key": "unknown field",
    "this is missing": "Required value",
    "write a mapping with the site's name": "Required value: name",
    "write lustreharvest.dev/v1alpha1": "does not match the expected API version",
    "write a (text|list|mapping|whole number)|write true or false": "must be of type|unknown field",
    "is no duration: write a whole number and its unit, such as 20s": "must be of type",
    "is out of bounds: write at (least|most)": "should be (greater|less) than or equal to",
    "is not known: write": "Unsupported value",
    "it is empty: write something": "should (have at least 1 items|be at least 1 chars long)",
    "it is too long": "Too (long|many)",
    "stands (here more than once|twice)": "Duplicate value",
    "one number is missing": "should have at least 2 items",
}
"""What is wrong with a field by itself, Kubernetes says in its own words: ours, and Kubernetes'."""
STOPPED = "some validation rules were not checked because the object was invalid"
MESSAGES = {rule.id: rule.message for rule in RULES}


def wrapped(text: str) -> str:
    """Return the text as a whole HarvestSite: an example may be a spec alone."""
    if re.search("^apiVersion:", text, re.MULTILINE):
        return text
    head = "apiVersion: lustreharvest.dev/v1alpha1\nkind: HarvestSite\nmetadata: {name: example}\nspec:\n"
    return head + indent(text, "  ")


def document_of(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(wrapped(file.read_text()))
    document.get("metadata", {}).pop("namespace", None)
    return document


def problems_of(file: Path) -> tuple[Problem, ...]:
    with pytest.raises(SiteError) as caught:
        load(wrapped(file.read_text()))
    return caught.value.problems


@cache
def refusal_of(file: Path, api: Api) -> tuple[tuple[str, str], ...]:
    """Return what the API server says is wrong, by field: as it answers kubectl, which wants strictness."""
    try:
        api.post(sites_path("default"), document_of(file), dryRun="All", fieldValidation="Strict")
    except ApiError as error:
        return tuple(error.causes) or (("", str(error)),)
    return ()


@pytest.fixture(scope="module")
def asked(cluster: Cluster) -> Api:
    return Api(cluster.kubeconfig)


def within(path: str, other: str) -> bool:
    """Tell whether a path begins with another."""
    return not other or re.match(rf"{re.escape(other)}($|[.\[])", path) is not None


def promised(problem: Problem, field: str, words: str) -> bool:
    """Tell whether the API server's words are about this problem, and what was promised for it."""
    if not within(problem.path, field) and not within(field, problem.path):
        return False
    wanted = MESSAGES[problem.rule] if problem.rule is not None else problem.message[problem.message.find("write ") :]
    return wanted in words or any(
        re.search(ours, problem.message) and re.search(theirs, words) for ours, theirs in OWN_WORDS.items()
    )


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_site_is_taken_by_both_and_means_the_same(
    file: Path, asked: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked.post(sites_path("default"), document_of(file), dryRun="All", fieldValidation="Strict")
    answer["metadata"] = {"name": answer["metadata"]["name"]}
    assert checked(answer).spec == load(file).spec
    named = [name for one in load(file).spec.aggregators[:1] for name in ("--aggregator", one.name)]
    assert aggregator(["check", "--site", str(file), *named]) == 0
    assert "is good" in capsys.readouterr().out


@pytest.mark.parametrize(
    "file", [file for file in BAD if file.stem not in {*TEXTS, LAST_COUNTS}], ids=lambda file: file.stem
)
def test_a_bad_site_is_refused_by_both_with_the_same_words(
    file: Path, asked: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    assert aggregator(["check", "--site", str(file)]) == 2
    expected = re.findall(r"^# expect: (.*)$", file.read_text(), re.MULTILINE)
    assert capsys.readouterr().err.splitlines() == [f"{file}: {line}" for line in expected]

    refusal = refusal_of(file, asked)
    assert bool(refusal) == (file.stem not in PASSED)
    problems = problems_of(file)
    for field, words in refusal:
        assert STOPPED in words or any(promised(problem, field, words) for problem in problems), f"{field}: {words}"


def test_the_api_server_knows_every_rule(asked: Api) -> None:
    """Each is broken by an example in which nothing hides it."""
    said = "\n".join(words for file in BAD if file.stem not in TEXTS for _, words in refusal_of(file, asked))
    assert [rule.id for rule in RULES if rule.message not in said] == []


def kubectl_apply(cluster: Cluster, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "site.yaml"
    file.write_text(text)
    kubectl = f"{programs()}/kubectl"
    command = [kubectl, "--kubeconfig", str(cluster.kubeconfig), "apply", "--dry-run=server", "-f", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stem", sorted(TEXTS))
def test_a_text_that_is_no_document_is_refused_by_kubectl(stem: str, cluster: Cluster, tmp_path: Path) -> None:
    ran = kubectl_apply(cluster, wrapped((SITES / f"bad/{stem}.yaml").read_text()), tmp_path)
    assert ran.returncode != 0
    assert ran.stderr


def test_of_a_key_that_stands_twice_kubectl_takes_the_last(cluster: Cluster, tmp_path: Path) -> None:
    text = wrapped((SITES / f"bad/{LAST_COUNTS}.yaml").read_text())
    with pytest.raises(SiteError, match=r"stands in line .* already"):
        load(text)
    assert kubectl_apply(cluster, text, tmp_path).returncode == 0


def test_kubectl_refuses_unknown_keys_and_broken_rules_by_itself(cluster: Cluster, tmp_path: Path) -> None:
    """Without a word about strictness from whoever applies the site."""
    unknown = kubectl_apply(cluster, (SITES / "bad/unknown-keys.yaml").read_text(), tmp_path)
    assert unknown.returncode != 0
    assert 'unknown field "spec.intervall"' in unknown.stderr
    assert 'unknown field "spec.clusters[0].hosts[0].dns.server"' in unknown.stderr
    broken = kubectl_apply(cluster, wrapped((SITES / "bad/slurm-of-both-kinds.yaml").read_text()), tmp_path)
    assert broken.returncode != 0
    assert "spec.clusters[1].slurm: Invalid value" in broken.stderr
    assert MESSAGES["slurm-kind"] in broken.stderr
