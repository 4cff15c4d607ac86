"""Wheels in images: what is pinned for a program, installed for the image's Python."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from packing import layers
from packing.base import PYTHON, Base
from packing.layers import Layer
from packing.running import ROOT, architecture, exclusively, run, say, uv

SITE_PACKAGES = f"usr/local/lib/{PYTHON}/dist-packages"


def dependencies(member: str, base: Base, cache: Path) -> Layer:
    """Return the layer of pinned wheels, which is made only when the pins or this recipe change."""
    pins = ROOT / f"requirements/{member}.txt"
    recipe = hashlib.sha256(pins.read_bytes() + Path(__file__).read_bytes() + architecture().encode()).hexdigest()
    target = cache / f"{member}-{recipe[:12]}.tar"
    with exclusively(cache):
        if not target.exists():
            say(f"making the layer of what the {member} needs")
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                install(Path(folder) / SITE_PACKAGES, "--require-hashes", "-r", str(pins))
                base.compile(Path(folder), SITE_PACKAGES)
                layers.written(Path(folder), target)
    return layers.found(target)


def install(site: Path, *what: str, python: str = PYTHON, machine: str | None = None) -> None:
    """Install wheels for the Python of a machine, without what only pip, compilers or tests would want."""
    machine = machine or {"amd64": "x86_64", "arm64": "aarch64"}[architecture()]
    run(
        *(uv(), "pip", "install", "-q", "--target", site, "--link-mode", "copy", "--no-deps", "--only-binary", ":all:"),
        *("--python-version", python.removeprefix("python"), "--python-platform", f"{machine}-manylinux_2_28", *what),
    )
    shutil.rmtree(site / "bin", ignore_errors=True)  # scripts that name an interpreter of this machine
    unwanted = [site / ".lock"]
    for pattern in ("RECORD", "uv_cache.json"):  # hashes of such scripts, times
        unwanted += site.glob(f"*.dist-info/{pattern}")
    for pattern in ("tests", "include", "__pycache__", "*.a", "*.c", "*.h", "*.pyx", "*.pxd"):
        unwanted += site.rglob(pattern)
    for path in unwanted:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
