"""A real Slurm on this machine: its controller, its accounting database and four nodes, all on loopback.

Everything lives in one folder, listens on 127.0.0.1 at ports of its own, and is gone after ``stop``. Root is needed, as
for any Slurm whose jobs run as their users; those are users that every Debian has, so nobody is added to the machine.
"""

import contextlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.processes import LIMIT_SECONDS, wait_for
from support.slurm_files import free_ports, slurm_conf, slurmdbd_conf, tokens_conf
from support.slurm_processes import Daemon, kill_strays

ACCOUNTS = {"physics": ("games", "news"), "chemistry": ("news", "backup"), "climate": ("www-data",)}
"""Who may use what; the first account of a user is the default."""
NODES = ("n1", "n2", "n3", "n4")
_OF_SLURM = ("SLURM", "SQUEUE", "SACCT", "SBATCH", "SINFO")
_START_SECONDS = 90.0
_SYSTEM_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")
_SQL = """create database if not exists slurm;
create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm';
grant all on slurm.* to 'slurm'@'127.0.0.1';
"""


@dataclass
class SlurmCluster:
    """One cluster, called ``name``; ``min_job_age`` is how long its controller remembers a finished job."""

    folder: Path
    name: str = "harvest"
    min_job_age: int = 600
    has_rest: bool = True
    daemons: dict[str, Daemon] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        assert os.geteuid() == 0, "a real Slurm runs jobs as their users: its tests need root"
        names = ("mariadbd", "slurmdbd", "slurmctld", *NODES)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.inside = self.folder
        """The folder as the daemons see it."""

    # --- where it is

    @property
    def env(self) -> dict[str, str]:
        """What a command needs to find this cluster; ``squeue`` and others need nothing else."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_OF_SLURM)}
        return {**kept, "SLURM_CONF": f"{self.inside}/slurm.conf", "PATH": f"{kept['PATH']}:/usr/sbin"}

    @property
    def rest_socket(self) -> Path:
        """Where slurmrestd answers root, and ``nobody``, as whom it runs."""
        return self.folder / "rest" / "local"

    @property
    def rest_jwt_socket(self) -> Path:
        """Where slurmrestd answers whoever has a ``token``."""
        return self.folder / "rest" / "jwt"

    def entering(self) -> list[str]:
        """Return what stands before a command so that it runs where the daemons do."""
        return []

    def housing(self) -> list[str]:
        """Return what stands before a daemon."""
        return []

    # --- its life

    def start(self) -> None:
        for part in ("", "state", "jobs", "rest", "log", *(f"spool.{node}" for node in NODES)):
            (self.folder / part).mkdir(exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "jobs").chmod(0o1777)
        shutil.chown(self.folder / "rest", "nobody")
        for name, size in (("munge.key", 1024), ("jwt.key", 32)):
            (self.folder / name).write_bytes(os.urandom(size))
            (self.folder / name).chmod(0o400)
        self._configure()
        (self.folder / "slurmdbd.conf").write_text(slurmdbd_conf(self.inside, self.ports, self._tokens()))
        (self.folder / "slurmdbd.conf").chmod(0o600)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.stop)
            self._start_munged()
            self._start_mariadbd()
            self.start_database()
            self.start_controller()
            for node in NODES:
                self._launch(node, "slurmd", "-D", "-N", node)
            for node in NODES:
                self._wait(
                    node, lambda node=node: self.run("sinfo", "-h", "-p", "batch", "-n", node, "-o", "%t") == "idle\n"
                )
            if self.has_rest:
                self._start_rest(self.rest_socket, "local")
                self._start_rest(self.rest_jwt_socket, "jwt")
            on_failure.pop_all()

    def stop(self) -> None:
        """End jobs and daemons, those last that others lean on; leave no process."""
        if "slurmctld" in self.daemons and self.daemons["slurmctld"].alive():
            self.daemons["slurmctld"].send(signal.SIGCONT)
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):  # it may be what is broken
                self.cancel_all()
        with contextlib.ExitStack() as last_first:
            last_first.callback(kill_strays, self.folder, self.env["SLURM_CONF"])
            for name in ("munged", "mariadbd", "slurmdbd", "slurmctld", *NODES, "slurmrestd.local", "slurmrestd.jwt"):
                if name in self.daemons:
                    last_first.callback(self.daemons.pop(name).stop)

    def _configure(self) -> None:
        text = slurm_conf(self.inside, self.name, self.ports, NODES, self.min_job_age, self._tokens())
        (self.folder / "slurm.conf").write_text(text)

    def _tokens(self) -> str:
        return tokens_conf(self.inside) if self.has_rest else ""

    def _launch(self, name: str, program: str, *arguments: str, user: str = "root", **env: str) -> None:
        command = [*self.housing(), *_as(user), program, *arguments]
        self.daemons[name] = Daemon(name, command, self.folder / "log" / name, {**self.env, **env})

    def _wait(self, name: str, condition: Any) -> None:  # noqa: ANN401
        self.daemons[name].wait_for(condition, seconds=_START_SECONDS)

    def _start_munged(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        files["log-file"] = "log/munged.log"
        places = [f"--{option}={self.inside}/{file}" for option, file in files.items()]
        self._launch("munged", "munged", "--foreground", "--num-threads=2", *places)
        self._wait("munged", (self.folder / "munge").is_socket)

    def _start_mariadbd(self) -> None:
        data = self.folder / "mariadb"
        common = ("--no-defaults", "--user=root", f"--datadir={data}")
        small = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0")
        tables = f"create database mysql;\nuse mysql;\n{_SYSTEM_TABLES.read_text()}"
        data.mkdir()
        bootstrap = ["mariadbd", *common, "--bootstrap", *small]
        subprocess.run(bootstrap, input=tables, text=True, check=True, capture_output=True, env=self.env)
        (self.folder / "init.sql").write_text(_SQL)
        places = (f"--socket={data}/socket", f"--pid-file={data}/pid", f"--init-file={self.folder}/init.sql")
        own = ("--bind-address=127.0.0.1", f"--port={self.ports['mariadbd']}", "--innodb-lock-wait-timeout=900")
        command = ["mariadbd", *common, *places, *own, *small]
        self.daemons["mariadbd"] = Daemon("mariadbd", command, self.folder / "log" / "mariadbd", self.env)
        self._wait("mariadbd", (data / "socket").is_socket)

    def start_database(self) -> None:
        """Start slurmdbd, also again after ``stop_database``."""
        self._launch("slurmdbd", "slurmdbd", "-D")
        self._wait("slurmdbd", lambda: self._answers("sacctmgr", "-n", "show", "cluster"))
        if self.name in self.run("sacctmgr", "-n", "show", "cluster", "format=cluster%40").split():
            return
        add = ("sacctmgr", "-i", "-Q", "add")
        self.run(*add, "cluster", self.name)
        for account, users in ACCOUNTS.items():
            self.run(*add, "account", account)
            self.run(*add, "user", ",".join(users), f"account={account}")

    def stop_database(self) -> None:
        self.daemons.pop("slurmdbd").stop()

    def start_controller(self) -> None:
        """Start slurmctld, also again after ``stop_controller``: it remembers its jobs."""
        self._launch("slurmctld", "slurmctld", "-D", "-i")
        self._wait("slurmctld", lambda: self._answers("scontrol", "ping"))

    def stop_controller(self) -> None:
        self.daemons.pop("slurmctld").stop()

    def _start_rest(self, socket: Path, kind: str) -> None:
        plugins = ("-s", "openapi/v0.0.38,openapi/dbv0.0.38", "-a", f"rest_auth/{kind}")
        env = {"SLURM_JWT": "daemon"} if kind == "jwt" else {}
        self._launch(f"slurmrestd.{kind}", "slurmrestd", *plugins, f"unix:{socket}", user="nobody", **env)
        self._wait(f"slurmrestd.{kind}", socket.is_socket)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Let slurmctld hang: connections are taken, no question is answered."""
        self.daemons["slurmctld"].send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemons["slurmctld"].send(signal.SIGCONT)

    def forget_finished_jobs_after(self, seconds: int) -> None:
        """Set MinJobAge."""
        self.min_job_age = seconds
        self._configure()
        self.run("scontrol", "reconfigure")

    # --- commands

    def run(self, *command: str, user: str = "root", text: str | None = None) -> str:
        """Run a command as a user; return what it printed, or fail with what it complained of."""
        ran = self._ran(command, user, text)
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def _answers(self, *command: str) -> bool:
        ran = self._ran(command, "root", None)
        return ran.returncode == 0 and " is DOWN" not in ran.stdout

    def _ran(self, command: Sequence[str], user: str, text: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.entering(), *_as(user), *command],
            input=text if text is not None else "",
            text=True,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            env=self.env,
            check=False,
        )

    def submit(
        self,
        script: str,
        *options: str,
        user: str = "games",
        account: str | None = None,
        array: str | None = None,
        het: Sequence[Sequence[str]] = (),
    ) -> int:
        """Submit a shell script; return the job's number: the array's, or that of a het job's leader.

        ``het`` has the options of each further component.
        """
        own = [f"--account={account}"] if account else []
        own += [f"--array={array}"] if array else []
        further = [part for component in het for part in (":", *own, *component)]
        command = ("sbatch", "--parsable", "--chdir", f"{self.inside}/jobs", *own, *options, *further)
        return int(self.run(*command, user=user, text=f"#!/bin/sh\n{script}\n"))

    def cancel(self, job: int | str, *options: str) -> None:
        self.run("scancel", *options, str(job))

    def cancel_all(self) -> None:
        """Cancel every job and wait until none of them has a node."""
        for partition in ("batch", "debug"):
            self.run("scancel", f"--partition={partition}")
        wait_for(lambda: not self.run("squeue", "--noheader"), "nodes without jobs")

    def suspend(self, job: int | str) -> None:
        self.run("scontrol", "suspend", str(job))

    def resume(self, job: int | str) -> None:
        self.run("scontrol", "resume", str(job))

    def hold(self, job: int | str) -> None:
        self.run("scontrol", "hold", str(job))

    def release(self, job: int | str) -> None:
        self.run("scontrol", "release", str(job))

    def requeue(self, job: int | str) -> None:
        """Let a job begin again from its start, under its number: soon, not after Slurm's two minutes.

        Not at once: nodes refuse a job's credential of the second in which they heard that its last run is over.
        """
        self.run("scontrol", "requeue", str(job))
        wait_for(lambda: self.state(job) == "PENDING", f"job {job} to wait again")
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def state(self, job: int | str) -> str | None:
        """Return the controller's word for a job, a task (``7_1``) or a component (``7+1``); none: it knows no such."""
        ran = self._ran(["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"], "root", None)
        assert ran.returncode == 0 or "Invalid job id" in ran.stderr, ran.stderr
        return "+".join(dict.fromkeys(ran.stdout.split())) or None

    def wait_for(self, job: int | str, state: str | None) -> None:
        """Wait until a job is in a state; all tasks of an array are."""
        seen: list[str | None] = []

        def there() -> bool:
            seen[:] = [self.state(job)]
            return seen == [state]

        try:
            wait_for(there, f"job {job} to be {state}", seconds=60)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {seen[0]}") from None

    def squeue(self) -> list[dict[str, Any]]:
        """Return all jobs that the controller knows."""
        jobs: list[dict[str, Any]] = json.loads(self.run("squeue", "--all", "--states=all", "--json"))["jobs"]
        return jobs

    def sacct(self, job: int) -> list[dict[str, Any]]:
        """Return a job's records of the accounting database, every run of it."""
        jobs: list[dict[str, Any]] = json.loads(self.run("sacct", "-D", "-j", str(job), "--json"))["jobs"]
        return jobs

    def token(self, user: str) -> str:
        """Return a JWT that stands for a user."""
        return self.run("scontrol", "token", f"username={user}").strip().removeprefix("SLURM_JWT=")

    def rest(self, path: str) -> dict[str, Any]:
        """Ask slurmrestd as root."""
        return self._rest(self.rest_socket, path, {})

    def rest_as(self, user: str, token: str, path: str) -> dict[str, Any]:
        """Ask slurmrestd with a JWT."""
        return self._rest(self.rest_jwt_socket, path, {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token})

    def _rest(self, socket: Path, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        asked = _UnixConnection(socket)
        try:
            asked.request("GET", path, headers=headers)
            response = asked.getresponse()
            said = response.read()
        finally:
            asked.close()
        assert response.status == 200, said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def questions(self) -> Mapping[str, int]:
        """Return how often the controller was asked for what; ``REQUEST_JOB_INFO`` is the whole table.

        Waiting and asking for a job's state (above) count as ``REQUEST_JOB_INFO_SINGLE``.
        """
        said = self.run("sdiag").partition("by message type")[2].partition("by user")[0]
        return {name: int(count) for name, count in re.findall(r"(\w+) +\( *\d+\) count:(\d+)", said)}


def _as(user: str) -> list[str]:
    return (
        []
        if user == "root"
        else ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--init-groups", "--"]
    )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LIMIT_SECONDS)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Run a cluster in a folder that its users can see, which those of tests are not."""
    folder = Path(tempfile.mkdtemp(prefix="harvest-slurm-"))
    cluster = SlurmCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)
