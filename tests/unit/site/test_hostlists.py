import pytest

from harvest_site.hostlists import NAMES_MAX, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mds1", "mds1"),
        ("oss[01-04]", "oss01 oss02 oss03 oss04"),
        ("oss[8-11]", "oss8 oss9 oss10 oss11"),
        ("oss[1,4-5,9].example", "oss1.example oss4.example oss5.example oss9.example"),
        ("r[1-2]oss[1-2]", "r1oss1 r1oss2 r2oss1 r2oss2"),
        ("[1-2]", "1 2"),
        ("OSS_1-a.b", "OSS_1-a.b"),
    ],
)
def test_a_list_in_short_is_all_its_names(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "oss[",
        "oss]",
        "oss[]",
        "oss[a-b]",
        "oss[1-]",
        "oss[2-1]",
        "oss[01-4]",
        "oss[1-04]",
        "oss[1-2,2]",
        "oss[[1]]",
        "-oss",
        "oss[1-2]..b",
        "oss:1",
        "../oss",
        "a" * 300,
        "oss\n",
        "o" * 64,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|remove"):
        expand(text)


@pytest.mark.parametrize("text", ["oss[1-999999999]", "a[1-99]b[1-99]", "a[1-9]" * 40, f"a[1-{NAMES_MAX + 1}]"])
def test_a_list_is_bounded_before_it_is_made(text: str) -> None:
    with pytest.raises(ValueError, match="more than 1024 names"):
        expand(text)


def test_the_bound_itself_is_fine() -> None:
    assert len(expand(f"a[1-{NAMES_MAX}]")) == NAMES_MAX
