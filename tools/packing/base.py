"""The lowest layer: Debian's Python with the libraries that it and wheels need; no shell, no package manager."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from packing import layers
from packing.layers import USER, Layer
from packing.running import PackingError, architecture, exclusively, run, say

SUITE = "bookworm"
PYTHON = "python3.11"
_PACKAGES = (
    *("base-files", "netbase", "tzdata", "ca-certificates", "libstdc++6"),  # the last one for wheels: numpy, grpcio
    *(f"{PYTHON}-minimal", f"lib{PYTHON}-stdlib"),
)
_NOT_NEEDED = ("debconf", "dpkg", "mawk", "openssl", "readline-common", "tar")  # apt insists on them
_NOT_NEEDED_FOLDERS = (
    *("boot", "dev", "home", "media", "mnt", "opt", "root", "sbin", "srv", "usr/games", "usr/include", "usr/sbin"),
    *("etc/alternatives", "etc/apt", "etc/cron.daily", "etc/dpkg", "etc/logrotate.d", "etc/update-motd.d"),
    *("usr/share/gcc", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/src", "var"),
)
# Packages are unpacked, not installed; scanners are told what is inside in the file where they look for it.
_HOOK = """
for deb in "$1"/var/cache/apt/archives/*.deb; do
  case $(dpkg-deb -f "$deb" Package) in
    {not_needed}) dpkg-deb --fsys-tarfile "$deb" | tar -t | tac | (cd "$1"; xargs rm -df) 2>/dev/null || true ;;
    *) dpkg-deb -f "$deb"; printf 'Status: install ok installed\\n\\n' ;;
  esac
done > "$1/packages"
"""
_FILES = {
    "etc/passwd": f"root:x:0:0::/:/\nharvest:x:{USER}:{USER}::/:/\n",
    "etc/group": f"root:x:0:\nharvest:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hostname": "",
    "etc/resolv.conf": "",
}
_LINKS = {
    "usr/bin/python3": PYTHON,
    "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt",  # where Debian's OpenSSL looks for it
}


@dataclass(frozen=True)
class Base:
    """The layer, and its content for work on the layers above it."""

    layer: Layer
    root: Path

    def compile(self, folder: Path, path: str) -> None:
        """Compile the Python files under a path of a folder for ever: the image's root cannot be written to."""
        libraries = next((self.root / "usr/lib").glob("*-linux-gnu"))
        loader = next((self.root / "lib").glob("*-linux-gnu/ld-linux-*"))  # its own libc: nothing of this machine's
        run(
            *(loader, "--library-path", f"{self.root}/lib/{libraries.name}:{libraries}"),
            *(self.root / "usr/bin" / PYTHON, "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", folder, "-p", "/", folder / path),
            environment={"PYTHONHOME": str(self.root / "usr"), "PYTHONHASHSEED": "0"},
        )


def base(cache: Path, *, fresh: bool = False) -> Base:
    """Return the base, and make it first where it is not in the cache, or where today's packages are wanted."""
    recipe = hashlib.sha256(Path(__file__).read_bytes() + architecture().encode()).hexdigest()
    folder = cache / f"base-{recipe[:12]}"
    with exclusively(cache):
        if fresh or not folder.exists():
            say(f"making the images' base of Debian {SUITE}'s packages")
            begun = folder.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            _unpack(begun / "root")
            made = Base(Layer(begun / "layer.tar", "", 0), begun / "root")
            made.compile(made.root, f"usr/lib/{PYTHON}")
            layers.written(made.root, made.layer.path)
            shutil.rmtree(folder, ignore_errors=True)
            begun.rename(folder)
    return Base(layers.found(folder / "layer.tar"), folder / "root")


def _unpack(root: Path) -> None:
    run(
        *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(_PACKAGES)}"),
        f"--extract-hook={_HOOK.format(not_needed='|'.join(_NOT_NEEDED))}",
        *(SUITE, str(root), *sources()),
    )
    for folder in (*(root / name for name in _NOT_NEEDED_FOLDERS), *root.glob("usr/lib/*/gconv")):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (root / "usr/share/doc").glob("*/*"):
        if file.name != "copyright":
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
    for name in ("dev", "etc/ssl/certs", "usr/lib/ssl", "var/lib/dpkg", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    (root / "packages").rename(root / "var/lib/dpkg/status")
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(file.read_bytes() for file in authorities))


def sources() -> list[str]:
    """Return where this machine's own Debian comes from, security updates included, for the images' Debian."""
    wanted = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Component: main")
    places = sorted(set(run("apt-get", "indextargets", *wanted).split()))
    if not places:
        raise PackingError("apt knows no mirror of Debian here, and the images' base is made of Debian's packages.")
    suites = [f"{SUITE}-security" if "security" in place else SUITE for place in places]
    return [f"deb {place} {suite} main" for place, suite in zip(places, suites, strict=True)]
