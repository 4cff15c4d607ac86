"""What a sweep over the job records costs: the agent, telegraf and ``cat``, in turns over the same files."""

import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.peers import telegraf, telegraf_version
from bench.report import Budget, Measured, say, table
from bench.trees import OPS, OSTS, JobTree
from bench.workers import Worker

_ROUNDS: Mapping[int, int] = {100: 15, 1000: 7, 5000: 5}
"""How often each size is measured; the sizes are jobs on each OST."""
_ALSO_AT = 1000
"""The size at which variants are measured for the record."""
_SHARES: Mapping[str, int] = {"all": 1, "one in five": 5, "none": 0}
"""Which jobs move between sweeps: every n-th."""

_AGENT, _PURE, _TELEGRAF, _GATHER, _CAT = "agent", "agent, pure Python", "telegraf", "telegraf, gather only", "cat"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was measured at one size."""

    records: int
    text_bytes: int
    cpu_seconds: Mapping[tuple[str, str], float]
    """By program and share: the median."""
    rss_mb: Mapping[str, float]

    def ratio(self, program: str, share: str) -> float:
        """Return the CPU time as a part of telegraf's."""
        return self.cpu_seconds[program, share] / self.cpu_seconds[_TELEGRAF, share]

    def per_record_us(self, share: str) -> float:
        """Return the agent's CPU time for each record there is."""
        return self.cpu_seconds[_AGENT, share] / self.records * 1e6


def measure(folder: Path) -> Measured:
    """Measure every size, and hold the result against the budgets."""
    peer = telegraf()
    found = {jobs: _measure(folder / str(jobs), jobs, peer) for jobs in _ROUNDS}
    return Measured(markdown=_markdown(found), budgets=_budgets(found))


def _measure(root: Path, jobs: int, peer: Path) -> _Found:
    say(f"sweeps: {OSTS} OSTs with {jobs} jobs each")
    tree = JobTree(root, jobs)
    with ExitStack() as stack:
        agents = {_AGENT: stack.enter_context(Worker.python("bench.agent_sweeps", root))}
        peers = {_TELEGRAF: stack.enter_context(Worker(peer, root))}
        if jobs == _ALSO_AT:
            agents[_PURE] = stack.enter_context(Worker.python("bench.agent_sweeps", root, "pure"))
            peers[_GATHER] = stack.enter_context(Worker(peer, root, "gather"))
        moved = tree.records

        def agent_costs(worker: Worker) -> float:
            answer = worker.work(records=tree.records, moved=moved, counters=len(OPS) * moved, unread=0, incomplete=0)
            return answer.cpu_seconds

        def peer_costs(worker: Worker) -> float:
            return worker.work(metrics=tree.records).cpu_seconds

        programs: dict[str, Callable[[], float]] = {_CAT: partial(_cat, tree.files)}
        programs |= {name: partial(agent_costs, worker) for name, worker in agents.items()}
        programs |= {name: partial(peer_costs, worker) for name, worker in peers.items()}
        for warm_up in programs.values():
            warm_up()
        costs: dict[tuple[str, str], list[float]] = {}
        for number in range(_ROUNDS[jobs]):
            say(f"  round {number + 1} of {_ROUNDS[jobs]}")
            for share, one_in in _SHARES.items():
                moved = tree.move(one_in)
                for name, cost in programs.items():
                    costs.setdefault((name, share), []).append(cost())
        return _Found(
            records=tree.records,
            text_bytes=tree.size,
            cpu_seconds={key: median(values) for key, values in costs.items()},
            rss_mb={name: worker.peak_rss_mb() for name, worker in (agents | peers).items()},
        )


def _cat(files: Sequence[Path]) -> float:
    """Read the files and do nothing with them: no reader is cheaper."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _budgets(found: Mapping[int, _Found]) -> list[Budget]:
    small, middle, large = (found[jobs] for jobs in _ROUNDS)
    return [
        Budget(what="N = 5000, all moved: CPU ÷ telegraf's", limit=3 / 20, measured=large.ratio(_AGENT, "all")),
        Budget(what="N = 5000, one in five moved", limit=3 / 40, measured=large.ratio(_AGENT, "one in five")),
        Budget(what="N = 5000: peak RSS", limit=128, measured=large.rss_mb[_AGENT], unit=" MB"),
        Budget(what="N = 100, all moved: CPU", limit=30, measured=small.cpu_seconds[_AGENT, "all"] * 1000, unit=" ms"),
        Budget(what="N = 100: peak RSS", limit=60, measured=small.rss_mb[_AGENT], unit=" MB"),
        Budget(
            what="linear: CPU per record at N = 5000 ÷ at N = 1000, all moved",
            limit=1.25,
            measured=large.per_record_us("all") / middle.per_record_us("all"),
        ),
    ]


def _markdown(found: Mapping[int, _Found]) -> str:
    also = found[_ALSO_AT]
    return "\n\n".join(
        (
            f"## Sweeps: {OSTS} OSTs with N jobs each, telegraf {telegraf_version()}",
            table(
                ("moved", "N", "text MB", "cat s", "telegraf s", "agent s", "agent ÷ telegraf", "agent µs/record"),
                (
                    (
                        share,
                        str(jobs),
                        f"{size.text_bytes / 1e6:.1f}",
                        *(f"{size.cpu_seconds[program, share]:.4f}" for program in (_CAT, _TELEGRAF, _AGENT)),
                        f"{size.ratio(_AGENT, share):.3f}",
                        f"{size.per_record_us(share):.2f}",
                    )
                    for share in _SHARES
                    for jobs, size in found.items()
                ),
            ),
            table(
                ("peak RSS, MB", *(f"N = {jobs}" for jobs in found)),
                ((name, *(f"{size.rss_mb[name]:.0f}" for size in found.values())) for name in (_TELEGRAF, _AGENT)),
            ),
            f"For the record, at N = {_ALSO_AT}: the agent not compiled, and telegraf if it wrote nothing.",
            table(
                ("CPU s", *_SHARES, "peak RSS, MB"),
                (
                    (name, *(f"{also.cpu_seconds[name, share]:.3f}" for share in _SHARES), f"{also.rss_mb[name]:.0f}")
                    for name in (_AGENT, _PURE, _TELEGRAF, _GATHER)
                ),
            ),
        )
    )
