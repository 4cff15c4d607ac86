"""Real agents as processes, each over a small tree of its own."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from alive.receiver import LIMIT_SECONDS, SERVER_NAME
from harvest_pki.folders import CaFolder
from support.records import job_stats, put, record

OST0 = "proc/fs/lustre/obdfilter/fs-OST0000"


@dataclass
class AgentProcess:
    """An agent on a server ``oss1``, its files below one folder."""

    folder: Path
    ca: CaFolder
    ports: tuple[int, ...]
    environment: Mapping[str, str] | None = None
    spool_bytes: int = 1 << 24
    slurm: str = ""
    """The section of this name; then the server has no Lustre."""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.tls = self.folder / "agent-tls"
        self.issue()
        self.root.mkdir(parents=True)
        if not self.slurm:
            put(self.root, "proc/fs/lustre/version", "lustre: 2.15.8\n")
            put(self.root, f"{OST0}/instance", "7\n")
            self.show(a=1)
        self.config = self.folder / "agent.toml"
        self.config.write_text(
            f'{"".join(map(self.uplink, self.ports))}[lustre]\nroot = "{self.root}"\n'
            f'[spool]\ndirectory = "{self.folder}/spool"\nmax_bytes = {self.spool_bytes}\n{self.slurm}'
        )
        self.start()

    def uplink(self, port: int) -> str:
        return (
            f'[[uplink]]\naddress = "127.0.0.1:{port}"\nserver_name = "{SERVER_NAME}"\nca = "{self.tls}/ca.crt"\n'
            f'cert = "{self.tls}/tls.crt"\nkey = "{self.tls}/tls.key"\n'
        )

    def issue(self) -> None:
        self.ca.write_agent(self.tls, "oss1", now=datetime.now(UTC).replace(microsecond=0))

    def start(self) -> None:
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "harvest_agent", "run", "--config", str(self.config), *self.options],
                stderr=log,
                env=self.environment,
            )

    def show(self, **written: int) -> None:
        draft = put(self.root, "draft", job_stats(*(record(job, written=count) for job, count in written.items())))
        (self.root / OST0).mkdir(parents=True, exist_ok=True)
        draft.replace(self.root / OST0 / "job_stats")

    def stop(self) -> int:
        """End it as systemd would."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_SECONDS)

    def said(self) -> str:
        return (self.folder / "agent.log").read_text()
