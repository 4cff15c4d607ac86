"""/metrics: what the aggregator says about itself."""

from dataclasses import replace

from harvest.v1.stream_pb2 import AgentHealth, ReadCost, SlurmHealth, SlurmJob
from harvest_aggregator.published import AgentStatus, Published, RelayStatus, TargetStatus, Unknown
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.sweeps import ClosedSweep, Place
from unit.aggregator.publishing import BUSY, TICK, client, metrics, published, target

HEALTH = AgentHealth(
    late_microseconds=250_000,
    user_microseconds=30_000,
    kernel_microseconds=90_000,
    resident_bytes=50 << 20,
    spool_bytes=4096,
    spool_limit_bytes=1 << 30,
    spool_sweeps=2,
    lost_sweeps=1,
    merged_sweeps=5,
    problems=["the spool is nearly full"],
)
SOURCE = published(
    {("home", "OST"): {b"1": {}}},
    targets=(
        TargetStatus(
            filesystem="home",
            target="home-OST0000",
            kind="OST",
            server="oss1",
            instance=3,
            last_tick=TICK,
            unread_lines=7,
            unseen_seconds=40,
            ambiguous_resets=2,
            ambiguous_bytes=1000,
            clients=Unknown(unread_lines=1, ambiguous_resets=3, ambiguous_bytes=500, unplaced_reads=4),
            cost=ReadCost(user_microseconds=1000, kernel_microseconds=2000, bytes=77, records=5),
        ),
    ),
    agents=(
        AgentStatus(name="oss1", connected=True, last_tick=TICK, health=HEALTH, clock_offset_seconds=-0.5),
        AgentStatus(name="mds1", connected=False, last_tick=None, health=None, clock_offset_seconds=None),
    ),
    relayed=(
        RelayStatus(
            relay="site",
            filesystem="gdata",
            tick_seconds=TICK,
            period_seconds=60,
            complete=True,
            nodes=40,
            lower_nodes=2,
        ),
    ),
    clusters={
        "vu": ClusterFacts(
            agent="slurm1",
            jobs={1: SlurmJob(id=1)},
            unknown=frozenset({7, 8}),
            health=SlurmHealth(answered_seconds=TICK, queries=9, failed_queries=1, query_microseconds=1_500_000),
        ),
        "xe": ClusterFacts(agent="slurm2", health=SlurmHealth(problem="squeue hung")),
        "dcc": ClusterFacts(agent="slurm3"),
        "nci": ClusterFacts(agent="slurm4", health=SlurmHealth(answered_seconds=TICK)),
    },
)


def lines(source: Published = SOURCE) -> list[str]:
    text, _ = metrics(source).exposition(accept="text/plain")
    return text.decode().splitlines()


def test_targets_say_what_could_not_be_known() -> None:
    of = '{filesystem="home",target="home-OST0000"}'
    assert {
        f"harvest_unseen_seconds_total{of} 40.0",
        f"harvest_ambiguous_resets_total{of} 2.0",
        f"harvest_ambiguous_bytes_total{of} 1000.0",
        f"harvest_unread_lines_total{of} 7.0",
        f"harvest_client_ambiguous_resets_total{of} 3.0",
        f"harvest_client_ambiguous_bytes_total{of} 500.0",
        f"harvest_client_unread_lines_total{of} 1.0",
        f"harvest_client_unplaced_reads_total{of} 4.0",
    } <= set(lines())


def test_clusters_say_how_slurm_is_doing() -> None:
    agents = tuple(
        AgentStatus(name=name, connected=is_here, last_tick=None, health=None, clock_offset_seconds=None)
        for name, is_here in {"slurm1": True, "slurm2": True, "slurm4": False}.items()
    )
    said = set(lines(replace(SOURCE, agents=agents)))
    assert {
        'harvest_slurm_up{cluster="vu"} 1.0',
        'harvest_slurm_up{cluster="xe"} 0.0',
        'harvest_slurm_up{cluster="dcc"} 0.0',
        'harvest_slurm_up{cluster="nci"} 0.0',
        'harvest_slurm_queries_total{cluster="vu"} 9.0',
        'harvest_slurm_query_seconds{cluster="vu"} 1.5',
        'harvest_slurm_unknown_jobs{cluster="vu"} 2.0',
    } <= said
    assert [line for line in said if 'cluster="dcc"' in line] == ['harvest_slurm_up{cluster="dcc"} 0.0']


def test_agents_say_how_they_are_doing() -> None:
    assert {
        'harvest_agent_connected{agent="oss1"} 1.0',
        'harvest_agent_connected{agent="mds1"} 0.0',
        'harvest_agent_connected{agent="sc2"} 0.0',
        'harvest_agent_certificate_end_seconds{agent="oss1"} 1.7000036e+09',
        'harvest_agent_late_seconds{agent="oss1"} 0.25',
        'harvest_agent_spool_sweeps{agent="oss1"} 2.0',
        'harvest_agent_clock_offset_seconds{agent="oss1"} -0.5',
        'harvest_agent_sweep_kernel_seconds{agent="oss1"} 0.09',
    } <= set(lines())
    assert not any(line.startswith('harvest_agent_late_seconds{agent="mds1"}') for line in lines())


def test_relays_say_until_when_they_have_a_certificate() -> None:
    assert 'harvest_relay_certificate_end_seconds{cluster="xe"} 1.7000072e+09' in lines()


def test_an_agent_that_the_site_lists_no_more_is_told_while_it_is_here() -> None:
    gone, here = (
        AgentStatus(name=name, connected=name == "old1", last_tick=TICK, health=None, clock_offset_seconds=None)
        for name in ("old0", "old1")
    )
    said = lines(published({}, agents=(gone, here)))
    assert 'harvest_agent_connected{agent="old1"} 1.0' in said
    assert not any('harvest_agent_connected{agent="old0"}' in line for line in said)


def test_a_target_that_was_expected_and_did_not_report_is_named() -> None:
    missing = frozenset({Place("home", "OST", "home-OST0001")})
    closed = ClosedSweep(tick_seconds=TICK, missing=missing, tables={}, work={})
    targets = tuple(target("home", "OST", f"home-OST000{number}", server="oss1") for number in (0, 1))
    said = lines(Published(tick_seconds=TICK, closed=closed, targets=targets))
    assert 'harvest_target_missing{filesystem="home",target="home-OST0000"} 0.0' in said
    assert 'harvest_target_missing{filesystem="home",target="home-OST0001"} 1.0' in said


def test_sinks_say_how_they_are_doing() -> None:
    assert {
        'harvest_sink_up{sink="gmond"} 0.0',
        'harvest_sink_accepted_total{sink="gmond"} 9.0',
        'harvest_sink_rejected_total{sink="gmond"} 1.0',
        'harvest_sink_dropped_total{sink="gmond"} 2.0',
        'harvest_sink_queued_sweeps{sink="gmond"} 1.0',
        'harvest_sink_last_success_seconds{sink="gmond"} 1.7000000015e+09',
    } <= set(lines())


def test_no_job_has_a_series() -> None:
    assert [line for line in lines(BUSY) if "harvest_table_jobs{" in line] == [
        'harvest_table_jobs{filesystem="home",kind="ost"} 2.0',
        'harvest_table_jobs{filesystem="home",kind="mdt"} 1.0',
        'harvest_table_jobs{filesystem="scratch",kind="ost"} 2.0',
    ]
    assert not any('"11"' in line for line in lines(BUSY))


def test_what_happens_is_counted() -> None:
    counted = metrics(Published())
    counted.kept(seconds=0.02)
    counted.streams.inc()
    counted.batches.inc(5)
    counted.received_bytes.inc(1234)
    counted.refusals.labels("clone").inc()
    late = frozenset({Place("home", "OST", "home-OST0001")})
    counted.sweep_closed(ClosedSweep(tick_seconds=100, missing=late, tables={}, work={}), now_seconds=101.5)
    text, _ = counted.exposition(accept="")
    assert {
        "harvest_streams 1.0",
        "harvest_batches_total 5.0",
        "harvest_received_bytes_total 1234.0",
        'harvest_refusals_total{reason="clone"} 1.0',
        'harvest_refusals_total{reason="denied"} 0.0',
        'harvest_keep_seconds_bucket{le="0.01"} 0.0',
        'harvest_keep_seconds_bucket{le="0.03"} 1.0',
        "harvest_ready 0.0",
        "harvest_interval_seconds 20.0",
        "harvest_certificate_end_seconds 1.7000864e+09",
        "harvest_sweeps_closed_total 1.0",
        "harvest_reports_missing_total 1.0",
        'harvest_sweep_close_seconds_bucket{le="1.0"} 0.0',
        'harvest_sweep_close_seconds_bucket{le="2.0"} 1.0',
        "harvest_ledger_bytes 4096.0",
        "harvest_queued_sweeps 3.0",
        'harvest_build_info{version="1.2.3"} 1.0',
    } <= set(text.decode().splitlines())


def test_the_form_is_the_one_that_is_asked_for() -> None:
    plain = client(SOURCE).get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    asked = client(SOURCE).get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert asked.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert asked.text.endswith("# EOF\n")


def test_servers_and_targets_are_shown_with_the_same_numbers() -> None:
    servers = {one["name"]: one for one in client(SOURCE).get("/api/v1/servers").json()["servers"]}
    assert list(servers) == ["mds1", "oss1", "oss2", "sc1", "sc2"]
    assert servers["oss1"] == {
        "name": "oss1",
        "listed": True,
        "filesystems": ["home"],
        "targets": ["home-OST0000"],
        "connected": True,
        "last_tick_seconds": TICK,
        "clock_offset_seconds": -0.5,
        "late_seconds": 0.25,
        "cpu_seconds": 0.12,
        "resident_bytes": 50 << 20,
        "spool_bytes": 4096,
        "spool_limit_bytes": 1 << 30,
        "spool_sweeps": 2,
        "lost_sweeps": 1,
        "merged_sweeps": 5,
        "needs_full_picture": False,
        "problems": ["the spool is nearly full"],
    }
    assert (servers["sc1"]["connected"], servers["sc1"]["late_seconds"]) == (False, None)
    assert client(SOURCE).get("/api/v1/targets").json() == {
        "tick_seconds": TICK,
        "targets": [
            {
                "name": "home-OST0000",
                "filesystem": "home",
                "kind": "ost",
                "server": "oss1",
                "mount": 3,
                "last_tick_seconds": TICK,
                "missing": False,
                "unread_lines": 7,
                "unplaced_reads": 0,
                "unseen_seconds": 40,
                "ambiguous_resets": 2,
                "ambiguous_bytes": 1000,
                "clients": {"unread_lines": 1, "ambiguous_resets": 3, "ambiguous_bytes": 500, "unplaced_reads": 4},
                "cpu_seconds": 0.003,
                "records": 5,
                "bytes": 77,
            }
        ],
    }
