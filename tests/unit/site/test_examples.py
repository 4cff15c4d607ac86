"""Examples, good and bad: each bad one says at its top everything that is wrong with it."""

import re
from pathlib import Path

import pytest

from harvest_site.loading import SiteError, checked, load
from harvest_site.model import Spec
from harvest_site.rules import RULES
from harvest_site.rules.rule import Rule

SITES = Path(__file__).parents[2] / "data/sites"
GOOD = sorted((SITES / "good").iterdir())
BAD = sorted((SITES / "bad").iterdir())
BASE = load("filesystems: [{name: home, servers: [oss1]}]").spec


def problems_of(file: Path) -> SiteError:
    with pytest.raises(SiteError) as caught:
        load(file)
    return caught.value


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_site_is_taken_and_can_be_written_back(file: Path) -> None:
    site = load(file)
    assert checked(site.document()) == site
    assert load(file.read_text()) == site


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_site_is_refused_with_every_problem_and_what_to_write_instead(file: Path) -> None:
    expected = re.findall(r"^# expect: (.*)$", file.read_text(), re.MULTILINE)
    assert expected
    assert str(problems_of(file)).split("\n") == expected


def test_every_rule_has_a_bad_example() -> None:
    broken = {problem.rule for file in BAD for problem in problems_of(file).problems}
    assert {rule.id for rule in RULES} <= broken


def test_rules_have_names_of_their_own_and_stand_where_the_schema_has_a_place() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    places = {place for rule in RULES for place in rule.at}
    assert places == {
        "",
        "aggregators[].service",
        "clusters[]",
        "clusters[].hosts[]",
        "clusters[].hosts[].pattern",
        "clusters[].jobIds",
        "clusters[].slurm",
        "service",
        "sinks[]",
    }


class Watched(Spec):
    """Notes which parts are looked at."""

    def __getattribute__(self, name: str) -> object:  # type: ignore[explicit-override]
        if name in Spec.model_fields:
            SEEN.add(Spec.model_fields[name].alias or name)
        return super().__getattribute__(name)


SEEN: set[str] = set()
WATCHED = [
    Watched.model_construct(**{name: getattr(spec, name) for name in Spec.model_fields})
    for spec in (load(file).spec for file in GOOD)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_looks_only_at_what_it_says(rule: Rule) -> None:
    """A part with wrong fields is left out before rules are asked: a rule must not miss it unknowingly."""
    SEEN.clear()
    for spec in WATCHED:
        assert list(rule.check(spec)) == []
    assert set(rule.reads) >= SEEN


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_message_says_what_to_do(rule: Rule) -> None:
    assert re.match("write|give|put|take|name|add", rule.message)
    assert rule.cel.strip()
    assert list(rule.check(BASE)) == []
