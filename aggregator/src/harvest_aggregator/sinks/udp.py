"""Sockets that send datagrams to one place, unicast or multicast."""

import ipaddress
import socket
import struct
from typing import Final

_SEND_SECONDS: Final = 5.0


def connected(endpoint: str, *, ttl: int, interface: str | None, attempt: int) -> socket.socket:
    """Return a socket for ``host:port``; raises OSError.

    It is connected, so that the system tells when nobody listens there. A name is asked for anew each time, as gmond
    may have moved; of several addresses each attempt takes the next.
    """
    host, _, port = endpoint.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = found[attempt % len(found)]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.settimeout(_SEND_SECONDS)
        if ipaddress.ip_address(address[0]).is_multicast:
            set_multicast(opened, ttl, interface)
        opened.connect(address)
    except BaseException:
        opened.close()
        raise
    return opened


def set_multicast(opened: socket.socket, ttl: int, interface: str | None) -> None:
    """Set how far multicast goes, and by which interface."""
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
        if interface is not None:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex(interface))
        return
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
    if interface is not None:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _ipv4_interface(interface))


def _ipv4_interface(interface: str) -> bytes:
    """Return what the system takes for an interface: its address, or no address and its number."""
    try:
        return ipaddress.IPv4Address(interface).packed
    except ValueError:
        return struct.pack("@4s4si", b"", b"", socket.if_nametoindex(interface))
