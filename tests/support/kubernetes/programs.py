"""The programs of Kubernetes: built once into the cache folder, by the same lines as `make test` builds them."""

import subprocess
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_SCRIPT = "set -euo pipefail; . tools/uv.sh; . tools/go.sh; . tools/kubernetes.sh; need_kubernetes; echo $kubernetes"


@cache
def programs() -> Path:
    """Return the folder that holds etcd, kube-apiserver, kubectl and the rest; build it where it is not there."""
    ran = subprocess.run(["bash", "-c", _SCRIPT], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Path(ran.stdout.strip())


@cache
def go_program(*described: str) -> Path:
    """Return a program that is built as ``need_go_program`` of tools/go.sh describes."""
    return _made('need_go_program "$@"; echo "$program"', *described)


@cache
def prometheus_rules() -> Path:
    """Return the definition of PrometheusRules, of the Prometheus operator's own source."""
    return _made('need_prometheus_rules; echo "$file"')


def _made(script: str, *arguments: str) -> Path:
    command = ["bash", "-c", f"set -euo pipefail; . tools/uv.sh; . tools/go.sh; {script}", "-", *arguments]
    ran = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Path(ran.stdout.strip())


if __name__ == "__main__":
    programs()
