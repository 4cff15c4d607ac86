"""What sites become, object by object; tests/kubernetes has the same of a real API server."""

import pytest

from support.sites_in_kubernetes import CASES, expected, results


@pytest.mark.parametrize("case", CASES)
def test_a_site_becomes_exactly_the_expected_objects(case: str) -> None:
    made, wanted = results(case), expected(case)
    assert sorted(made) == sorted(wanted)
    for name, content in wanted.items():
        assert made[name] == content, name


def test_the_cases_are_the_example_and_four_others() -> None:
    assert len(CASES) == 5
    assert "example" in CASES
