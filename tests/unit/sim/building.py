"""Small sites for the simulator's tests."""

import re
from random import Random

from harvest_sim.site import Site
from harvest_sim.target import MountedTarget
from harvest_sim.versions import Traits, Version, traits

OST = "fs-OST0000"
MDT = "fs-MDT0000"


def traits_of(text: str) -> Traits:
    """Return the traits of a version given as text."""
    return traits(Version.parse(text))


def lone_target(version: str, *, target: str = OST, cleanup_seconds: int = 600) -> tuple[Site, MountedTarget]:
    """Return a site of one server with one target."""
    site = Site(Random(1))
    site.add_server("oss1", version)
    site.add_target(target, ["oss1"], cleanup_interval_seconds=cleanup_seconds)
    return site, site.mounted(target)


def partners(version: str, other_version: str | None = None) -> Site:
    """Return a site of two servers that share one OST."""
    site = Site(Random(1))
    site.add_server("oss1", version)
    site.add_server("oss2", other_version or version)
    site.add_target(OST, ["oss1", "oss2"])
    return site


def path_of(site: Site, server: str, ending: str) -> str:
    """Return the path of the one file that ends so."""
    [path] = [path for path in site.files(server) if path.endswith(ending)]
    return path


def text_of(site: Site, server: str, ending: str) -> bytes:
    """Read one file of a server whole."""
    return site.files(server)[path_of(site, server, ending)].read()


def ids_in(text: bytes) -> list[bytes]:
    """Return the ids of a job_stats text in the order of the file."""
    return re.findall(rb"^- job_id: {10}(.*)$", text, re.MULTILINE)
