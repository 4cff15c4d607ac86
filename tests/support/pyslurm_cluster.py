"""A real Slurm in a Debian of its own, with a pyslurm that talks to it."""

import contextlib
import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.processes import LIMIT_SECONDS
from support.pyslurm_root import pyslurm_root
from support.slurm import SlurmCluster

_TREE = Path(__file__).parents[2]


@dataclass
class PyslurmCluster(SlurmCluster):
    """A cluster whose folder lies in another Debian (``root``), where its daemons and commands run."""

    root: Path = Path("/")
    has_rest: bool = False  # no Debian of today has slurmrestd and its plugins for this Slurm and for us

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self.inside = Path("/") / self.folder.relative_to(self.root)

    @property
    def interpreter(self) -> Path:
        """A Python that has pyslurm and knows this cluster; files of Harvest are where they are here."""
        return self.folder / "python"

    def told(self) -> dict[str, Any]:
        """Return all that pyslurm says of jobs: what the controller has, and the accounting database."""
        program = Path(__file__).with_name("pyslurm_told.py")
        ran = subprocess.run([self.interpreter, program], capture_output=True, timeout=LIMIT_SECONDS, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        said: dict[str, Any] = json.loads(ran.stdout)
        return said

    @override
    def start(self) -> None:
        conf = f"SLURM_CONF={self.inside}/slurm.conf"
        self.interpreter.write_text(
            f'#!/bin/sh\nexec {shlex.join([*self.housing(), "env", conf])} /venv/bin/python "$@"\n'
        )
        self.interpreter.chmod(0o755)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        super().start()

    @override
    def entering(self) -> list[str]:
        return ["/usr/sbin/chroot", str(self.root)]

    @override
    def housing(self) -> list[str]:
        """Slurm's daemons want /proc; what is mounted for them ends with them."""
        place = f"{self.root}{_TREE}"
        mounts = 'mount -t proc proc "$0/proc" && mkdir -p "$1" && mount --bind "$2" "$1"'
        enter = f'{mounts} && root=$0 && shift 2 && exec /usr/sbin/chroot "$root" "$@"'
        return ["unshare", "--mount", "sh", "-c", enter, str(self.root), place, str(_TREE)]


@contextlib.contextmanager
def pyslurm_cluster() -> Iterator[PyslurmCluster]:
    """Run one in the Debian of the cache."""
    root = pyslurm_root()
    (root / "clusters").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=root / "clusters", prefix=""))
    cluster = PyslurmCluster(folder, root=root)
    try:
        cluster.start()
        yield cluster
    finally:
        try:
            cluster.stop()
        finally:
            shutil.rmtree(folder)
