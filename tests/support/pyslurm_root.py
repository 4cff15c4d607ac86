"""A Debian in a folder of the cache, with a Slurm that a published pyslurm can talk to; built once, in a few minutes.

pyslurm wants the Slurm of its own version, and no Debian has one that fits: Slurm 26.05 comes nearest to pyslurm 25.11.
Its private structures are assumed to be the same, so what it delivers must be compared with what Slurm's commands say.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = "forky"
PYSLURM = "pyslurm==25.11.2"
_TOOLS = "cython==3.3.1 setuptools==84.2.1 wheel==0.48.0 packaging==26.3"
_CLAIMED = "0x190b00"  # 25.11, so that pyslurm lets itself be built
_COMPAT = Path(__file__).with_name("pyslurm_on_26_05.h")
_PACKAGES = (
    *("ca-certificates", "slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins"),
    *("slurm-wlm-mysql-plugin", "libslurm-dev", "munge", "python3-dev", "python3-venv", "gcc", "libc6-dev"),
)
_BUILD = """
set -eu
has=$(dpkg-query -W -f '${{Version}}' slurmctld)
case $has in
  26.05.*) ;;
  *) echo "Debian {suite} has Slurm $has by now: another pyslurm, or another header than {compat}, is needed"; exit 1 ;;
esac
mkdir -p /build/include/slurm
ln -sf /usr/include/slurm/*.h /build/include/slurm/
rm /build/include/slurm/slurm_version.h
sed 's/^\\(#define SLURM_VERSION_NUMBER\\) .*/\\1 {claimed}/' /usr/include/slurm/slurm_version.h \\
  > /build/include/slurm/slurm_version.h
export SLURM_LIB_DIR=$(dirname "$(ls /usr/lib/*/libslurm.so)") SLURM_INCLUDE_DIR=/build/include
export CFLAGS="-O0 -g0 -include /build/compat.h"
printf '%s\\n' {tools} > /build/tools.txt
python3 -m venv /venv
/venv/bin/pip install --no-deps --no-cache-dir --build-constraint /build/tools.txt {pyslurm}
rm -rf /build /var/cache/apt /var/lib/apt
"""


def pyslurm_root() -> Path:
    """Return the folder, and build it first where it is not there."""
    recipe = hashlib.sha256(
        "\n".join([SUITE, PYSLURM, _TOOLS, _BUILD, _COMPAT.read_text(), *_PACKAGES]).encode()
    ).hexdigest()
    cache = _cache()
    root = cache / f"pyslurm-{recipe[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "pyslurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            begun = root.with_suffix(".begun")
            if begun.exists():
                shutil.rmtree(begun)
            _build(begun)
            begun.rename(root)
    return root


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HARVEST_CACHE") or Path(home) / "harvest")


def _build(root: Path) -> None:
    _say(f"making a Debian {SUITE} with Slurm in {root.parent}, once: some minutes")
    _run(
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        f"--include={','.join(_PACKAGES)}",
        SUITE,
        str(root),
        f"deb {_mirror()} {SUITE} main",
    )
    for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"):  # as pip is used to here
        if Path(file).exists():
            shutil.copyfile(file, f"{root}{file}")
    (root / "build").mkdir()
    shutil.copyfile(_COMPAT, root / "build/compat.h")
    _say(f"building {PYSLURM} in it")
    script = _BUILD.format(suite=SUITE, compat=_COMPAT.name, claimed=_CLAIMED, tools=_TOOLS, pyslurm=PYSLURM)
    _run("/usr/sbin/chroot", str(root), "sh", "-c", script)


def _mirror() -> str:
    """Return where this machine's own Debian comes from."""
    wanted = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Component: main")
    found = subprocess.run(["apt-get", "indextargets", *wanted], capture_output=True, text=True, check=True).stdout
    mirrors = [line for line in found.splitlines() if "security" not in line]
    assert mirrors, f"apt knows no mirror of Debian here, so no Debian {SUITE} can be made for pyslurm"
    return mirrors[0]


def _run(*command: str) -> None:
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert ran.returncode == 0, f"{command[0]} failed:\n{ran.stdout[-4000:]}"


def _say(text: str) -> None:
    print(f"[harvest] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    pyslurm_root()
