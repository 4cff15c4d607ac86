"""Histories of the campaign as what agents would deliver, in order of arrival, and what it must come to."""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from campaign.agents import Sweep
from campaign.history import History
from campaign.plan import make_plan
from harvest.v1.stream_pb2 import Batch
from harvest_core.accounting.totals import JobWork, job_totals
from ledger.keeper_process import Sent

SITE = "filesystems: [{name: fs, servers: [s0, s1]}]"
_OURS = {"aggregator restart", "aggregator restored", "backup", "segments gone"}
"""What happens to the aggregator, and when rows leave it, is for the tests here to decide."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was delivered, and what jobs did by that, by kind of target."""

    sweeps: list[Sent]
    done: dict[str, dict[bytes, JobWork]]


def recorded(seed: int) -> Recorded:
    """Play a history and write down what its agents deliver."""
    plan = make_plan(seed)
    steps = tuple(step for step in plan.steps if step.what not in _OURS)
    history = History(replace(plan, steps=steps, parked_every=0))
    heard: list[Sweep] = []
    accept = history.world.ledger.accept

    def listen(sweep: Sweep) -> Any:  # noqa: ANN401 - what the campaign's own ledger says
        heard.append(sweep)
        return accept(sweep)

    history.world.ledger.accept = listen  # type: ignore[method-assign]
    history.play()
    stays = history.world.ledger.stays
    return Recorded(
        sweeps=[_sent(list(group)) for _, group in groupby(heard, _key)],
        done={
            kind: job_totals(stay for (target, _), stay in stays.items() if kind in target) for kind in ("OST", "MDT")
        },
    )


def _key(sweep: Sweep) -> tuple[str, bytes, int]:
    return sweep.facts.mount.server, sweep.facts.incarnation, sweep.facts.seq


def _sent(reads: list[Sweep]) -> Sent:
    server, incarnation, seq = _key(reads[0])
    tick = reads[0].facts.tick_seconds
    end = Batch(incarnation=incarnation, seq=seq, tick_seconds=tick, period_seconds=20, last_of_sweep=True)
    messages = [message for one in reads for message in one.messages]
    return server, incarnation, seq, [*messages, end.SerializeToString()]
