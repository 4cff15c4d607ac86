"""``make rpm``: the agent's packages for servers, made on Debian of pinned wheels for other distributions' Python."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path

from packing.programs import build_wheels, members, project_of
from packing.running import ROOT, cache_folder, exclusively, run, say
from packing.wheels import install

SOURCES = ROOT / "agent/packaging"
HOME = "usr/lib/harvest-agent"
"""A virtual environment: of the system's Python it has the interpreter and the standard library, and nothing else."""
MACHINES = ("x86_64", "aarch64")
_SCRIPT = f"""#!/{HOME}/bin/python3 -I
import sys
from {{module}} import {{function}}
sys.exit({{function}}())
"""
_COPIED = {
    "agent/packaging/harvest-agent.service": "usr/lib/systemd/system/harvest-agent.service",
    "agent/packaging/sysusers.conf": "usr/lib/sysusers.d/harvest-agent.conf",
    "agent/packaging/tmpfiles.conf": "usr/lib/tmpfiles.d/harvest-agent.conf",
    "agent/packaging/agent.toml": "usr/share/doc/harvest-agent/agent.toml",
    "docs/how-to/bare-metal.md": "usr/share/doc/harvest-agent/bare-metal.md",
    "LICENSE": "usr/share/licenses/harvest-agent/LICENSE",
}
_KEPT = 24
"""So many packages stay in the cache: those of some trees."""
_EMPTY = ("etc/harvest", "var/lib/harvest-agent")


@dataclass(frozen=True)
class Release:
    """An Enterprise Linux: RHEL, Rocky, Alma and others of that number."""

    number: int
    python: str
    """The oldest of its interpreters that the agent runs with: servers of Lustre are held at early minor releases."""
    glibc: tuple[int, int]

    @property
    def interpreter(self) -> str:
        """Return the interpreter's path, which is the same whatever the package is called that has it."""
        return f"/usr/bin/{self.python}"


RELEASES = (
    Release(8, "python3.11", (2, 28)),
    Release(9, "python3.11", (2, 34)),
    Release(10, "python3.12", (2, 39)),
)


@dataclass(frozen=True)
class Package:
    """One of the agent's packages."""

    release: Release
    machine: str
    version: str = field(default_factory=lambda: str(project_of("agent")["version"]))

    @property
    def file_name(self) -> str:
        """Return what its file is called."""
        return f"harvest-agent-{self.version}-1.el{self.release.number}.{self.machine}.rpm"


def all_packages() -> list[Package]:
    """Return those that there are for every release and machine."""
    return [Package(release, machine) for release in RELEASES for machine in MACHINES]


def pack(target: Path, packages: Iterable[Package], *, epoch: int, fresh: bool = False) -> list[Path]:
    """Write packages into a folder; `fresh` makes them anew where the cache has the very same ones."""
    cache = cache_folder("rpm")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder, exclusively(cache):
        build_wheels(Path(folder) / "wheels")
        files = []
        for package in packages:
            made = _made(package, cache=cache, work=Path(folder), epoch=epoch, fresh=fresh)
            files.append(Path(shutil.copyfile(made, target / package.file_name)))
        for old in sorted(cache.glob("*.rpm"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink()
    return files


def _made(package: Package, *, cache: Path, work: Path, epoch: int, fresh: bool) -> Path:
    stage = work / package.file_name.removesuffix(".rpm")
    _lay_out(stage, package, cache=cache, wheels=work / "wheels")
    spec = _spec(stage, package)
    known = cache / f"{_digest(stage, spec, epoch)[:16]}.rpm"
    if fresh or not known.exists():
        say(f"making {package.file_name}")
        _build(stage, spec, package.machine, epoch=epoch, into=known)
    known.touch()
    shutil.rmtree(stage)
    return known


def _lay_out(stage: Path, package: Package, *, cache: Path, wheels: Path) -> None:
    """Put every file of a package where it will be."""
    release, machine = package.release, package.machine
    home = stage / HOME
    site = home / "lib" / release.python / "site-packages"
    shutil.copytree(_dependencies(release.python, machine, cache), site)
    ours = [f"harvest-{member}" for member in members("agent")]
    install(site, "--no-index", "--find-links", str(wheels), *ours, python=release.python, machine=machine)
    compile_scanner(site / "harvest_agent/libharvest_scan.so", machine)
    for module in [path for path in site.rglob("*.py") if path.parent.name != "__pycache__"]:
        compiled = module.parent / f"__pycache__/{module.stem}.cpython-{release.python[6:].replace('.', '')}.pyc"
        compiled.parent.mkdir(exist_ok=True)
        compiled.touch()  # its name belongs to the package; it is written where it is installed
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(f"../../..{release.interpreter.removeprefix('/usr')}")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    ((name, entry),) = project_of("agent")["scripts"].items()
    module_name, _, function = entry.partition(":")
    (stage / "usr/bin").mkdir(parents=True)
    (stage / "usr/bin" / name).write_text(_SCRIPT.format(module=module_name, function=function))
    for source, path in _COPIED.items():
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, stage / path)
    for path in _EMPTY:
        (stage / path).mkdir(parents=True)
    (stage / "etc/harvest/agent.toml").touch()  # likewise a name: the administrator's


def _dependencies(python: str, machine: str, cache: Path) -> Path:
    """Return a folder with the pinned wheels, which is made only when the pins or the recipe change."""
    pins = ROOT / "requirements/agent.txt"
    recipe = pins.read_bytes() + (ROOT / "tools/packing/wheels.py").read_bytes()
    folder = cache / f"{python}-{machine}-{hashlib.sha256(recipe).hexdigest()[:12]}"
    if not folder.exists():
        say(f"getting what the agent needs for {python} on {machine}")
        begun = folder.with_name(f"{folder.name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        install(begun, "--require-hashes", "-r", str(pins), python=python, machine=machine)
        begun.rename(folder)
    return folder


def compile_scanner(library: Path, machine: str) -> None:
    """Compile the agent's hot loop for a machine, with Debian's (cross) compiler for it."""
    run(
        *(f"{machine}-linux-gnu-gcc", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"),
        *("-fstack-protector-strong", "-s", "-Wl,-z,relro,-z,now", "-o", library, "agent/native/scan.c"),
    )


def _spec(stage: Path, package: Package) -> str:
    values = {
        "version": package.version,
        "el": str(package.release.number),
        "interpreter": package.release.interpreter,
        "bundled": "\n".join(f"Provides:       bundled(python3dist({name})) = {at}" for name, at in _bundled(stage)),
        "sysusers": (SOURCES / "sysusers.conf").read_text().strip(),
        "venv": "\n".join(_files(stage)),
        "stage": "%{stage}",
    }
    text = (SOURCES / "harvest-agent.spec.in").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _bundled(stage: Path) -> Iterator[tuple[str, str]]:
    """Name what is inside that is not ours: scanners look for it in a package's provides."""
    for metadata in sorted((stage / HOME).rglob("*.dist-info/METADATA")):
        told = HeaderParser().parsestr(metadata.read_text())
        name = str(told["Name"]).lower().replace("_", "-")
        if not name.startswith("harvest-"):
            yield name, str(told["Version"])


def _files(stage: Path) -> Iterator[str]:
    """List the virtual environment for the spec, in order, with modes that do not depend on who made it."""
    for path in sorted([stage / HOME, *(stage / HOME).rglob("*")]):
        name = f"/{path.relative_to(stage)}"
        if path.is_symlink():
            yield name
        elif path.is_dir():
            yield f"%dir %attr(0755,root,root) {name}"
        elif path.suffix == ".pyc":
            yield f"%ghost %attr(0644,root,root) {name}"
        else:
            yield f"%attr({'0755' if path.suffix == '.so' else '0644'},root,root) {name}"


def _digest(stage: Path, spec: str, epoch: int) -> str:
    """Return what tells a package from all others: whatever goes into it, and what makes it."""
    tools = run("rpmbuild", "--version")
    digest = hashlib.sha256(f"{epoch}\n{tools}\n{spec}\n".encode() + Path(__file__).read_bytes())
    for path in sorted(stage.rglob("*")):
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(stage)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _build(stage: Path, spec: str, machine: str, *, epoch: int, into: Path) -> None:
    for path in sorted(stage.rglob("*")):
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    with tempfile.TemporaryDirectory(dir=stage.parent) as folder:
        (Path(folder) / "harvest-agent.spec").write_text(spec)
        macros: Mapping[str, str] = {
            "_topdir": folder,
            "stage": str(stage),
            "_buildhost": "localhost",
            "use_source_date_epoch_as_buildtime": "1",
            "clamp_mtime_to_source_date_epoch": "1",
            "source_date_epoch_from_changelog": "0",
            "_binary_payload": "w1.xzdio",  # EL8's rpm can read it; 6 makes it a tenth smaller, in five times the time
            "_binary_filedigest_algorithm": "8",
            "_build_name_fmt": "harvest-agent.rpm",
        }
        defines = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
        run(
            *("rpmbuild", "-bb", "--quiet", "--target", f"{machine}-linux", *defines),
            Path(folder) / "harvest-agent.spec",
            environment={"SOURCE_DATE_EPOCH": str(epoch), "HOME": folder, "LC_ALL": "C"},  # no macros of a person
        )
        (Path(folder) / "RPMS/harvest-agent.rpm").rename(into)


def release_time() -> int:
    """Return the time that packages carry: SOURCE_DATE_EPOCH, else that of the tree's last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(given) if given.isdecimal() else int(run("git", "log", "-1", "--format=%ct"))
