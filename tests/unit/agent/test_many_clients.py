"""Clients by the thousand: nothing of them is lost, and little of each is kept."""

import tracemalloc

from unit.agent.client_files import EPOCH, Followed, Ost

CLIENTS = 3000
COUNTERS = ("read_bytes", "write_bytes", "read", "write", "sync", "create", "statfs", "get_info")
"""What a client that reads and writes shows on a real server."""
MOST_BYTES = 512
"""Of memory, for one client on one target: 160,000 of them are 80 MB of the 256 MB that the service may have."""


def nid(number: int) -> str:
    return f"10.1.{number >> 8}.{number & 255}@o2ib"


def test_each_of_thousands_has_its_own_total_pass_after_pass() -> None:
    followed = Followed()
    for number in range(CLIENTS):
        followed.ost.show(nid(number), start=1 + number, write_bytes=1 + number)
    odd = range(500, CLIENTS, 1000)
    for number in odd:
        followed.ost.print(nid(number), f"snapshot_time {EPOCH}.1 secs.nsecs\nwrite_bytes {number} samples [by\n")
    facts = followed.passed()
    assert [int(place) for place in facts.moved.partial] == sorted(nids_in_order().index(nid(number)) for number in odd)
    followed.account_for(facts)
    for number in range(CLIENTS):
        followed.ost.show(nid(number), start=1 + number, write_bytes=10**12 + number)
    followed.account_for()

    assert {number: followed.total(nid(number)) for number in range(0, CLIENTS, 100)} == {
        number: 10**12 + number for number in range(0, CLIENTS, 100)
    }
    assert followed.clients.unread.count == 0


def nids_in_order() -> list[str]:
    return sorted(nid(number) for number in range(CLIENTS))


def test_a_client_that_has_moved_takes_half_a_kilobyte_until_it_is_told() -> None:
    ost = Ost()
    for number in range(CLIENTS):
        count = 10**9 + number
        times = {"snapshot_time": count, "start_time": EPOCH + number, "elapsed_time": 1}
        head = [f"{name} {seconds}.0 secs.nsecs\n" for name, seconds in times.items()]
        lines = [f"{name} {count} samples [usecs] 1 1 {count}\n" for name in COUNTERS]
        ost.print(nid(number), "".join((*head, *lines)))
    followed = Followed(ost)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        followed.clients.begin(ost.files)
        followed.clients.read_some(followed.clients.left(1.0))
        ost.reads.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / CLIENTS < MOST_BYTES
