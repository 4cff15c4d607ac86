"""`make cluster`: a Kubernetes to try the chart in, until Ctrl-C."""

import signal
import sys
from pathlib import Path

from support.kubernetes.clusters import VARIABLE, running, temporary
from support.kubernetes.programs import programs

_KIND_CONFIG = Path(__file__).parents[3] / "kind-config.yaml"
"""Ports of this machine lead into it: there can be one such cluster at a time, so tests have others."""
_WHAT = {
    "given": f"the cluster of {VARIABLE}; nothing was started",
    "kind": "a cluster of kind",
    "local": "a control plane on this machine, without nodes: objects are made and checked, Pods stay Pending",
}


def main() -> int:
    """Run a cluster, and say how to use it."""
    with temporary() as folder, running(folder, name="harvest", kind_config=_KIND_CONFIG) as cluster:
        print(f"This is {_WHAT[cluster.choice]}.\n")
        print(f"  export KUBECONFIG={cluster.kubeconfig}")
        print(f"  {programs()}/kubectl apply -f charts/harvest/files/harvestsites.yaml\n")
        if cluster.choice != "given":
            print("Ctrl-C ends it, and takes away all of it.", flush=True)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            try:
                signal.pause()
            except KeyboardInterrupt:
                print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
