"""A machine to install packages on: a folder with Debian's Python 3.11, systemd's tools and a shell."""

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from packing.base import SUITE, sources
from packing.running import cache_folder, exclusively, run, say

EPOCH = 1_790_000_000
"""The time that packages of tests carry: another one would have them made anew at every commit."""
_PACKAGES = ("base-files", "dash", "coreutils", "util-linux", "procps", "systemd", "python3.11", "libstdc++6", "strace")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    # as in every EL: what is installed is not started before somebody says so
    "usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n",
}
_NOT_NEEDED = ("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/lib/udev", "usr/share/bash-completion")
# ProtectSystem=strict, StateDirectory=, and what else a mount can do
_SERVICE = """
root=$1 lustre=$2 state=$1/var/lib/$3
umask "$4"; ulimit -c "$6"; nice=$5; shift 6
mount --bind "$root" "$root"
mount --rbind "$state" "$state"
mount --bind "$lustre" "$root/lustre"
for each in "$root" "$root/lustre"; do mount -o remount,bind,ro "$each"; done
mount -o remount,bind,rw "$state"
mount -t proc -o ro proc "$root/proc"
exec nice -n "$nice" chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Machine:
    """The folder."""

    root: Path

    def rpm(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run rpm for this machine; its scriptlets see nothing but the folder."""
        return self._run("rpm", "--root", self.root, "--force-debian", *arguments)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the machine, as root."""
        return self._run("chroot", self.root, *command)

    def unit(self) -> "Unit":
        """Return the service that the package has installed."""
        return Unit.read(self.root / "usr/lib/systemd/system/harvest-agent.service")

    def service(self, *command: str, capable: bool = True, **environment: str) -> list[str]:
        """Return what runs a command, or the unit's own, as systemd would: as far as that can be had without it.

        The unit's user, capabilities, limits and priority; all files but those of its state cannot be written to; the
        server's Lustre is what is in the folder `lustre` beside the machine.
        """
        unit = self.unit()
        capabilities = unit.get("CapabilityBoundingSet").lower().replace("cap_", "+").replace(" ", ",")
        ambient = unit.get("AmbientCapabilities").lower().replace("cap_", "+" if capable else "-").replace(" ", ",")
        return [
            *("/usr/bin/unshare", "--mount", "bash", "-euc", _SERVICE, "-", str(self.root), str(self.lustre)),
            *(unit.get("StateDirectory"), unit.get("UMask"), unit.get("Nice"), unit.get("LimitCORE")),
            *("setpriv", f"--reuid={unit.get('User')}", f"--regid={unit.get('Group')}", "--clear-groups"),
            *({"yes": ["--no-new-privs"]}[unit.get("NoNewPrivileges")]),
            *(f"--bounding-set=-all,{capabilities}", f"--inh-caps=-all,{ambient}", f"--ambient-caps=-all,{ambient}"),
            *("env", "-i", *(f"{name}={value}" for name, value in environment.items())),
            *(command or unit.get("ExecStart").split()),
        ]

    @property
    def lustre(self) -> Path:
        """The folder that a service sees as /lustre."""
        return self.root.parent / "lustre"

    @staticmethod
    def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Unit:
    """A unit file."""

    text: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one."""
        return cls(path.read_text())

    def get(self, name: str) -> str:
        """Return the value of a setting that is there once."""
        (value,) = re.findall(rf"^{name}=(.*)$", self.text, re.MULTILINE)
        return str(value)


def machine(folder: Path) -> Machine:
    """Return a new machine, below the folder."""
    made = Machine(folder / "machine")
    run("cp", "-a", _template(), made.root)
    for mount_point in (made.lustre, made.root / "lustre"):
        mount_point.mkdir()
    return made


def _template() -> Path:
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    cache = cache_folder("rpm")
    folder = cache / f"machine-{recipe[:12]}"
    with exclusively(cache):
        if not folder.exists():
            say("making a machine to install packages on, of Debian's")
            begun = folder.with_name(f"{folder.name}.begun")
            shutil.rmtree(begun, ignore_errors=True)
            run(
                *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(_PACKAGES)}"),
                *(SUITE, str(begun), *sources()),
            )
            for name in _NOT_NEEDED:
                shutil.rmtree(begun / name, ignore_errors=True)
            for name, text in _FILES.items():
                (begun / name).parent.mkdir(parents=True, exist_ok=True)
                (begun / name).write_text(text)
            begun.rename(folder)
    return folder
