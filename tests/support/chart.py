"""The chart as Helm renders it, and its README.

``python -m support.chart`` writes the README's table of values anew.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[2] / "charts/harvest"
README: Final = CHART / "README.md"
FORMS: Final = sorted((CHART / "ci").glob("*-values.yaml"))
"""Values of several kinds of clusters."""
_HELM: Final = Path(sys.executable).with_name("helm")
NAMESPACE: Final = "harvest-system"
OPERATOR: Final = "harvest-operator"
"""Name of everything that the chart installs, as a release called harvest."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return subprocess.run([_HELM, *arguments], capture_output=True, text=True, check=False)


def template(*settings: str, form: Path | None = None) -> str:
    """Return what would be installed; ``settings`` are such as ``crds.keep=false``, ``form`` is a file of values."""
    sets = [part for one in settings for part in ("--set", one)]
    files = [] if form is None else ["--values", str(form)]
    ran = helm("template", "harvest", str(CHART), "--namespace", NAMESPACE, *files, *sets)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rendered(*settings: str, form: Path | None = None) -> list[dict[str, Any]]:
    """Return the objects that would be installed."""
    return [one for one in yaml.safe_load_all(template(*settings, form=form)) if one]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def reasons(file: str = "rbac.yaml") -> list[tuple[str, dict[str, Any]]]:
    """Return the rules of a file of the chart, each with the reason above it: the operator's, or another role's."""
    text = (CHART / "templates" / file).read_text()
    found = re.findall(r"^  # (.*)\n((?:  (?:- |  ).*\n)+)", text, re.MULTILINE)
    assert sum(rule.count("apiGroups") for _, rule in found) == text.count("apiGroups"), "a rule has no reason"
    return [(reason, yaml.safe_load(rule)[0]) for reason, rule in found]


def values() -> Iterator[tuple[str, object, str]]:
    """Return every value that has a comment line: its path, its default, and what the comment says."""
    text = (CHART / "values.yaml").read_text()
    parents: list[str] = []
    comment = ""
    for line in text.splitlines():
        depth, content = (len(line) - len(line.lstrip())) // 2, line.strip()
        if content.startswith("# "):
            comment = content[2:]
        elif comment or content.endswith(":"):
            parents[depth:] = [content.partition(":")[0]]
            if comment:
                default: Any = yaml.safe_load(text)
                for key in parents:
                    default = default[key]
                yield ".".join(parents), default, comment
            comment = ""


def readme() -> str:
    """Return what the README must say: as it is, with a row for every value."""
    rows = [f"| `{path}` | `{json.dumps(default)}` | {meaning} |\n" for path, default, meaning in values()]
    head, line, _ = README.read_text().rpartition("|---|---|---|\n")
    return head + line + "".join(rows)


if __name__ == "__main__":
    README.write_text(readme())
