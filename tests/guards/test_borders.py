"""What must stay true of the tree itself."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = sorted((ROOT / "core/src").rglob("*.py"))
PURE = {"__future__", "array", "bisect", "collections", "dataclasses", "enum", "functools", "itertools", "math", "re"}
PURE |= {"string", "struct", "typing", "harvest_core"}


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    return listed.stdout.decode().splitlines()


def test_no_top_level_folder_is_a_python_package() -> None:
    """A package ``operator`` in the working directory would shadow Python's own module."""
    assert [path for path in tracked() if re.fullmatch(r"(?!tests|tools)[^/]+/[^/]+\.py", path)] == []


@pytest.mark.parametrize("file", CORE, ids=lambda file: str(file.relative_to(ROOT / "core/src")))
def test_core_imports_nothing_impure(file: Path) -> None:
    allowed = PURE | ({"numpy"} if "accounting" in file.parts else set())
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= allowed


def test_core_calls_no_builtin_that_does_io() -> None:
    calls = {
        node.func.id
        for file in CORE
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls & {"open", "print", "input", "exec", "eval"} == set()


def test_a_fresh_interpreter_loads_nothing_heavy_for_the_agent() -> None:
    """The agent runs on file servers: what it imports is what they pay for."""
    script = "import sys, harvest_agent.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout.split()
    assert {b"numpy", b"grpc", b"pydantic", b"yaml"} & set(loaded) == set()


def test_pins_name_no_index() -> None:
    for path in tracked():
        if path.startswith("requirements/"):
            text = (ROOT / path).read_text()
            assert "://" not in text
            assert "--hash=sha256:" in text


def test_pins_are_what_the_dependencies_give(tmp_path: Path) -> None:
    """Every direct dependency is pinned as pyproject.toml says; resolving anew is `make pins`."""
    del tmp_path
    wanted = set(re.findall(r'^    "([a-z-]+==[^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    pinned = set(re.findall(r"^([a-z-]+==[^ ]+)", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE))
    assert wanted
    assert wanted <= pinned


def test_no_file_names_this_machine_or_a_registry() -> None:
    """Paths and hosts of one machine have no place in the project."""
    words = [f"/{'work'}/", f"/{'root'}/.", f"{'pypi'}.org", f"proxy.{'golang'}.org", f"registry.{'npmjs'}.org"]
    found = []
    for path in tracked():
        full = ROOT / path
        if full.is_file():
            text = full.read_bytes()
            found += [(path, word) for word in words if word.encode() in text]
    assert found == []


def test_the_compiled_scanner_needs_no_new_glibc() -> None:
    """Enterprise Linux 8 has 2.28."""
    library = ROOT / "agent/src/harvest_agent/libharvest_scan.so"
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    assert versions
    assert max((int(major), int(minor)) for major, minor in versions) <= (2, 28)


def test_every_make_target_of_the_contract_is_there() -> None:
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for target in ("test", "check", "bench", "soak"):
        assert re.search(rf"^{target}\b", listed, re.MULTILINE)
    environment = {**os.environ, "MAKEFLAGS": ""}
    pending = subprocess.run(["make", "-s", "rpm"], cwd=ROOT, capture_output=True, env=environment, check=False)
    assert pending.returncode != 0
    assert b"not built yet" in pending.stderr
