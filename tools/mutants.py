#!/usr/bin/env python3
"""Apply every mutant of tests/mutants/ in turn to a copy of the tree: the test that it names must turn red.

A patch starts with lines ``# test: <node id>``; git ignores them. One that no longer applies is a failure.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MUTABLE: Final = ("core", "aggregator")
"""Where mutants are."""
_NAMED: Final = re.compile(r"^# test: (\S+)$", re.MULTILINE)
_PASSED: Final = 0
_FAILED: Final = 1
"""pytest's codes for "all is well" and "tests failed"; all others mean that they did not run."""


def named_tests(patch: Path) -> list[str]:
    """Return the tests that must turn red, from the lines before the first diff."""
    return _NAMED.findall(patch.read_text().partition("\ndiff --git ")[0])


class Workbench:
    """A copy of the code and its tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        no_bytecode = shutil.ignore_patterns("__pycache__")
        for name in ("tests", "tools"):
            shutil.copytree(ROOT / name, folder / name, ignore=no_bytecode)
        shutil.copy(ROOT / "pyproject.toml", folder)
        self.reset()

    def reset(self) -> None:
        """Bring back the code as it is in the tree."""
        for name in MUTABLE:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            shutil.copytree(ROOT / name, self._folder / name, ignore=shutil.ignore_patterns("__pycache__"))

    def apply(self, patch: Path) -> str:
        """Apply a patch; return why it does not apply, if so."""
        ran = self._run("git", "apply", "--whitespace=nowarn", str(patch))
        return ran.stderr.strip() if ran.returncode else ""

    def test(self, *tests: str) -> subprocess.CompletedProcess[str]:
        """Run tests against the copy."""
        plugins = ("-p", "no:cacheprovider", "-p", "pytest_timeout")
        return self._run(sys.executable, "-m", "pytest", "-q", *plugins, "--tb=no", *tests)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(self._folder / name / "src") for name in MUTABLE),
            "PYTHONDONTWRITEBYTECODE": "1",  # two mutants of one second and size would share their bytecode
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # half of the time of so short a run
            "GIT_CEILING_DIRECTORIES": str(self._folder.parent),
        }
        return subprocess.run(  # noqa: S603 - our own tests
            command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False
        )


def survival(bench: Workbench, patch: Path) -> str:
    """Say what is wrong with a mutant, or nothing: it is caught by every test that it names."""
    tests = named_tests(patch)
    if not tests:
        return "names no test"
    bench.reset()
    if problem := bench.apply(patch):
        return f"does not apply: {problem.splitlines()[0]}"
    for test in tests:
        ran = bench.test(test)
        if ran.returncode == _PASSED:
            return f"survives {test}"
        if ran.returncode != _FAILED:
            return f"{test} did not run: {ran.stdout.strip().splitlines()[-1]}"
    return ""


def main(chosen: list[str]) -> int:
    """Try all mutants, or those whose name starts with one of these."""
    patches = sorted((ROOT / "tests" / "mutants").glob("*.patch"))
    patches = [patch for patch in patches if not chosen or patch.stem.startswith(tuple(chosen))]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        bench = Workbench(Path(folder))
        tests = sorted({test for patch in patches for test in named_tests(patch)})
        before = bench.test("-rf", *tests)
        if not patches or before.returncode != _PASSED:
            print(before.stdout, "the named tests must pass without a mutant", sep="\n")  # noqa: T201
            return 1
        for patch in patches:
            problem = survival(bench, patch)
            failed += bool(problem)
            print(f"{'FAILED' if problem else 'caught'}  {patch.stem}  {problem}".rstrip(), flush=True)  # noqa: T201
    print(f"{len(patches) - failed} passed, {failed} failed")  # noqa: T201
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
