"""What is in the packages of all releases and machines, as rpm and readelf tell it."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from packing.rpm import RELEASES, Package, all_packages, pack
from support.rpm_root import EPOCH

ROOT = Path(__file__).parents[2]
ALL = pytest.mark.parametrize("package", all_packages(), ids=lambda package: package.file_name)
Packages = Mapping[Package, Path]
ELF_MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}


def asked(*command: str | Path) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def listed(file: Path) -> dict[str, tuple[str, str, str]]:
    """Return mode, owner and group of every path."""
    form = "[%{FILENAMES}\t%{FILEMODES:perms}\t%{FILEUSERNAME}\t%{FILEGROUPNAME}\n]"
    rows = [line.split("\t") for line in asked("rpm", "-qp", "--qf", form, file)]
    return {name: (mode, owner, group) for name, mode, owner, group in rows}


@pytest.fixture(scope="module")
def unpacked(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> dict[Package, Path]:
    """Give the files of every package in a folder."""
    folders = {}
    for package, file in packages.items():
        folders[package] = tmp_path_factory.mktemp(package.file_name)
        unpack = 'rpm2cpio "$1" | (cd "$2" && cpio -idm --quiet)'
        subprocess.run(["sh", "-c", unpack, "-", file, folders[package]], check=True)
    return folders


def site_packages(package: Package, unpacked: Mapping[Package, Path]) -> Path:
    return unpacked[package] / f"usr/lib/harvest-agent/lib/{package.release.python}/site-packages"


def test_there_is_a_package_for_each_release_and_machine(packages: Packages) -> None:
    assert sorted(file.name for file in packages.values()) == sorted(
        f"harvest-agent-0.1.0-1.el{el}.{machine}.rpm" for el in (8, 9, 10) for machine in ("x86_64", "aarch64")
    )
    for package, file in packages.items():
        form = "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{OS} %{PAYLOADCOMPRESSOR}"
        assert asked("rpm", "-qp", "--qf", form, file) == [
            f"harvest-agent 0.1.0 1.el{package.release.number} {package.machine} linux xz"
        ]


@ALL
def test_it_requires_the_distributions_interpreter_and_systemd_alone(package: Package, packages: Packages) -> None:
    python = {8: "/usr/bin/python3.11", 9: "/usr/bin/python3.11", 10: "/usr/bin/python3.12"}[package.release.number]
    required = set(asked("rpm", "-qp", "--requires", packages[package]))
    of_rpm = {line for line in required if line.startswith("rpmlib(")}
    assert required - of_rpm == {python, "systemd", "/bin/sh"}
    known_to_el8 = {"CompressedFileNames", "FileDigests", "PayloadFilesHavePrefix", "PayloadIsXz"}
    assert {line.partition("(")[2].partition(")")[0] for line in of_rpm} <= known_to_el8


@ALL
def test_what_is_inside_is_told_with_its_pinned_version(package: Package, packages: Packages) -> None:
    pins = re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / "requirements/agent.txt").read_text(), re.MULTILINE)
    assert len(pins) > 3
    bundled = {f"bundled(python3dist({name})) = {version}" for name, version in pins}
    provided = asked("rpm", "-qp", "--provides", packages[package])
    assert {line for line in provided if line.startswith("bundled")} == bundled


@ALL
def test_files_have_their_modes_and_owners(package: Package, packages: Packages) -> None:
    files = listed(packages[package])
    assert {name: told for name, told in files.items() if told[1:] != ("root", "root")} == {
        "/etc/harvest": ("drwxr-x---", "root", "harvest-agent"),
        "/etc/harvest/agent.toml": ("-rw-r-----", "root", "harvest-agent"),
        "/var/lib/harvest-agent": ("drwx------", "harvest-agent", "harvest-agent"),
    }
    assert asked("rpm", "-qp", "--configfiles", packages[package]) == ["/etc/harvest/agent.toml"]
    outside = {name: told[0] for name, told in files.items() if not name.startswith(("/usr/lib/harvest-agent", "/etc"))}
    assert outside == {
        "/usr/bin/harvest-agent": "-rwxr-xr-x",
        "/usr/lib/systemd/system/harvest-agent.service": "-rw-r--r--",
        "/usr/lib/sysusers.d/harvest-agent.conf": "-rw-r--r--",
        "/usr/lib/tmpfiles.d/harvest-agent.conf": "-rw-r--r--",
        "/usr/share/doc/harvest-agent": "drwxr-xr-x",
        "/usr/share/doc/harvest-agent/agent.toml": "-rw-r--r--",
        "/usr/share/doc/harvest-agent/bare-metal.md": "-rw-r--r--",
        "/usr/share/licenses/harvest-agent": "drwxr-xr-x",
        "/usr/share/licenses/harvest-agent/LICENSE": "-rw-r--r--",
        "/var/lib/harvest-agent": "drwx------",
    }
    inside = {name: told[0] for name, told in files.items() if name.startswith("/usr/lib/harvest-agent")}
    assert len(inside) > 500
    assert inside.pop("/usr/lib/harvest-agent/bin/python3") == "lrwxrwxrwx"
    programs = {name for name, mode in inside.items() if mode == "-rwxr-xr-x"}
    assert programs == {name for name in inside if name.endswith(".so")}
    assert {mode for name, mode in inside.items() if name not in programs} == {"drwxr-xr-x", "-rw-r--r--"}


@ALL
def test_wheels_are_for_its_python_its_machine_and_no_newer_glibc(
    package: Package, unpacked: Mapping[Package, Path]
) -> None:
    site = site_packages(package, unpacked)
    tags = {
        tag
        for file in site.glob("*.dist-info/WHEEL")
        for tag in re.findall(r"^Tag: (.+)$", file.read_text(), re.MULTILINE)
    }
    minor = int(package.release.python.rpartition(".")[2])
    for tag in tags - {"py3-none-any"}:
        python, abi, platform = tag.split("-")
        assert platform.endswith(f"_{package.machine}")
        assert int(python.removeprefix("cp3")) <= minor if abi == "abi3" else python == abi == f"cp3{minor}"
        glibc = (2, 17) if platform.startswith("manylinux2014") else tuple(map(int, platform.split("_")[1:3]))
        assert glibc <= package.release.glibc
    assert len(tags) > 3


@ALL
def test_no_library_wants_what_its_system_has_not(package: Package, unpacked: Mapping[Package, Path]) -> None:
    libraries = sorted(site_packages(package, unpacked).rglob("*.so"))
    assert {path.name.partition(".")[0] for path in libraries} == {
        *("_cffi_backend", "_message", "_rust", "cygrpc", "libharvest_scan")
    }
    glibc = {8: (2, 28), 9: (2, 34), 10: (2, 39)}[package.release.number]
    assert package.release.glibc == glibc
    for library in libraries:
        told = "\n".join(asked("readelf", "--wide", "--file-header", "--dynamic", "--version-info", library))
        assert ELF_MACHINES[package.machine] in told
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", told)}
        assert versions
        assert max(versions) <= glibc, library.name
        cxx = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBCXX_([0-9.]+)", told)}
        assert max(cxx, default=(0,)) <= (3, 4, 25), library.name  # of EL8's libstdc++
        needed = set(re.findall(r"Shared library: \[(lib[a-z_+]+)", told))
        assert needed <= {"libc", "libm", "libdl", "librt", "libpthread", "libgcc_s", "libstdc++"}


def test_the_same_tree_gives_the_same_bytes(packages: Packages, tmp_path: Path) -> None:
    package = Package(RELEASES[0], "aarch64")
    (file,) = pack(tmp_path, [package], epoch=EPOCH, fresh=True)
    assert file.read_bytes() == packages[package].read_bytes()
    form = "%{BUILDHOST} %{BUILDTIME} [%{FILEMTIMES} ]"
    host, built, *times = asked("rpm", "-qp", "--qf", form, file)[0].split()
    assert (host, built, set(times)) == ("localhost", str(EPOCH), {str(EPOCH)})


@ALL
def test_nothing_inside_tells_where_it_was_made(
    package: Package, packages: Packages, unpacked: Mapping[Package, Path]
) -> None:
    places = [bytes(ROOT), bytes(Path.home() / ".cache"), bytes(packages[package].parent)]
    header = "\n".join(asked("rpm", "-qp", "--xml", packages[package])).encode()
    files = [path for path in unpacked[package].rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 300
    assert not any(place in content for place in places for content in (header, *(file.read_bytes() for file in files)))


def test_rpmlint_finds_nothing_that_has_no_reason(packages: Packages) -> None:
    linter = shutil.which("rpmlint")
    assert linter is not None
    command = ["/usr/bin/python3", linter, "-c", str(ROOT / "agent/packaging/rpmlint.toml")]
    linted = subprocess.run([*command, *packages.values()], capture_output=True, text=True, check=False)
    assert "6 packages and 0 specfiles checked; 0 errors, 0 warnings" in linted.stdout, linted.stdout + linted.stderr
    assert linted.returncode == 0
