"""A real Slurm on this machine: its controller, its accounting database and four nodes, all on loopback.

Everything lives in one folder, listens on 127.0.0.1 at ports of its own, and is gone after ``stop``. Root is needed, as
for any Slurm whose jobs run as their users; those are users that every Debian has, so nobody is added to the machine.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from support.processes import LIMIT_SECONDS, wait_for
from support.slurm_files import free_ports, slurm_conf, slurmdbd_conf, tokens_conf
from support.slurm_processes import Daemon, Guard, kill_strays

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
class SlurmDaemons:
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
        self._guard = Guard(self.folder, self.env["SLURM_CONF"])
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
                self._wait(node, partial(self._is_idle, node))
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
            last_first.callback(self._guard.dismiss)
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

    def _wait(self, name: str, condition: Callable[[], object]) -> None:
        self.daemons[name].wait_for(condition, seconds=_START_SECONDS)

    def _is_idle(self, node: str) -> bool:
        return self.run("sinfo", "--noheader", "--partition=batch", f"--nodes={node}", "--format=%t") == "idle\n"

    def _start_munged(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        files["log-file"] = "log/munged.log"
        places = [f"--{option}={self.inside}/{file}" for option, file in files.items()]
        self._launch("munged", "munged", "--foreground", "--num-threads=2", *places)
        self._wait("munged", (self.folder / "munge").is_socket)

    def _start_mariadbd(self) -> None:
        data, log = self.folder / "mariadb", self.folder / "log" / "mariadbd"
        scratch = self.folder / "mariadb.scratch"  # in a common one each throws away what others have there
        data.mkdir()
        scratch.mkdir()
        own = ("--no-defaults", "--user=root", f"--datadir={data}", f"--tmpdir={scratch}")
        small = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0")
        with log.open("wb") as file:
            tables = f"create database mysql;\nuse mysql;\n{_SYSTEM_TABLES.read_text()}"
            made = subprocess.run(
                ["mariadbd", *own, *small, "--bootstrap"],
                input=tables.encode(),
                stdout=file,
                stderr=file,
                timeout=_START_SECONDS,
                env=self.env,
                check=False,
            )
        assert made.returncode == 0, log.read_text()[-2000:]
        (self.folder / "init.sql").write_text(_SQL)
        places = (f"--socket={data}/socket", f"--pid-file={data}/pid", f"--init-file={self.folder}/init.sql")
        served = ("--bind-address=127.0.0.1", f"--port={self.ports['mariadbd']}", "--innodb-lock-wait-timeout=900")
        self.daemons["mariadbd"] = Daemon("mariadbd", ["mariadbd", *own, *small, *places, *served], log, self.env)
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

    def run(self, *command: str, user: str = "root", text: str = "") -> str:
        """Run a command as a user; return what it printed, or fail with what it complained of."""
        ran = self._ran(command, user, text)
        assert ran.returncode == 0, f"{' '.join(command)}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def _answers(self, *command: str) -> bool:
        ran = self._ran(command)
        return ran.returncode == 0 and " is DOWN" not in ran.stdout

    def _ran(self, command: Sequence[str], user: str = "root", text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.entering(), *_as(user), *command],
            input=text,
            text=True,
            capture_output=True,
            timeout=LIMIT_SECONDS,
            env=self.env,
            check=False,
        )

    def cancel_all(self) -> None:
        """Cancel every job and wait until none of them has a node."""
        for partition in ("batch", "debug"):
            self.run("scancel", f"--partition={partition}")
        wait_for(lambda: not self.run("squeue", "--noheader"), "nodes without jobs")


def _as(user: str) -> list[str]:
    if user == "root":
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--init-groups", "--"]
