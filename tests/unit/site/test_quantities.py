import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_site.quantities import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("20s", 20_000), ("5m", 300_000), ("12h", 43_200_000), ("365d", 31_536_000_000), ("0s", 0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    "text", ["", "20", "s", "1.5s", "1h30m", "-1s", "01s", " 1s", "1s\n", "1y", "٣s", "9" * 20 + "s"]
)
def test_nothing_else_is_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "size"), [("10Gi", 10 << 30), ("500M", 500_000_000), ("1", 1), ("0", 0), ("3Ki", 3072)]
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert format_size(size) == text


@pytest.mark.parametrize("text", ["", "10GB", "10gi", "1.5Gi", "-1Gi", "Gi", "1Ki\n", "1ki"])
def test_nothing_else_is_a_size(text: str) -> None:
    assert parse_size(text) is None


@settings(derandomize=True, deadline=None, database=None)
@given(st.integers(0, 10**8))
def test_what_is_written_reads_back_equal(number: int) -> None:
    assert parse_duration(format_duration(number)) == number
    assert parse_size(format_size(number)) == number
