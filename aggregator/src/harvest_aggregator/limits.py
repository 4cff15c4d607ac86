"""What strangers and agents may use of us at most, and how long anybody is waited for."""

import gc
import resource
from typing import Final

MESSAGE_BYTES_MAX: Final = (4 << 20) + (64 << 10)
"""A batch of 4 MiB, and what goes around it."""
HELLO_SECONDS: Final = 10.0
"""From the start of a stream to its Hello."""
STALL_SECONDS: Final = 30.0
"""Between two batches of one sweep."""
SWEEP_BYTES_MAX: Final = 128 << 20
"""One agent's sweep: two million moved records."""
HELD_BYTES: Final = 32 << 20
"""Of all streams together, not durable yet; above it only the sweep that began first is read on. In memory it is at
least twice as much: as it came, and as a message."""
PENDING_BYTES: Final = 16 << 20
"""Of one stream, in whole sweeps that wait for the delivery before them."""
RELAY_BYTES_MAX: Final = 40 << 20
"""One picture that a relay tells: 262,144 nodes."""
RELAYS_AT_ONCE: Final = 2
"""So many pictures are read at the same time; the others wait."""
CONNECTIONS_MAX: Final = 8192
"""An idle one costs 20 KB until its handshake must be done."""
_HANDSHAKE_MILLISECONDS: Final = 10_000  # gRPC's own limit is two minutes
_KEEPALIVE_MILLISECONDS: Final = 20_000
_IDLE_MILLISECONDS: Final = 60_000

SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.so_reuseport", 0),  # two aggregators on one port would share its agents between them
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.bdp_probe", 0),  # it lets agents send megabytes ahead of what was asked for
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", 4),  # of one connection; an agent needs one, and a second while it restarts
    ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
    ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),  # connected without a stream
    ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_MILLISECONDS // 2),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MILLISECONDS // 4),
)

_WHOLE_SEARCHES: Final = 1000
"""Every so many searches for garbage among what is young, all there is may be searched."""


def allow_open_files() -> None:
    """Use all the file handles that we may have: the usual 1024 are fewer than a large site's agents."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def search_garbage_rarely() -> None:
    """Search all memory for garbage less often: millions of names that stay are walked through each time."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _WHOLE_SEARCHES)
