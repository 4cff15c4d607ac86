"""The installed agent on a server as large as they come, within its unit's limits: nothing is left unread."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from alive.receiver import SERVER_NAME, Receiver, make_ca, serve, wait_for
from bench.exports import CLIENT_BYTES, CLIENTS, roomy
from bench.trees import FSNAME, OSTS, ClientTree, Counted, JobTree
from demo.processes import Program
from harvest.v1.stream_pb2 import StreamResponse
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts
from packing.rpm import RELEASES, Package, pack
from support.cgroups import Limits, limited, size_bytes
from support.rpm_root import EPOCH, Machine, machine

EL9: Final = Package(RELEASES[1], "x86_64")
JOBS: Final = 5000
"""Of each OST."""
INTERVAL_SECONDS: Final = 20
CLIENT_SECONDS: Final = 60
"""Both as at a site that says nothing about them."""
MOVES: Final = ((5, 10), (5, 3), (1, 1))
"""Every how many-th job and client moves, round by round."""
LIMIT_SECONDS: Final = 900
Key = tuple[str, bool]
"""A target, and whether this is about its clients."""


class WantsClients(Receiver):
    """A receiver that also wants to hear of clients."""

    @override
    def welcome(self) -> StreamResponse:
        answer = super().welcome()
        for wanted in answer.welcome.filesystems:
            wanted.clients, wanted.client_interval_seconds = True, CLIENT_SECONDS
        return answer


@dataclass
class Told:
    """What a receiver was told, accounted for as an aggregator does it."""

    receiver: Receiver
    accounts: dict[Key, TargetAccount] = field(default_factory=dict)
    passes: dict[Key, int] = field(default_factory=dict)
    """How often all of it was told."""
    unread: int = 0
    """Lines that were not understood, and reads that did not come to an end."""
    problems: set[str] = field(default_factory=set)
    _taken: int = 0
    _parts: list[Facts] = field(default_factory=list)

    def take(self) -> None:
        """Take in what has come since the last time."""
        while self._taken < len(self.receiver.batches):
            batch = self.receiver.batches[self._taken]
            self._taken += 1
            self.problems.update(batch.end.health.problems)
            if batch.last_of_sweep:
                continue
            self._parts.append(read(batch))
            if batch.last_of_target:
                self._account(joined(self._parts))
                self._parts = []

    def _account(self, facts: Facts) -> None:
        key = (facts.target, facts.clients is not None)
        self.accounts.setdefault(key, TargetAccount()).apply(facts)
        self.passes[key] = self.passes.get(key, 0) + 1
        self.unread += facts.unread_lines + (not facts.complete)

    def counted(self, key: Key) -> Mapping[bytes, Counted]:
        """Return what is known of every job, or client, of a target."""
        stays = self.accounts[key].stays.values() if key in self.accounts else ()
        return {name: work.counters for name, work in job_totals(stays).items()}


@dataclass
class LargeServer:
    """What the server shows, and how much of it was told."""

    clients: ClientTree
    jobs: JobTree
    told: Told
    _sweeps: int = 0

    def is_told(self) -> bool:
        """Tell whether all that the server shows has come, to the last number; that is compared once a sweep."""
        sweeps = len(self.told.receiver.sweeps())
        if sweeps == self._sweeps:
            return False
        self._sweeps = sweeps
        self.told.take()
        return all(
            self.told.counted((f"{FSNAME}-OST{ost:04x}", is_client)) == dict(tree.counted(ost))
            for ost in range(OSTS)
            for is_client, tree in ((True, self.clients), (False, self.jobs))
        )


@pytest.fixture
def server(tmp_path: Path) -> Machine:
    """Give a machine with the agent."""
    made = machine(tmp_path)
    (package,) = pack(tmp_path, [EL9], epoch=EPOCH)
    installed = made.rpm("-i", "--nodeps", package)
    assert installed.returncode == 0, installed.stderr
    return made


def peak_bytes(agent: Program) -> int:
    """Return the most memory that the process ever had, libraries included."""
    (found,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{agent.pid}/status").read_text(), re.MULTILINE)
    return int(found) << 10


@pytest.mark.timeout(2 * LIMIT_SECONDS * len(MOVES))
def test_a_large_server_is_read_whole_within_the_units_memory(server: Machine, tmp_path: Path) -> None:
    """8 OSTs, of each 5000 jobs and 20,000 clients, of which some move, and in the end all."""
    make_ca(tmp_path).write_agent(tmp_path / "agent", "oss1", now=datetime.now(UTC).replace(microsecond=0))
    shutil.copytree(tmp_path / "agent", server.root / "etc/harvest", dirs_exist_ok=True)
    receiver = WantsClients(interval_seconds=INTERVAL_SECONDS, filesystems=(FSNAME,))
    listener, port = serve(receiver, tmp_path / "tls")
    example = (server.root / "usr/share/doc/harvest-agent/agent.toml").read_text()
    config = example.replace("harvest.example:8023", f"127.0.0.1:{port}").replace("main.example.harvest", SERVER_NAME)
    (server.root / "etc/harvest/agent.toml").write_text(f'{config}\n[lustre]\nroot = "/lustre"\n')
    most = size_bytes(server.unit().get("MemoryMax"))
    with roomy(tmp_path, 2 * OSTS * CLIENTS * CLIENT_BYTES) as root, limited(server.unit()) as limits:
        server.lustre.rmdir()
        server.lustre.symlink_to(root)
        clients = ClientTree(root, CLIENTS)
        shown = LargeServer(clients, JobTree(root, JOBS), Told(receiver))
        agent = Program("oss1", limits.command(*server.service()), tmp_path / "agent.log")
        agent.start()
        try:
            wait_for(lambda: len(receiver.sweeps()) > 1, "sweeps", LIMIT_SECONDS)
            report(shown, agent, limits, "sweeps of jobs")
            wait_for(shown.is_told, "everything", LIMIT_SECONDS)
            report(shown, agent, limits, "all is told")
            for jobs, few in MOVES:
                agent.check()
                shown.jobs.move(jobs)
                clients.move(few)
                wait_for(shown.is_told, "what moved", LIMIT_SECONDS)
                report(shown, agent, limits, f"1 of {jobs} jobs and 1 of {few} clients have moved")
            peak = peak_bytes(agent)
        finally:
            code = agent.stop()
            listener.stop(0).wait(10)
        killed = limits.killed

    said = (tmp_path / "agent.log").read_text()
    assert (code, killed) == (0, 0), said
    assert peak < most
    assert shown.told.unread == 0
    assert [problem for problem in shown.told.problems if "read" in problem] == []
    assert min(shown.told.passes.values()) > len(MOVES)
    assert "agent.end waiting=0" in said


def report(shown: LargeServer, agent: Program, limits: Limits, what: str) -> None:
    """Print what it takes, in MiB."""
    charged = ", ".join(f"{name} {size / (1 << 20):.0f}" for name, size in limits.charged_bytes().items())
    sweeps = shown.told.receiver.sweeps()
    print(
        f"\nlarge server: {what} after {len(sweeps)} sweeps: the process had {peak_bytes(agent) / (1 << 20):.0f} MiB "
        f"at most, the group was charged {limits.most_bytes / (1 << 20):.0f} at most; now {charged}"
    )
