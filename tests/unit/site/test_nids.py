from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_site.loading import load
from harvest_site.nids import NidRange


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (
            "10.1.[0-3].*@o2ib",
            ["10.1.0.0@o2ib", "10.1.3.255@o2ib", "10.1.2.7@o2ib0"],
            [
                "10.1.4.0@o2ib",
                "10.1.0.0@o2ib1",
                "10.1.0@o2ib",
                "10.1.0.256@o2ib",
                "fd00::@o2ib",
                "1@o2ib",
                "",
                "x@o2ib",
            ],
        ),
        ("10.1.0.7@tcp2", ["10.1.0.7@tcp2"], ["10.1.0.7@tcp", "10.1.0.8@tcp2"]),
        ("fd00:1::/64@tcp", ["fd00:1::5@tcp", "fd00:1:0:0:ffff::@tcp"], ["fd00:1:0:1::@tcp", "10.1.0.1@tcp"]),
        ("fd00::7@tcp", ["fd00:0:0::7@tcp"], ["fd00::8@tcp"]),
        ("[1-400]@kfi", ["1@kfi", "400@kfi"], ["0@kfi", "401@kfi", "1f@kfi", "1.1.1.1@kfi"]),
        ("7@gni1", ["7@gni1"], ["7@gni"]),
    ],
)
def test_a_range_contains_its_addresses_and_no_other(text: str, inside: list[str], outside: list[str]) -> None:
    nids = NidRange.parse(text)
    assert [nid for nid in inside if not nids.contains(nid)] == []
    assert [nid for nid in outside if nids.contains(nid)] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.1.0.1",
        "@tcp",
        "10.1.0@tcp",
        "10.1.0.256@tcp",
        "10.1.[3-0].*@tcp",
        "10.1.[0-].*@tcp",
        "*@tcp",
        "10.1.0.1@tcp0",
        "fd00::1/64@tcp",
        "fd00:::1@tcp",
        "fd00::/129@tcp",
        "10.0.0.0/8@tcp",
        "[9-1]@kfi",
        "10.1.0.1@TCP",
        "10.1.0.1@tcp\n",
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        NidRange.parse(text)


PARTS = st.one_of(
    st.just("*"),
    st.integers(0, 5).map(str),
    st.tuples(st.integers(0, 3), st.integers(3, 5)).map(lambda ends: f"[{ends[0]}-{ends[1]}]"),
)
RANGES = st.tuples(PARTS, PARTS, PARTS, PARTS).map(lambda parts: NidRange.parse(f"{'.'.join(parts)}@tcp"))
ADDRESSES = st.tuples(*[st.integers(0, 6)] * 4).map(lambda parts: f"{'.'.join(map(str, parts))}@tcp")


@settings(derandomize=True, deadline=None, database=None)
@given(RANGES, RANGES, ADDRESSES)
def test_an_address_in_two_ranges_means_that_they_overlap(a: NidRange, b: NidRange, nid: str) -> None:
    assert a.overlaps(b) == b.overlaps(a)
    if a.contains(nid) and b.contains(nid):
        assert a.overlaps(b)


@settings(derandomize=True, deadline=None, database=None)
@given(RANGES, RANGES)
def test_ranges_that_overlap_have_an_address_in_common(a: NidRange, b: NidRange) -> None:
    shared = [max(x[0], y[0]) for x, y in zip(a.parts, b.parts, strict=True)]
    nid = f"{IPv4Address(bytes(shared))}@tcp"
    assert a.overlaps(b) == (a.contains(nid) and b.contains(nid))


@settings(derandomize=True, deadline=None, database=None)
@given(st.integers(0, (1 << 128) - 1), st.integers(0, 128), st.integers(0, (1 << 128) - 1))
def test_ipv6_networks_overlap_where_one_contains_the_other(address: int, bits: int, other: int) -> None:
    base = address >> (128 - bits) << (128 - bits)
    network = NidRange.parse(f"{IPv6Address(base)}/{bits}@tcp")
    host = NidRange.parse(f"{IPv6Address(other)}@tcp")
    assert network.overlaps(host) == network.contains(f"{IPv6Address(other)}@tcp")


def test_a_cluster_owns_its_networks_and_its_ranges() -> None:
    text = "filesystems: [{name: a, servers: [s]}]\nclusters: [{name: c, lnets: [o2ib2], nids: ['10.1.0.*@tcp']}]"
    cluster = load(text).spec.clusters[0]
    assert cluster.owns("10.9.9.9@o2ib2")
    assert cluster.owns("10.1.0.9@tcp")
    assert not cluster.owns("10.1.1.9@tcp")
    assert not cluster.owns("10.9.9.9@o2ib")
    assert not cluster.owns("nonsense")
