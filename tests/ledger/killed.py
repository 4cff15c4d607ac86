"""Killed at any moment, the aggregator loses nothing that it acknowledged, and counts nothing twice."""

import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_site.loading import load
from ledger.histories import SITE, recorded
from ledger.keeper_process import LIMIT_SECONDS, KeeperProcess, Sent, delivery, totals, with_final

Stream = tuple[str, bytes]


def undisturbed(path: Path, sweeps: list[Sent]) -> dict[str, Any]:
    tick = 0
    keeper = Keeper(Ledger(path), load(SITE), now=lambda: tick + 1.0)
    keeper.start()
    for sweep in sweeps:
        taken = delivery(sweep)
        tick = taken.batches[-1][1].tick_seconds
        keeper.accept(taken)
    found: dict[str, Any] = keeper._errand(partial(totals, keeper)).result(LIMIT_SECONDS)  # noqa: SLF001 - in its thread
    keeper.stop()
    return found


def resume(keeper: KeeperProcess, sweeps: list[Sent], acked: dict[Stream, int]) -> list[Sent]:
    """Return what is still to be sent; what was acknowledged must be there."""
    durable: dict[Stream, int] = {}
    for agent in {sweep[0] for sweep in sweeps}:
        incarnations = list(dict.fromkeys(sweep[1] for sweep in sweeps if sweep[0] == agent))
        for incarnation, seq in keeper.ask("resume", (agent, incarnations)).items():
            assert seq >= acked.get((agent, incarnation), 0)
            durable[agent, incarnation] = seq
    return [sweep for sweep in sweeps if sweep[2] > durable[sweep[0], sweep[1]]]


def check_killed(folder: Path, *, seed: int, kills: int) -> None:
    """Let a history be sent to aggregators that die, and compare with one that lives."""
    history = recorded(seed)
    expected = undisturbed(folder / "undisturbed.db", history.sweeps)
    assert expected["done"] == history.done
    rng = Random(seed)
    acked: dict[Stream, int] = {}
    for _ in range(kills):
        with KeeperProcess(folder / "ledger.db", SITE) as keeper:
            left = resume(keeper, history.sweeps, acked)
            chosen = left[: rng.randrange(1, max(len(left) // 2, 2))]
            keeper.deliver(chosen)
            for _ in range(rng.randrange(len(chosen) + 1)):
                (agent, incarnation, seq), error = keeper.answer()
                assert error is None
                acked[agent, incarnation] = max(seq, acked.get((agent, incarnation), 0))
            time.sleep(rng.random() * 0.15)

    with KeeperProcess(folder / "ledger.db", SITE) as keeper:
        left = resume(keeper, history.sweeps, acked)
        keeper.deliver(left)
        assert [keeper.answer()[1] for _ in left] == [None] * len(left)
        found = keeper.ask("totals")
        assert keeper.ask("stop") == "stopped"
    with KeeperProcess(folder / "ledger.db", SITE) as keeper:
        assert keeper.ask("totals") == found
    flagged, at_most = found.pop("flagged"), expected.pop("flagged")
    assert with_final(found) == with_final(expected)
    # in the one that lives hardly a row left: what returns after it left is known to be another life
    assert all(doubt.resets <= at_most[key].resets for key, doubt in flagged.items())
