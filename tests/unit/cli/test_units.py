import pytest

from harvest_cli.units import age, count, name, per_second, size


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.0, "0"),
        (1, "1 B"),
        (0.01, "<0.1 B"),
        (0.5, "0.5 B"),
        (1023, "1023 B"),
        (1023.96, "1.0 KiB"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (2**63, "8.0 EiB"),
        (2**75, "32768.0 EiB"),
    ],
)
def test_bytes_are_shown_in_units_of_1024(amount: float | None, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "-"),
        (0, "0"),
        (7, "7"),
        (0.25, "0.2"),
        (999, "999"),
        (999.96, "1.0k"),
        (1234, "1.2k"),
        (2_500_000, "2.5M"),
    ],
)
def test_counts_are_shown_with_k_and_m(amount: float | None, text: str) -> None:
    assert count(amount) == text


def test_what_is_absent_or_zero_is_no_rate() -> None:
    assert [per_second(text) for text in ("-", "0", "1.0 KiB")] == ["-", "0", "1.0 KiB/s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (-3, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_ages_are_in_the_largest_unit_of_which_there_are_two(seconds: float | None, text: str) -> None:
    assert age(seconds) == text


def test_names_hold_nothing_that_a_terminal_obeys() -> None:
    assert name("\x1b[2Jada\n") == "\\x1b[2Jada\\x0a"
    assert name("a\udcffb\u202e") == "a\\xffb\\u202e"
    assert name("café.1000") == "café.1000"
    assert (name(None), name("")) == ("-", "-")
