import pytest

from harvest_sim.ops import Kind, bulk_ops, op_list
from harvest_sim.versions import IdRule, ReadPosition, ScanRule, TimeStyle, Version
from unit.sim.building import traits_of


def test_a_version_is_read_from_its_text() -> None:
    assert Version.parse("2.15.0") == Version(2, 15, 0)
    assert Version.parse("2.14.0_ddn164") == Version(2, 14, 0, 164)
    assert Version.parse("2.9.58_86_g2383a62").text == "2.9.58"
    assert Version.parse("2.14.0_ddn164").text == "2.14.0_ddn164"


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="not a Lustre version"):
        Version.parse("master")
    with pytest.raises(ValueError, match="no job_stats"):
        traits_of("2.1.6")


@pytest.mark.parametrize(
    ("version", "rule"),
    [
        ("2.5.3", IdRule.RAW),
        ("2.7.60", IdRule.RAW),
        ("2.7.61", IdRule.QUESTION),
        ("2.12.9", IdRule.QUESTION),
        ("2.15.1", IdRule.QUESTION),
        ("2.15.2", IdRule.A),
        ("2.15.8", IdRule.A),
        ("2.15.50", IdRule.QUESTION),
        ("2.15.51", IdRule.A),
        ("2.15.54", IdRule.A),
        ("2.15.55", IdRule.B),
        ("2.17.0", IdRule.B),
        ("2.14.0_ddn145", IdRule.QUESTION),
        ("2.14.0_ddn162", IdRule.B),
    ],
)
def test_1_1_id_rule_by_version(version: str, rule: IdRule) -> None:
    assert traits_of(version).id_rule is rule


@pytest.mark.parametrize(
    ("version", "style", "boot_clock"),
    [
        ("2.14.55", TimeStyle.INTEGER, False),
        ("2.14.56", TimeStyle.ODD, True),
        ("2.15.0", TimeStyle.ODD, True),
        ("2.15.1", TimeStyle.ODD, True),
        ("2.15.2", TimeStyle.NSECS, False),
        ("2.15.8", TimeStyle.NSECS, False),
        ("2.15.51", TimeStyle.ODD, True),
        ("2.15.52", TimeStyle.ODD, True),
        ("2.15.53", TimeStyle.NSECS, False),
        ("2.14.0_ddn145", TimeStyle.INTEGER, False),
        ("2.14.0_ddn164", TimeStyle.NSECS, False),
    ],
)
def test_1_1_time_style_and_2_1_clock_by_version(version: str, style: TimeStyle, boot_clock: bool) -> None:  # noqa: FBT001 a table's cell
    assert traits_of(version).time_style is style
    assert traits_of(version).uses_boot_clock is boot_clock


@pytest.mark.parametrize(
    ("trait", "last_without", "first_with"),
    [
        ("has_blank_before_numbers", "2.14.50", "2.14.51"),
        ("has_sumsq", "2.13.54", "2.13.55"),
        ("has_start_time", "2.14.55", "2.14.56"),
        ("has_stats_header_switch", "2.15.57", "2.15.58"),
        ("has_hist", "2.15.8", "2.15.53"),
        ("quotes_leading_at", "2.15.59", "2.15.60"),
        ("accepts_quoted_id", "2.15.54", "2.15.55"),
        ("header_needs_job", "2.16.50", "2.16.51"),
        ("halves_interval", "2.14.55", "2.14.56"),
        ("has_instance", "2.5.2", "2.5.3"),
        ("saturates_sums", "2.16.53", "2.16.54"),
        ("stats_nsecs", "2.9.54", "2.9.55"),
        ("stats_has_start", "2.14.55", "2.14.56"),
        ("clear_spares_busy", "2.14.55", "2.14.56"),
        ("clear_spares_busy", "2.15.6", "2.15.5"),
        ("clear_spares_busy", "2.15.55", "2.15.54"),
        ("keeps_creation_order", "2.16.51", "2.16.1"),
        ("stats_has_generic_counters", "2.11.53", "2.11.52"),
        ("ldlm_stats_shows_stats", "2.16.52", "2.16.53"),
        ("ldlm_stats_shows_stats", "2.17.50", "2.17.0"),
    ],
)
def test_each_trait_changes_at_its_version(trait: str, last_without: str, first_with: str) -> None:
    assert getattr(traits_of(last_without), trait) is False
    assert getattr(traits_of(first_with), trait) is True


def test_1_6_read_position_is_an_index_then_the_job_then_a_creation_number() -> None:
    assert traits_of("2.15.8").read_position is ReadPosition.INDEX
    assert traits_of("2.15.55").read_position is ReadPosition.INDEX
    assert traits_of("2.15.56").read_position is ReadPosition.FOLLOWS
    assert traits_of("2.16.50").read_position is ReadPosition.FOLLOWS
    assert traits_of("2.16.51").read_position is ReadPosition.CREATION


def test_2_1_scan_rule_changes_at_2_7_57() -> None:
    assert traits_of("2.7.56").scan_rule is ScanRule.ANY_OPERATION
    assert traits_of("2.7.57").scan_rule is ScanRule.NEW_ID_OR_CLOSE


def test_3_name_column_is_wider_from_2_17_54() -> None:
    assert traits_of("2.17.53").stats_name_width == 25
    assert traits_of("2.17.54").stats_name_width == 35


def names(version: str, kind: Kind) -> list[str]:
    return [op.name for op in op_list(Version.parse(version), kind)]


def test_1_3_ost_ops_by_version() -> None:
    assert names("2.5.51", Kind.OST) == ["read", "write", "setattr", "punch", "sync"]
    assert names("2.5.52", Kind.OST)[:3] == ["read_bytes", "write_bytes", "getattr"]
    assert len(names("2.12.9", Kind.OST)) == 12
    assert names("2.13.55", Kind.OST)[:4] == ["read_bytes", "write_bytes", "read", "write"]
    assert names("2.17.0", Kind.OST)[-1] == "prealloc"


def test_1_3_mdt_ops_by_version() -> None:
    assert len(names("2.10.8", Kind.MDT)) == 16
    assert names("2.12.9", Kind.MDT)[-3:] == ["read_bytes", "write_bytes", "punch"]
    assert names("2.14.0", Kind.MDT)[-1] == "migrate"
    assert "fallocate" in names("2.15.0", Kind.MDT)
    assert "parallel_rename_dir" not in names("2.15.8", Kind.MDT)
    assert "parallel_rename_dir" in names("2.15.51", Kind.MDT)
    assert "rename_trylocks" not in names("2.16.1", Kind.MDT)
    assert "rename_trylocks" in names("2.17.0", Kind.MDT)
    assert names("2.17.57", Kind.MDT)[-1] == "readpage"
    assert "fallocate" not in names("2.14.0_ddn164", Kind.MDT)
    assert "rename_trylocks" in names("2.14.0_ddn259", Kind.MDT)


def test_1_3_read_means_bytes_up_to_2_5_and_time_from_2_14() -> None:
    units = {
        version: {op.name: op.unit for op in op_list(Version.parse(version), Kind.OST)}
        for version in ("2.5.0", "2.14.0")
    }
    assert units["2.5.0"]["read"] == "bytes"
    assert units["2.14.0"]["read"] == "usecs"
    assert units["2.14.0"]["read_bytes"] == "bytes"


def test_1_3_a_bulk_rpc_moves_what_its_version_counts() -> None:
    assert bulk_ops(Version.parse("2.5.0"), Kind.OST, "write") == ("write",)
    assert bulk_ops(Version.parse("2.12.9"), Kind.OST, "write") == ("write_bytes",)
    assert bulk_ops(Version.parse("2.15.4"), Kind.OST, "read") == ("read_bytes", "read")
    assert bulk_ops(Version.parse("2.12.9"), Kind.MDT, "read") == ()
    assert bulk_ops(Version.parse("2.14.0"), Kind.MDT, "read") == ("read_bytes",)
