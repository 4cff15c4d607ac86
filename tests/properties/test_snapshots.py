"""A state that is written and read again anywhere on its way is the same state."""

from collections.abc import Iterable

import pytest

from harvest_core.accounting.snapshots import dump, load
from harvest_core.accounting.targets import TargetAccount
from properties.spools import Packet, facts_of, spools


def accounts(packets: Iterable[Packet], *, saved_every: int) -> dict[tuple[str, str], bytes]:
    """Apply reads, writing and reading all states now and then; return what they are in the end."""
    found: dict[str, TargetAccount] = {}
    for number, packet in enumerate(packets, 1):
        facts = facts_of(packet)
        account = found.setdefault(facts.target, TargetAccount())
        account.apply(facts)
        if number % saved_every == 0:
            account.stays = {key: load(dump(stay)) for key, stay in account.stays.items()}
    return {(name, key): dump(stay) for name, account in found.items() for key, stay in account.stays.items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_state_that_is_saved_and_loaded_on_its_way_ends_as_the_same_bytes(seed: int) -> None:
    packets = [packet for spool in spools(seed) for packet in spool]

    assert accounts(packets, saved_every=3) == accounts(packets, saved_every=len(packets) + 1)
