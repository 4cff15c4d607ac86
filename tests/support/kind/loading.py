"""Configurations of kind, read by kind's own loader."""

import json
import subprocess
from pathlib import Path
from typing import Any

from support.kubernetes.programs import go_program

_LOADER = ("kind-loader", "tests/support/kind", "sigs.k8s.io/kind", "pkg/harvest")


class KindError(Exception):
    """What kind says about a configuration that it refuses."""


def loaded(config: Path) -> dict[str, Any]:
    """Return what kind understands of a configuration, with its defaults."""
    ran = subprocess.run([go_program(*_LOADER), config], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise KindError(ran.stderr)
    understood: dict[str, Any] = json.loads(ran.stdout)
    return understood
