"""The wire's contract and the code made from it."""

import filecmp
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUF = ROOT / ".venv/bin/buf"


def test_generated_code_is_what_the_contract_gives(tmp_path: Path) -> None:
    subprocess.run([ROOT / "proto/generate.sh", tmp_path], check=True, capture_output=True)

    kept = ROOT / "proto/src"
    made = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file())
    there = sorted(str(f.relative_to(kept)) for f in kept.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    assert made == there
    assert filecmp.cmpfiles(tmp_path, kept, made, shallow=False)[0] == made, "run proto/generate.sh"


def test_the_contract_is_linted_and_formatted() -> None:
    subprocess.run([BUF, "lint", "proto"], cwd=ROOT, check=True)
    subprocess.run([BUF, "format", "--diff", "--exit-code", "proto"], cwd=ROOT, check=True)


def test_the_contract_only_grows() -> None:
    """Compared with the last commit that has one."""
    subprocess.run([BUF, "breaking", "proto", "--against", ".git#ref=HEAD,subdir=proto"], cwd=ROOT, check=True)
