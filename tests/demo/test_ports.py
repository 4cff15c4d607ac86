"""Ports that are chosen before somebody listens there: nobody else may get them meanwhile."""

from pathlib import Path

from demo.processes import free_port


def test_no_port_comes_twice_nor_is_one_that_the_system_gives_away() -> None:
    lowest_by_chance = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(200)]

    assert len(set(ports)) == len(ports)
    assert max(ports) < lowest_by_chance
