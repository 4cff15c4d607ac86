"""NIDs of one host are one node."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from harvest_aggregator.grouping import Counted, Grouped, grouped
from harvest_aggregator.hosts import Host
from harvest_aggregator.nodes import Node, Rates

HOSTS = {
    "10.1.0.7@o2ib": Host("vu7", "10.2.0.7", "vu"),
    "10.5.0.7@tcp": Host("vu7", "10.5.0.7", "vu"),
    "10.5.1.7@tcp": Host("vu7", "10.5.1.7", "vu"),
    "10.1.0.8@o2ib": Host("vu8", "10.2.0.8", "vu"),
    "10.9.0.7@o2ib2": Host("vu7", "10.9.0.7", "xe"),
    "10.9.0.9@o2ib9": Host("10.9.0.9@o2ib9", "10.9.0.9", None),
}
NIDS = [*HOSTS, "10.66.0.1@o2ib", "10.66.0.2@o2ib"]
rates = st.builds(Rates, *[st.none() | st.floats(0, 1e12)] * 4)
counted = st.dictionaries(
    st.sampled_from(NIDS), st.tuples(st.booleans(), st.dictionaries(st.sampled_from(["home", "gdata"]), rates))
)


def test_the_nids_of_a_host_are_summed_per_file_system() -> None:
    counts: dict[str, Counted] = {
        "10.5.0.7@tcp": (True, {"home": Rates(1.0, None, 0.0, None), "gdata": Rates(0.0, 1.0, 2.0, 3.0)}),
        "10.1.0.7@o2ib": (False, {"home": Rates(2.5, 4.0, None, None)}),
    }
    assert grouped(counts, HOSTS.get) == Grouped(
        (
            Node(
                host="vu7",
                address="10.2.0.7",
                cluster="vu",
                nids=("10.1.0.7@o2ib", "10.5.0.7@tcp"),
                is_live=True,
                filesystems={"home": Rates(3.5, 4.0, 0.0, None), "gdata": Rates(0.0, 1.0, 2.0, 3.0)},
            ),
        ),
        left_out=0,
    )


def test_hosts_of_different_clusters_are_apart_and_what_has_no_name_is_counted() -> None:
    nodes, left_out = grouped({nid: (False, {}) for nid in NIDS}, HOSTS.get)
    assert [(node.host, node.cluster, node.is_live) for node in nodes] == [
        ("vu7", "vu", False),
        ("vu8", "vu", False),
        ("vu7", "xe", False),
        ("10.9.0.9@o2ib9", None, False),
    ]
    assert left_out == 2


@given(counted, st.randoms(use_true_random=False))
def test_the_order_in_which_nids_come_does_not_matter(counts: dict[str, Counted], random: Random) -> None:
    shuffled = list(counts.items())
    random.shuffle(shuffled)
    assert grouped(dict(shuffled), HOSTS.get) == grouped(counts, HOSTS.get)


@given(counted)
def test_every_named_nid_is_in_exactly_one_node(counts: dict[str, Counted]) -> None:
    nodes, left_out = grouped(counts, HOSTS.get)
    assert sorted(nid for node in nodes for nid in node.nids) == sorted(counts.keys() & HOSTS.keys())
    assert left_out == len(counts.keys() - HOSTS.keys())
