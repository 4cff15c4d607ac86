"""Whatever the text, the answer is a site or a list of problems."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_site.loading import SiteError, checked, load

MINIMAL = "filesystems: [{name: home, servers: [oss1]}]\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write a mapping"),
        ("null", "write a mapping"),
        ("[" * 5000, "nested deeper"),
        ("a: &a {b: *a}", "nested deeper"),
        (BOMB, "more than 100000 values"),
        ("#" * (1 << 20) + "\n" + MINIMAL, "larger than 1 MiB"),
        ("interval: " + "9" * 5000, "no YAML"),
        ("\x00", "no YAML"),
        ('"\\ud800": 1', "no Unicode"),
        ("1: 2", "write it in quotes"),
        ("? [a]\n: b", "no YAML"),
        ("!!python/object/apply:os.system [ls]", "no YAML"),
        ("a: !!set {b}", "is a set"),
        ("a: !!binary aGFsbG8=", "is a bytes"),
        ("interval: .nan", "no duration"),
        ("interval: 1:30", "no duration"),
        ("interval: 2026-11-16", "no duration"),
        ("x" * 100 + ": 1", "…"),
    ],
    ids=range(18),
)
def test_hostile_text_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(SiteError) as caught:
        load(text)
    assert message in str(caught.value)
    assert "Traceback" not in str(caught.value)


@settings(derandomize=True, deadline=None, database=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_a_part_of_any_type_is_refused_in_words(value: object) -> None:
    for key in ("interval", "filesystems", "clusters", "sinks", "ledger", "service", "certificates"):
        with contextlib.suppress(SiteError):
            checked({"filesystems": [{"name": "home", "servers": ["oss1"]}], key: value})


def test_a_mapping_may_be_merged_from_an_anchor() -> None:
    text = "filesystems:\n  - &one {name: a, servers: [s1], alias: x}\n  - {<<: *one, name: b, alias: y}\n"
    assert [filesystem.servers for filesystem in load(text).spec.filesystems] == [("s1",), ("s1",)]


def test_problems_are_all_there_but_not_all_are_shown() -> None:
    with pytest.raises(SiteError) as caught:
        load("".join(f"key{number}: 1\n" for number in range(150)) + MINIMAL)
    assert len(caught.value.problems) == 150
    assert str(caught.value).endswith("\n… and 50 more")


def test_paths_begin_where_the_author_began() -> None:
    document = {"apiVersion": "lustreharvest.dev/v1alpha1", "kind": "HarvestSite", "metadata": {"name": "a"}}
    spec = {"filesystems": [{"name": "home", "servers": ["oss1"]}], "clusters": [{"name": "a", "slurm": {}}]}
    for raw, path in ((spec, "clusters[0].slurm"), ({**document, "spec": spec}, "spec.clusters[0].slurm")):
        with pytest.raises(SiteError) as caught:
            checked(raw)
        assert [problem.path for problem in caught.value.problems] == [path]


def test_a_site_has_the_name_of_its_document() -> None:
    spec = {"filesystems": [{"name": "home", "servers": ["oss1"]}]}
    document = {
        "apiVersion": "lustreharvest.dev/v1alpha1",
        "kind": "HarvestSite",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    assert checked(document).name == "a"
    assert checked(spec).name is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"# caf\xe9\n")
    for file, message in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory"), (latin, "UTF-8")):
        with pytest.raises(SiteError, match=message) as caught:
            load(file)
        assert str(file) in str(caught.value)


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 1 << 34)
    with pytest.raises(SiteError, match="larger than 1 MiB"):
        load(large)


def test_a_password_in_an_address_is_not_repeated() -> None:
    sink = "{name: i, influxdb: {url: 'http://u:geheim@influx', org: o, bucket: b, tokenSecretRef: {name: t, key: k}}}"
    with pytest.raises(SiteError) as caught:
        load(f"{MINIMAL}sinks: [{sink}]")
    assert "geheim" not in str(caught.value)
