"""When each alert is to fire: series of a value a minute, the last minute of silence, and who is named after it.

A series ``1x5 0x9`` is 1 in the minutes 0 to 5, and 0 in the next ten. Beside what is wrong there is mostly
something that nearly is.
"""

from dataclasses import dataclass
from typing import Final

Labels = dict[str, str]
SCRAPED: Final = {"job": "harvest", "instance": "a:8024"}
"""Prometheus' own labels of one aggregator."""


@dataclass(frozen=True, slots=True)
class Case:
    """One reason for which an alert fires."""

    alert: str
    reason: str
    quiet: int
    fires: int
    fired: tuple[Labels, ...]
    """The labels of all alerts of this name that fire then."""
    series: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.alert}: {self.reason}"


def series(metric: str, **labels: str) -> str:
    """Return the name of a series."""
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{pairs}}}"


def of(metric: str, **labels: str) -> str:
    """Return the name of a series of one aggregator."""
    return series(metric, **{**SCRAPED, **labels})


OST0: Final = {"filesystem": "home", "target": "home-OST0000"}
OST1: Final = {"filesystem": "home", "target": "home-OST0001"}

_COUNTED: Final = {
    "HarvestUnreadLines": (
        "harvest_unread_lines_total",
        "harvest_client_unread_lines_total",
        "harvest_unplaced_reads_total",
        "harvest_client_unplaced_reads_total",
    ),
    "HarvestUnseenWork": ("harvest_unseen_seconds_total",),
    "HarvestAmbiguousWork": ("harvest_ambiguous_resets_total", "harvest_client_ambiguous_resets_total"),
}
"""Alerts about targets whose counters grow; that they are not 0 is no reason."""

CASES: Final = (
    Case(
        "HarvestAggregatorGone",
        "one of two",
        15,
        16,
        ({"job": "harvest"},),
        {
            of("harvest_build_info", version="1"): "1x10 stale",
            of("harvest_build_info", version="1", job="harvest-2", instance="b:8024"): "1x30",
        },
    ),
    Case("HarvestAggregatorGone", "none is scraped", 4, 5, ({},), {of("harvest_ready"): "1x30"}),
    Case("HarvestNotReady", "", 10, 11, (SCRAPED,), {of("harvest_ready"): "1x5 0x30"}),
    Case(
        "HarvestSweepsStopped",
        "none is closed any more",
        17,
        18,
        (SCRAPED,),
        {
            of("harvest_interval_seconds"): "20x30",
            of("harvest_last_tick_seconds"): "0+60x10 600x30",
            of("harvest_interval_seconds", instance="slow"): "600x30",
            of("harvest_last_tick_seconds", instance="slow"): "0+60x10 600x30",
        },
    ),
    Case("HarvestSweepsStopped", "none was ever closed", 4, 5, (SCRAPED,), {of("harvest_interval_seconds"): "20x30"}),
    Case(
        "HarvestLedgerSlow",
        "transactions take long",
        10,
        12,
        (SCRAPED,),
        {
            of("harvest_keep_seconds_bucket", le="1"): "0x60",
            of("harvest_keep_seconds_bucket", le="3"): "0+1x60",
            of("harvest_keep_seconds_bucket", le="10"): "0+12x60",
            of("harvest_keep_seconds_bucket", le="+Inf"): "0+12x60",
            of("harvest_keep_seconds_bucket", le="1", instance="well"): "0+9x60",
            of("harvest_keep_seconds_bucket", le="3", instance="well"): "0+11x60",
            of("harvest_keep_seconds_bucket", le="10", instance="well"): "0+12x60",
            of("harvest_keep_seconds_bucket", le="+Inf", instance="well"): "0+12x60",
        },
    ),
    Case(
        "HarvestLedgerSlow",
        "no time is left",
        18,
        21,
        (SCRAPED,),
        {
            of("harvest_keep_seconds_sum"): "0+57x60",
            of("harvest_keep_seconds_sum", instance="well"): "0+48x60",
        },
    ),
    Case(
        "HarvestCertificateEnds",
        "an agent's",
        20,
        21,
        ({**SCRAPED, "agent": "oss1"},),
        {
            of("harvest_agent_certificate_end_seconds", agent="oss1"): f"{7 * 86400 + 600}x60",
            of("harvest_agent_certificate_end_seconds", agent="oss2"): f"{8 * 86400}x60",
        },
    ),
    Case(
        "HarvestCertificateEnds",
        "a relay's",
        20,
        21,
        ({**SCRAPED, "cluster": "xe"},),
        {
            of("harvest_relay_certificate_end_seconds", cluster="xe"): f"{7 * 86400 + 600}x60",
            of("harvest_relay_certificate_end_seconds", cluster="vu"): f"{8 * 86400}x60",
        },
    ),
    Case(
        "HarvestCertificateEnds",
        "the aggregator's",
        20,
        21,
        (SCRAPED,),
        {of("harvest_certificate_end_seconds"): f"{7 * 86400 + 600}x60"},
    ),
    Case(
        "HarvestAgentsRefused",
        "",
        8,
        12,
        ({**SCRAPED, "reason": "clone"},),
        {
            of("harvest_refusals_total", reason="clone"): "0x5 0+1x30",
            of("harvest_refusals_total", reason="denied"): "7x5 8x30",
            of("harvest_refusals_total", reason="not_ready"): "0+9x60",
        },
    ),
    Case(
        "HarvestAgentSilent",
        "",
        10,
        11,
        ({**SCRAPED, "agent": "oss2"},),
        {
            of("harvest_agent_connected", agent="oss1"): "1x5 0x3 1x30",
            of("harvest_agent_connected", agent="oss2"): "1x5 0x30",
        },
    ),
    Case(
        "HarvestSpoolGrowing",
        "sweeps wait",
        25,
        28,
        ({**SCRAPED, "agent": "oss2"},),
        {
            of("harvest_agent_spool_sweeps", agent="oss1"): "900-10x60",
            of("harvest_agent_spool_sweeps", agent="oss2"): "1x10 2+3x50",
            of(
                "harvest_agent_spool_sweeps", agent="oss3"
            ): "1 2 1 2 1 3 1 2 1 2 1 3 1 4 1 2 1 3 1 4 1 2 3 1 4 1 3 1 4 1",
        },
    ),
    Case(
        "HarvestSpoolGrowing",
        "sweeps are merged",
        10,
        11,
        ({**SCRAPED, "agent": "oss2"},),
        {
            of("harvest_agent_merged_sweeps_total", agent="oss1"): "4x60",
            of("harvest_agent_merged_sweeps_total", agent="oss2"): "0x5 3x30",
        },
    ),
    Case(
        "HarvestSweepsLost",
        "now",
        10,
        11,
        ({**SCRAPED, "agent": "oss2"},),
        {of("harvest_agent_lost_sweeps_total", agent="oss2"): "0x10 2x30"},
    ),
    Case(
        "HarvestSweepsLost",
        "while nobody heard of it",
        19,
        20,
        ({**SCRAPED, "agent": "oss2"},),
        {
            of("harvest_agent_lost_sweeps_total", agent="oss1"): "3x60",
            of("harvest_agent_lost_sweeps_total", agent="oss2"): "_x20 3x30",
        },
    ),
    Case(
        "HarvestSweepIncomplete",
        "",
        20,
        21,
        ({**SCRAPED, **OST1},),
        {
            of("harvest_target_missing", **OST0): "0 1 1 0 0 1 0 1 0 0 1 0 1 0 0 1 1 0 0 1 0 0 1 0 1",
            of("harvest_target_missing", **OST1): "0x10 1x30",
        },
    ),
    Case(
        "HarvestClockOff",
        "",
        15,
        16,
        ({**SCRAPED, "agent": "oss2"},),
        {
            of("harvest_agent_clock_offset_seconds", agent="oss1"): "9x30",
            of("harvest_agent_clock_offset_seconds", agent="oss2"): "0x5 -12x30",
        },
    ),
    *(
        Case(
            alert,
            metric,
            10,
            11,
            ({**SCRAPED, **OST1},),
            {of(metric, **OST0): "7x60", of(metric, **OST1): "7x10 9x50"},
        )
        for alert, counted in _COUNTED.items()
        for metric in counted
    ),
    Case(
        "HarvestSlurmDown",
        "its agent says so",
        15,
        16,
        ({**SCRAPED, "cluster": "xe"},),
        {
            of("harvest_slurm_up", cluster="vu"): "1x5 0x8 1x30",
            of("harvest_slurm_up", cluster="xe"): "1x5 0x30",
        },
    ),
    Case(
        "HarvestSlurmDown",
        "its agent says nothing",
        45,
        46,
        ({**SCRAPED, "cluster": "xe"},),
        {
            of("harvest_slurm_up", cluster="xe"): "1x60",
            of("harvest_slurm_answered_seconds", cluster="vu"): "0+60x60",
            of("harvest_slurm_answered_seconds", cluster="xe"): "0+60x5 300x60",
        },
    ),
    Case(
        "HarvestSinkInTrouble",
        "it says so",
        15,
        16,
        ({**SCRAPED, "sink": "gmond"},),
        {
            of("harvest_sink_up", sink="gmond"): "1x5 0x30",
            of("harvest_sink_up", sink="influx"): "1x5 0x8 1x30",
        },
    ),
    *(
        Case(
            "HarvestSinkInTrouble",
            metric,
            15,
            16,
            ({**SCRAPED, "sink": "gmond"},),
            {of(metric, sink="gmond"): "4x5 5x30", of(metric, sink="influx"): "4x60"},
        )
        for metric in ("harvest_sink_rejected_total", "harvest_sink_dropped_total")
    ),
    Case(
        "HarvestUserOverloadsMdt",
        "",
        10,
        11,
        ({"user": "ann", "target": "home-MDT0000"}, {"user": "carol", "target": "home-MDT0002"}),
        {
            of("harvest_target_operations_total", fs="home", component="mdt", target="home-MDT0000"): "0+900000x60",
            of("harvest_target_operations_total", fs="home", component="mdt", target="home-MDT0001"): "0+2400000x60",
            of("harvest_target_operations_total", fs="home", component="mdt", target="home-MDT0002"): "0+800000x60",
            of("cluster_job_metadata_operations", account="a", user="ann", target="home-MDT0000"): "9000x5 11000x30",
            of("cluster_job_metadata_operations", account="a", user="bob", target="home-MDT0001"): "15000x30",
            of("cluster_job_metadata_operations", account="a", user="other", target="home-MDT0000"): "12000x30",
            of("cluster_job_metadata_operations", account="b", user="carol", target="home-MDT0002"): "0x5 6000x30",
            of(
                "cluster_proc_metadata_operations",
                proc_name="find",
                group_name="staff",
                user_name="carol",
                target="home-MDT0002",
            ): "5000x60",
        },
    ),
)
