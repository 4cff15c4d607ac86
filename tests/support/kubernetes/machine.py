"""A machine within this one, for a node: processes, mounts and network of its own, all of which go when it does.

Whatever runs in it ends with it, however it ends: it is the first process of its own process namespace. Of its network
one end of a cable is outside, in 198.18.0.0/15, which is set aside for tests; of its mounts nothing is. What programs
write to the places that they insist on (``/run``, ``/var/lib``, ``/var/log``) stays inside, and so do settings of the
kernel that a kubelet would change for all of this machine: it is shown the values that it wants.
"""

import ipaddress
import os
import random
import signal
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support.processes import wait_for

_START_SECONDS: Final = 60.0
_LINKS: Final = ipaddress.IPv4Network("198.18.0.0/15")
_WANTED_SETTINGS: Final = {
    "kernel.keys.root_maxbytes": 25000000,
    "kernel.keys.root_maxkeys": 1000000,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
}
_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
_INIT: Final = """
set -eu
mount -t tmpfs -o mode=755 harvest "$1"
for folder in /var/lib /var/log; do
  mkdir -p "$1/over$folder" "$1/work$folder"
  mount -t overlay -o "lowerdir=$folder,upperdir=$1/over$folder,workdir=$1/work$folder" harvest $folder
done
mount -t tmpfs -o mode=755 harvest /run
for wanted in "$2"/*; do
  setting=/proc/sys/$(basename "$wanted" | tr . /)
  if [ -e "$setting" ]; then mount --bind "$wanted" "$setting"; fi
done
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
echo up
while :; do sleep 3600 & wait $!; done # also for those whom others left behind
"""


@dataclass
class Machine:
    """One such machine; ``state`` is a folder of it that is in memory, and seen inside only."""

    folder: Path
    name: str = field(default_factory=lambda: f"hv{uuid.uuid4().hex[:8]}")
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.outside, self.inside = map(str, random.choice(list(_LINKS.subnets(new_prefix=30))).hosts())
        self.cgroup = f"/{self.name}"

    def start(self) -> None:
        """Start it, with nothing in it yet."""
        self.state.mkdir()
        settings = self.folder / "settings"
        settings.mkdir()
        for name, value in _WANTED_SETTINGS.items():
            (settings / name).write_text(f"{value}\n")
        namespaces = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
        with (self.folder / "machine.log").open("wb") as log:
            self._unshare = subprocess.Popen(
                [*_WITH_US, "unshare", *namespaces, "bash", "-c", _INIT, "-", self.state, settings],
                stdout=log,
                stderr=log,
            )
        wait_for(self._is_up, "the machine", seconds=_START_SECONDS)
        self._init = _child(self._unshare.pid)
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self._init))
        run("ip", "address", "add", f"{self.outside}/30", "dev", self.name)
        run("ip", "link", "set", self.name, "up")
        self.run("ip", "address", "add", f"{self.inside}/30", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", "default", "via", self.outside)

    def run(self, *command: str) -> str:
        """Run a command inside, and return what it said."""
        return run(*self._within(command))

    def seen(self, path: str) -> Path:
        """Return where a path of it is, seen from outside."""
        return Path(f"/proc/{self._init}/root{path}")

    def start_program(self, name: str, *command: str) -> None:
        """Start a program inside, also again after it was ended."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(self._within(command), stdout=log, stderr=log)

    def end_program(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a program, and wait for its end."""
        process = self.processes[name]
        os.kill(_child(process.pid), how)
        process.wait(_START_SECONDS)
        del self.processes[name]

    def check(self) -> None:
        """Fail if a program has ended by itself, with what it said."""
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended:\n{(self.folder / f'{name}.log').read_text()[-3000:]}"

    def stop(self) -> None:
        """End it: the kernel ends all that is in it."""
        self._unshare.kill()
        for process in (self._unshare, *self.processes.values()):
            process.wait(_START_SECONDS)
        wait_for(lambda: not Path(f"/sys/class/net/{self.name}").exists(), "the end of the machine's network")
        for root in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")):  # version 2, version 1
            _remove_cgroup(root / self.name)

    def _within(self, command: Sequence[str]) -> list[str]:
        return ["nsenter", "--target", str(self._init), "--all", "--", *command]

    def _is_up(self) -> bool:
        said = (self.folder / "machine.log").read_text()
        assert self._unshare.poll() is None, f"the machine ended:\n{said}"
        return said == "up\n"


def run(*command: str) -> str:
    """Run a command that must succeed; return what it printed."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def _child(pid: int) -> int:
    """Return the process that another one forks; that may be about to happen."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_for(children.read_text, "a child")
    return int(children.read_text())


def _remove_cgroup(folder: Path) -> None:
    if folder.exists():
        for path in sorted((path for path in folder.rglob("*/")), reverse=True):
            path.rmdir()
        folder.rmdir()
