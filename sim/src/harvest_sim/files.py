"""The files of a server: path below its root, and how to read each."""

from collections.abc import Callable, Iterator

from harvest_sim.clock import NSECS, ServerClock
from harvest_sim.exports import Stats
from harvest_sim.ops import Kind
from harvest_sim.places import BOOT_ID, STAT, UPTIME, places, version_text
from harvest_sim.reading import File, job_stats_file, small_file
from harvest_sim.target import MountedTarget
from harvest_sim.text import uuid_text
from harvest_sim.versions import Version, traits


def server_files(
    version: Version, boot_id: str, clock: ServerClock, *, jobid_var: str, jobid_name: str
) -> Iterator[tuple[str, File]]:
    """Yield the files that a server has without any target."""
    root = places(version, Kind.OST).parameters
    # Linux tells its clocks here, not Lustre: how long it is up, and when it booted by the wall clock of now;
    # before the boot's id, as files on disk are written in this order: whoever sees the id must find its clocks
    yield UPTIME, _plain(lambda: b"%.2f 0.00\n" % (clock.boot_ns() / NSECS), lambda: False)
    yield STAT, _plain(lambda: b"btime %d\n" % ((clock.wall_ns() - clock.boot_ns()) // NSECS), lambda: False)
    yield BOOT_ID, _constant(f"{boot_id}\n".encode())
    yield f"{root}/version", _constant(version_text(version))
    yield f"{root}/jobid_var", _constant(f"{jobid_var}\n".encode())
    yield f"{root}/jobid_name", _constant(f"{jobid_name}\n".encode())


def target_files(target: MountedTarget) -> Iterator[tuple[str, File]]:
    """Yield the files of a mounted target."""
    scope = target.scope
    where = places(scope.version, scope.kind)
    own = f"{scope.kind.module}/{scope.target}"

    def is_gone() -> bool:
        return target.jobs.is_gone

    if traits(scope.version).has_instance:
        instance = b"%d\n" % scope.instance
        yield f"{where.target_parameters}/{own}/instance", _plain(lambda: instance, is_gone)
    yield f"{where.job_stats}/{own}/job_stats", job_stats_file(target.jobs)
    stats_name = "stats" if scope.kind is Kind.OST else "md_stats"
    yield f"{where.stats}/{own}/{stats_name}", _stats(target.stats)
    yield (
        f"{where.target_parameters}/{own}/job_cleanup_interval",
        _plain(lambda: b"%d\n" % target.jobs.cleanup_interval_seconds, is_gone),
    )
    yield f"{where.exports}/{own}/exports/clear", _plain(lambda: b"", is_gone)
    for nid, stats in target.exports.stats.items():
        yield from _export_files(f"{where.exports}/{own}/exports/{nid}", stats, target.exports.uuids[nid])


def _export_files(root: str, stats: Stats, uuids: list[str]) -> Iterator[tuple[str, File]]:
    def is_gone() -> bool:
        return stats.life.is_over

    yield f"{root}/stats", _stats(stats)
    yield f"{root}/uuid", _plain(lambda: uuid_text(uuids), is_gone)
    # §3: in 2.16.53-2.17.0 ldlm_stats shows the counters of stats; lock counters are not simulated
    compose = stats.text if stats.features.ldlm_stats_shows_stats else stats.empty_text
    locks = small_file(lambda: (compose(), []), is_gone=is_gone, says_time_of_read=True)
    yield f"{root}/ldlm_stats", locks


def _stats(stats: Stats) -> File:
    return small_file(stats.picture, is_gone=lambda: stats.life.is_over, says_time_of_read=True)


def _plain(compose: Callable[[], bytes], is_gone: Callable[[], bool]) -> File:
    return small_file(lambda: (compose(), []), is_gone=is_gone)


def _constant(text: bytes) -> File:
    return _plain(lambda: text, lambda: False)
