"""What must stay true of the tree itself."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = sorted((ROOT / "core/src").rglob("*.py"))
PURE = {"__future__", "array", "bisect", "collections", "dataclasses", "enum", "functools", "itertools", "math", "re"}
PURE |= {"json", "string", "struct", "typing", "weakref", "zlib", "harvest_core"}


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    return listed.stdout.decode().splitlines()


def test_the_names_that_outsiders_rely_on_are_there() -> None:
    files = tracked()
    assert {"pyproject.toml", "kind-config.yaml"} <= set(files)
    assert {"operator", "proto", "agent", "charts", "tests"} <= {
        path.partition("/")[0] for path in files if "/" in path
    }


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


def imported_by(file: Path) -> set[str]:
    return {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(file.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }


def test_the_cli_needs_nothing_but_rich() -> None:
    """People install it on login nodes and laptops. What bundles and tokens need is an extra, loaded with them."""
    files = {file.stem: imported_by(file) - set(sys.stdlib_module_names) for file in (ROOT / "cli/src").rglob("*.py")}
    assert [name for name, found in files.items() if "kubernetes" in found] == ["kube"]
    extra = {"kube", "bundles", "bundling", "relay_bundles", "signing_requests", "tokens"}
    assert set().union(*(found for name, found in files.items() if name not in extra)) == {"rich", "harvest_cli"}
    script = "import sys; from harvest_cli.__main__ import main; main(['completion', 'bash']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout.split()
    assert {b"kubernetes", b"cryptography", b"pydantic", b"harvest_cli.kube"} & set(loaded) == set()


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
    script = "import sys, harvest_agent.running; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout.split()
    assert {b"numpy", b"cryptography", b"kubernetes"} & set(loaded) == set()


def test_pins_name_no_index() -> None:
    for path in tracked():
        if path.startswith("requirements/"):
            text = (ROOT / path).read_text()
            assert "://" not in text
            assert "--hash=sha256:" in text


def test_pins_are_what_the_dependencies_give() -> None:
    """Every direct dependency is pinned as pyproject.toml says; resolving anew is `make pins`."""
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
    built = set(re.findall(r"^([a-z]+) ", listed, re.MULTILINE))
    assert built >= {"test", "check", "bench", "soak", "demo", "campaign", "mutants", "cluster", "images", "rpm"}


@pytest.fixture
def workbench(tmp_path: Path) -> Path:
    """Copy what the tools read, with commands of our own in bin: uv only in the cache, no sudo, a gcc that works."""
    for path in ("tools", "requirements", "agent/native", "agent/pyproject.toml"):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / path, target) if (ROOT / path).is_dir() else shutil.copy(ROOT / path, target)
    for name in ("bash", "cat", "cut", "dirname", "env", "grep", "mkdir", "sha256sum", "touch"):
        program(tmp_path, name, f'exec {shutil.which(name)} "$@"')
    program(tmp_path, "python3", f'exec {sys.executable} "$@"')
    for name in ("apt-get", "gcc", "git"):
        program(tmp_path, name, "exit 0")
    program(tmp_path, "id", "echo 1000")
    version = re.search(r"^uv_version=(.*)$", (ROOT / "tools/uv.sh").read_text(), re.MULTILINE)
    assert version
    program(
        tmp_path,
        f"../cache/uv-{version[1]}/bin/uv",
        'echo "uv $*"; mkdir -p .venv/bin; cat /dev/null >.venv/bin/python',
    )
    return tmp_path


def program(workbench: Path, name: str, script: str) -> None:
    file = workbench / "bin" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!{shutil.which('bash')}\n{script}\n")
    file.chmod(0o755)


def run_tool(workbench: Path, tool: str, **environment: str) -> tuple[int, str]:
    environment = {"PATH": str(workbench / "bin"), "HARVEST_CACHE": str(workbench / "cache")} | environment
    ran = subprocess.run(
        [workbench / "tools" / tool],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return ran.returncode, ran.stdout.decode()


def test_pins_are_made_with_the_uv_of_the_cache(workbench: Path) -> None:
    code, text = run_tool(workbench, "pin.sh")
    assert (code, text[:15]) == (0, "uv pip compile ")


def test_bootstrap_needs_no_home_and_works_once(workbench: Path) -> None:
    code, text = run_tool(workbench, "bootstrap.sh")
    assert (code, text.count("uv venv")) == (0, 1), text
    (workbench / ".venv/bin/python").chmod(0o755)
    assert "uv venv" not in run_tool(workbench, "bootstrap.sh")[1]


def test_bootstrap_makes_the_environment_again_for_another_python(workbench: Path) -> None:
    run_tool(workbench, "bootstrap.sh")
    (workbench / ".venv/bin/python").chmod(0o755)
    program(workbench, "python3", f'case $2 in *sys.version,*) echo 3.99;; *) exec {sys.executable} "$@";; esac')
    assert "uv venv" in run_tool(workbench, "bootstrap.sh")[1]
    (workbench / ".venv/bin/python").unlink()
    assert "uv venv" in run_tool(workbench, "bootstrap.sh")[1]


def test_without_a_home_bootstrap_asks_where_to_keep_downloads(workbench: Path) -> None:
    code, text = run_tool(workbench, "bootstrap.sh", HARVEST_CACHE="")
    assert code == 1
    assert "HOME is not set. Say HARVEST_CACHE=DIR" in text


def test_a_gcc_without_headers_is_told_with_the_command_that_mends_it(workbench: Path) -> None:
    program(workbench, "gcc", "exit 1")
    code, text = run_tool(workbench, "bootstrap.sh", HARVEST_YES="1")
    assert code == 1
    assert "As root: apt-get install gcc libc6-dev" in text


def test_packages_are_installed_by_sudo_without_questions(workbench: Path) -> None:
    program(workbench, "gcc", "[ -e installed ]")
    program(workbench, "sudo", 'exec env -i PATH="$PATH" "$@"')
    program(workbench, "apt-get", 'echo "$DEBIAN_FRONTEND $*"; [ "$1" = update ] || touch installed')
    code, text = run_tool(workbench, "bootstrap.sh", HARVEST_YES="1")
    assert code == 0, text
    assert "noninteractive install -y" in text


def test_a_scanner_that_does_not_compile_ends_bootstrap(workbench: Path) -> None:
    program(workbench, "gcc", '[ "$1" = -fsyntax-only ]')
    code, text = run_tool(workbench, "bootstrap.sh")
    assert code == 1
    assert "agent/native/scan.c does not compile" in text
