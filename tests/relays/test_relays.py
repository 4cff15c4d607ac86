"""A site-wide aggregator and two heads, each with a CA of its own: every head has its nodes, exactly, whatever ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alive.proxy import Proxy
from alive.scenes import run
from demo.processes import run as command
from relays.heads import FILESYSTEM, NODES, Done, Head, Tree
from support.ganglia import Gmond

METRICS = {f"{FILESYSTEM}_{name}" for name in ("read_bytes", "write_bytes", "oss_ops", "mds_ops")}
SECONDS = 12.0


@pytest.fixture
def gmond(tmp_path: Path) -> Iterator[Gmond]:
    gmond = Gmond(tmp_path / "gmond", "vu")
    gmond.start()
    yield gmond
    gmond.stop()


def test_every_head_has_exactly_its_own_nodes_over_kills_cuts_and_restarts(tmp_path: Path, gmond: Gmond) -> None:
    heads = {
        "vu": Head(tmp_path / "vu", "vu", gmond=gmond.address),
        "xe": Head(tmp_path / "xe", "xe"),
    }
    wire = Proxy(heads["vu"].port)
    tree = Tree(tmp_path, heads, {"vu": wire.port, "xe": heads["xe"].port}, seconds=SECONDS)
    try:
        for head in heads.values():
            head.start()
        assert heads["xe"].get("/readyz")["warnings"] == [f"relay demo: nothing was told of {FILESYSTEM} yet"]
        tree.play.start()
        backup = tmp_path / "backup"
        data = ("--data", str(tree.here.data))

        def back_up() -> None:
            command("harvest-aggregator", "backup", *data, str(backup))

        def crash() -> None:
            tree.here.aggregator.kill()
            tree.here.aggregator.start()

        def restore() -> None:
            """Put the sender back to what it was."""
            tree.here.aggregator.kill()
            command("harvest-aggregator", "restore", *data, str(backup))
            tree.here.aggregator.start()

        highest: dict[str, Done] = {name: {} for name in heads}

        def compare() -> None:
            for name, head in heads.items():
                now = head.totals()
                assert all(now.get(key, 0) >= total for key, total in highest[name].items())
                highest[name] = now

        acts = [
            *((second / 2, compare) for second in range(6, 24)),
            (2.5, back_up),
            (3.0, wire.cut),
            (4.0, heads["xe"].program.kill),
            (5.5, wire.mend),
            (6.0, heads["xe"].start),
            (7.0, crash),
            (9.0, restore),
        ]
        run(tree.play, *acts)
        tree.play.settle()
        tree.wait_for_truth("vu", "xe")
        shown = {
            nid: sum(n for (of, m, _), n in heads["xe"].totals().items() if (of, m) == (nid, "write_bytes"))
            for nid in nids("xe")
        }
        tree.step_until(lambda: heads["xe"].counters() == shown, "the same in counters for Prometheus")
        assert {nid for nid, _, _ in heads["xe"].totals()} == nids("xe")

        tree.step_until(lambda: {name for one in gmond.values().values() for name in one} == METRICS, "all metrics")
        assert gmond.hosts() == [(f"vu{number}", f"10.2.0.{number}") for number in NODES["vu"]]
        tree.step_until(lambda: not tree.warnings(), "relays that are well")
        assert not heads["vu"].get("/readyz")["warnings"]
        page = heads["vu"].text("/metrics")
        assert f'harvest_relay_nodes{{filesystem="{FILESYSTEM}",relay="demo"}} 4.0' in page
        assert f'harvest_relay_complete{{filesystem="{FILESYSTEM}",relay="demo"}} 1.0' in page
        assert not heads["vu"].events("relay refused")
    finally:
        tree.close()
        wire.close()


def test_a_head_shows_no_rate_of_an_outage(tmp_path: Path) -> None:
    """The sender's rates are of its own sweeps: what was done while nobody listened is in totals alone.

    When the head is back the nodes are idle, so that any rate above 0 would be one of the outage.
    """
    head = Head(tmp_path / "vu", "vu")
    tree = Tree(tmp_path, {"vu": head}, {"vu": head.port}, seconds=60.0)
    try:
        head.start()
        tree.play.start()
        tree.step_until(lambda: highest(head.rates()) > 0, "rates of nodes that work")
        tree.step_until(lambda: head.rates() == sender_rates(tree), "the rates that the sender has")
        head.program.stop()
        heard = sum(head.totals().values())
        tree.step_until(lambda: sum(tree.truth("vu").values()) > 2 * heard, "much work that the head does not hear of")
        tree.play.live.stop()
        tree.play.settle()
        tree.step_until(lambda: highest(sender_rates(tree)) == 0, "idle nodes")
        tree.here.aggregator.pause()
        head.start()
        assert head.rates() == {}, "after a restart there are none, until they are told"
        tree.here.aggregator.resume()
        seen: list[dict[str, dict[str, float]]] = []

        def is_told() -> bool:
            seen.append(head.rates())
            return seen[-1] != {} and head.totals() == tree.truth("vu")

        tree.step_until(is_told, "the truth, and rates of the present")
        later = told_tick(head) + 3
        tree.step_until(lambda: is_told() and told_tick(head) >= later, "some more calls")
        assert {highest(rates) for rates in seen} == {0}
    finally:
        tree.close()


def highest(rates: dict[str, dict[str, float]]) -> float:
    return max((rate or 0 for of in rates.values() for rate in of.values()), default=0)


def told_tick(head: Head) -> float:
    """Return the tick of which the head was told last."""
    return next(
        sample.value
        for family in text_string_to_metric_families(head.text("/metrics"))
        if family.name == "harvest_relay_last_tick_seconds"
        for sample in family.samples
    )


def sender_rates(tree: Tree) -> dict[str, dict[str, float]]:
    clients = tree.here.get("/api/v1/clients")["clients"]
    return {one["nid"]: one["filesystems"][FILESYSTEM] for one in clients if one["nid"] in nids("vu")}


def nids(cluster: str) -> set[str]:
    return {f"10.1.0.{number}@o2ib" for number in NODES[cluster]}
