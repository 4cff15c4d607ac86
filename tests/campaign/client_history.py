"""Plays a plan of clients, and compares with the truth."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import cast

import numpy as np
from typing_extensions import override

from campaign.agents import SimAgent, Sweep
from campaign.book import Totals
from campaign.client_agents import ClientAgent, ClientSweep, show
from campaign.client_plan import NO_START
from campaign.client_world import ClientWorld
from campaign.history import History, Outcome, minus
from campaign.plan import Plan
from campaign.windows import RateKey
from campaign.windows import place as place_of_jobs
from harvest_core.accounting.apply import Work
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_sim.lives import Subject
from harvest_sim.truth import Truth

_NSECS = 10**9
_STEP_NS = 11 * _NSECS // 10
"""By so much a window may be too long where a clock was set."""


class ClientWindows:
    """Which time each published rate of a client is about."""

    def __init__(self, *, is_clock_set_back: bool) -> None:
        self._is_clock_set_back = is_clock_set_back
        """Then a first sight may be older than its start says."""
        self._spans: defaultdict[tuple[int, RateKey], list[tuple[int, int, int]]] = defaultdict(list)
        """(true begin, true end, length in seconds) of all that a rate was made of."""
        self._reads: defaultdict[tuple[str, bytes], list[tuple[int, int]]] = defaultdict(list)
        """When a client's files were told and read, by target."""

    def note(self, sweep: ClientSweep, work: Work, *, is_open: bool) -> None:
        """Write down the windows of what a pass adds to the rates of its tick."""
        if work.mount is None:
            return
        names = list(work.mount.counters)
        for row, column, window in zip(work.row, work.column, work.window_seconds, strict=True) if is_open else ():
            nid = work.mount.jobs[row]
            if window > 0:
                begin_ns = sweep.told_ns - int(window) * _NSECS
                before = [read for told, read in self._reads[sweep.target, nid] if told <= begin_ns + _STEP_NS]
                first_ns = 0 if self._is_clock_set_back else begin_ns - _STEP_NS
                span = (max(before, default=first_ns), sweep.seen[nid].read_ns, int(window))
                self._spans[work.tick_seconds, (sweep.target, nid, *names[column])].append(span)
        for nid, seen in sweep.seen.items():
            self._reads[sweep.target, nid].append((sweep.told_ns, seen.read_ns))

    def wrong(self, published: list[ClosedSweep], truth: Truth) -> list[str]:
        """Return the rates that are negative, or of more than was done since the file was last read."""
        journals: defaultdict[RateKey, list[tuple[int, int, int]]] = defaultdict(list)
        for life in truth.select(Subject.EXPORT):
            for work in life.journal:
                op = life.ops[work.op_index]
                journals[life.scope.target, life.key, op.name, op.unit].append((work.at_ns, work.samples, work.total))
        for journal in journals.values():
            journal.sort()
        found = []
        for sweep in published:
            for key, rate in _rates(sweep).items():
                bound = [0.0, 0.0]
                for begin_ns, end_ns, seconds in self._spans[sweep.tick_seconds, key]:
                    did = journals[key][
                        bisect_left(journals[key], (begin_ns,)) : bisect_right(journals[key], (end_ns + 1,))
                    ]
                    for at in (0, 1):
                        bound[at] += sum(work[at + 1] for work in did) / seconds
                if min(rate) < 0 or any(r > b * (1 + 1e-9) for r, b in zip(rate, bound, strict=True)):
                    found.append(f"tick {sweep.tick_seconds}: {key} {rate} above {bound}")
        return found


def _rates(closed: ClosedSweep) -> dict[RateKey, tuple[float, float]]:
    return {
        (target, table.jobs[row], *table.counters[column]): (
            float(table.sample_rates[row, column]),
            float(table.sum_rates[row, column]),
        )
        for (target, _), table in closed.clients.items()
        for row, column in zip(*np.nonzero((table.sample_rates != 0) | (table.sum_rates != 0)), strict=True)
    }


class ClientHistory(History):
    """One history of clients on its way."""

    world: ClientWorld

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        is_clock_set_back = any(step.what == "clock back" for step in plan.steps)
        self.client_windows = ClientWindows(is_clock_set_back=is_clock_set_back)

    @override
    def _new_world(self, plan: Plan) -> ClientWorld:
        return ClientWorld(plan)

    @property
    def _lost_segments(self) -> bool:
        """Whether what was done in passes that are lost may be in a rate: as of the pass that tells of it first."""
        return any(event == "older segments gone" for event, _ in self.world.events)

    @override
    def _place(self, target: str) -> Place:
        return place_of_jobs(target)._replace(of_clients=True)

    @override
    def _in_order_of_delivery(self) -> list[SimAgent]:
        return self.world.delivery()

    @override
    def _read_until(self, until_ns: int, tick: int) -> None:
        while True:
            agent = cast("ClientAgent", min(self.world.agents.values(), key=lambda agent: agent.due_ns()))
            if agent.due_ns() > until_ns:
                return
            self.world.site.time.advance_to(agent.due_ns())
            is_running = agent.server.is_up and self.world.stopped.get(agent.server.name, 0) < tick
            agent.act(self.world.between_files, bad=self.world.bad_lines, is_running=is_running)

    @override
    def _accept(self, sweep: Sweep) -> None:
        self._recover()
        assert isinstance(sweep, ClientSweep)
        work = self.world.ledger.accept(sweep).work
        show(sweep, self.world.site.truth.lives)
        self.sweeps.report(self._place(sweep.target), work)
        is_open = not sweep.was_accepted and work.tick_seconds > self.closed_tick  # else it was replayed, or late
        self.client_windows.note(sweep, work, is_open=is_open)
        sweep.was_accepted = True

    @override
    def _outcome(self) -> Outcome:
        book = self.world.ledger.clients
        book.note_the_unmoved(self.world.ledger.stays)
        truth: Totals = {}
        for key, amount in self.world.site.truth.shown(Subject.EXPORT).items():
            if key.op != "ping":
                truth[key.kind.name, key.key, key.op, key.unit] = (amount.samples, amount.total)
        version = next((version for version in self.plan.versions if version in NO_START), self.plan.versions[0])
        for event, count in (("invisible clear", len(book.invisible)), ("trace a pass later", book.late_traces)):
            if count:
                self.world.events[event, version] += count
        return Outcome(
            difference=minus(truth, self._total()),
            explained=book.explained(),
            flagged=len(book.flags),
            decisions=book.decisions,
            events=self.world.events,
            rates=[] if self._lost_segments else self.client_windows.wrong(self.published, self.world.site.truth),
            published=self._wrongly_published(),
            untold=[late for agent in self.world.agents.values() for late in cast("ClientAgent", agent).untold],
            details=book.marks,
        )
