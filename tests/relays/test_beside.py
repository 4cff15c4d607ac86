"""A head with a file system of its own: its nodes have both in one gmond, each with the values that its site has."""

from datetime import UTC, datetime
from pathlib import Path

from demo.installation import Installation
from demo.play import CLEANUP_SECONDS, Play, installed
from harvest_pki.folders import CaFolder
from harvest_sim.settings import Settings
from relays.heads import FILESYSTEM, NODES, RANGES, SENDER, Tree
from support.ganglia import Gmond

LOCAL = "home"
METRICS = {f"{name}_{of}" for name in (LOCAL, FILESYSTEM) for of in ("read_bytes", "write_bytes", "oss_ops", "mds_ops")}
INTERVAL = 3
"""Long enough that all three are seen between two sweeps, however slow the machine is."""
SMALL = Settings(
    oss={"oss8": "2.16.1"},
    mds={"mds8": "2.15.8"},
    fsnames=(LOCAL,),
    osts_per_oss=1,
    cleanup_seconds=CLEANUP_SECONDS,
    event_seconds=0,
    linger_seconds=180,
)


def head(folder: Path, gmond: Gmond) -> Installation:
    """Return a head whose own agents read a file system that the same nodes mount."""
    here = installed(folder, SMALL)
    pattern = {"nid": r"10\.1\.0\.(\d)@o2ib", "host": r"vu\1", "address": r"10.2.0.\1"}
    here.write_site(
        {LOCAL: (LOCAL, here.servers)},
        INTERVAL,
        clusters=[{"name": "vu", "nids": [RANGES["vu"]], "hosts": [{"pattern": pattern}]}],
        accepts=[{"name": SENDER, "filesystems": [FILESYSTEM], "lnets": ["o2ib"]}],
        sinks=[{"name": "gmond", "ganglia": {"address": gmond.address, "clusters": ["vu"]}}],
    )
    return here


def rates(here: Installation, filesystem: str) -> dict[str, dict[str, str]]:
    """Return what an aggregator says that the nodes of vu do on a file system, as gmond would have it."""
    found = {}
    for number in NODES["vu"]:
        for one in here.get(f"/api/v1/clients?fs={filesystem}")["clients"]:
            if one["nid"] == f"10.1.0.{number}@o2ib":
                values = one["filesystems"][filesystem].items()
                found[f"vu{number}"] = {
                    f"{filesystem}_{name}": f"{rate:.2f}" for name, rate in values if rate is not None
                }
    return found


def test_nodes_have_the_local_and_the_relayed_file_system_beside_each_other(tmp_path: Path) -> None:
    gmond = Gmond(tmp_path / "gmond", "vu")
    gmond.start()
    here = head(tmp_path / "head", gmond)
    tree = Tree(tmp_path, {}, {"vu": here.grpc_port}, seconds=600.0, interval=INTERVAL)
    CaFolder(here.data / "ca").write_relay(tree.secrets / "relay-vu", SENDER, now=datetime.now(UTC))
    local = Play(here, SMALL, for_seconds=600.0)
    try:
        local.start()
        tree.play.start()

        def is_shown() -> bool:
            """Compare gmond with both sites while nodes work."""
            local.step()
            sites = rates(here, LOCAL), rates(tree.here, FILESYSTEM)
            both = {
                host: {name: text for one in sites for name, text in one.get(host, {}).items()} for host in sites[0]
            }
            shown = gmond.values()
            works = all(any(value != "0.00" for values in one.values() for value in values.values()) for one in sites)
            return works and shown == both and {name for one in shown.values() for name in one} == METRICS

        tree.step_until(is_shown, "in gmond what each of the two sites says")
        assert gmond.hosts() == [(f"vu{number}", f"10.2.0.{number}") for number in NODES["vu"]]
        assert here.get("/readyz")["warnings"] == []
    finally:
        tree.close()
        here.stop()
        local.live.face.close()
        gmond.stop()
