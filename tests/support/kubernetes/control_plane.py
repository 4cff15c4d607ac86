"""A real control plane as plain processes on free ports: etcd, API server and controllers. No node: nothing runs.

What it needs of a node's side is here already (certificates, addresses), so that a node can be put beside it.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from demo.processes import free_port
from support.kubernetes.api import Api
from support.kubernetes.credentials import Credentials
from support.kubernetes.programs import programs
from support.processes import wait_for

_START_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 60.0
_SERVICES: Final = "10.96.0.0/16"
_PODS: Final = "10.244.0.0/16"
_SERVICE_NAMES: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "10.96.0.1")
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass
class ControlPlane:
    """One cluster, in a folder that nothing else uses."""

    folder: Path
    address: str = "127.0.0.1"
    """Where the API server listens; nodes in a network of their own need another one."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.credentials = Credentials(self.folder / "credentials")
        self.etcd, self.peer, self.port, controllers, scheduler = (free_port() for _ in range(5))
        self.server = f"https://{self.address}:{self.port}"
        self.admin = self.credentials.kubeconfig(self.server, "admin", group="system:masters")
        self.audit = self.folder / "audit.log"
        self._commands = {
            "etcd": tuple(self._etcd()),
            "kube-apiserver": tuple(self._apiserver()),
            "kube-controller-manager": tuple(self._controllers(controllers)),
            "kube-scheduler": tuple(self._scheduler(scheduler)),
        }

    def start(self) -> None:
        """Start everything, and wait until the controllers work."""
        self.start_one("etcd")
        self.start_apiserver()
        self.start_one("kube-controller-manager")
        self.start_one("kube-scheduler")
        api = Api(self.admin)
        self._wait(
            lambda: api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None, "the controllers"
        )

    def start_apiserver(self) -> None:
        """Start the API server, also again after it was stopped, and wait until it is ready."""
        self.start_one("kube-apiserver")
        self._wait(Api(self.admin).ready, "the API server")

    def start_one(self, name: str) -> None:
        """Start a program; it ends with us, however we end."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._commands[name]], stdout=log, stderr=log
            )

    def kill_one(self, name: str) -> None:
        """End a program as a crash would: asked nicely, an API server takes a minute over those who watch."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """End everything; nothing of it is needed any more."""
        for name in reversed(list(self.processes)):
            self.kill_one(name)

    def account_kubeconfig(
        self, namespace: str, account: str, *, server: str | None = None, bound_to: dict[str, str] | None = None
    ) -> Path:
        """Write a kubeconfig file with a token of a ServiceAccount, of anybody's or of one Pod's.

        ``server`` may be a proxy before the API server.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200, **({"boundObjectRef": bound_to} if bound_to else {})},
        }
        token = Api(self.admin).post(path, request)["status"]["token"]
        name = f"{namespace}-{account}" + (f"-{bound_to['name']}" if bound_to else "")
        return self.credentials.written_kubeconfig(name, server or self.server, {"token": token})

    def audited(self, about: str) -> list[dict[str, Any]]:
        """Return every request that the API server has answered and whose record holds a text: a name, a path."""
        lines = self.audit.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n") and about in line]

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def so() -> bool:
            for name, process in self.processes.items():
                log = self.folder / f"{name}.log"
                assert process.poll() is None, f"{name} ended:\n{log.read_text()[-3000:]}"
            return bool(condition())

        wait_for(so, what, seconds=_START_SECONDS)

    def _etcd(self) -> Iterator[str]:
        client, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{self.peer}"
        yield str(programs() / "etcd")
        yield f"--data-dir={self.folder / 'etcd'}"
        yield "--unsafe-no-fsync"  # it need not survive the machine
        yield "--log-level=warn"
        yield from (f"--listen-client-urls={client}", f"--advertise-client-urls={client}")
        yield from (f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}")
        yield f"--initial-cluster=default={peer}"

    def _apiserver(self) -> Iterator[str]:
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        server = self.credentials.issue("kube-apiserver", names=(*_SERVICE_NAMES, "127.0.0.1", self.address))
        kubelet = self.credentials.issue("apiserver-kubelet-client", group="system:masters")
        self._accounts = self.credentials.signing_key()
        yield str(programs() / "kube-apiserver")
        yield f"--etcd-servers=http://127.0.0.1:{self.etcd}"
        yield from (f"--bind-address={self.address}", f"--secure-port={self.port}")
        if self.address.startswith("127."):
            yield "--advertise-address=192.0.2.1"  # Kubernetes refuses loopback here; without nodes nobody asks
        yield from (
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
        )
        yield from (f"--service-cluster-ip-range={_SERVICES}", f"--client-ca-file={self.credentials.ca.certificate}")
        yield from (f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}")
        yield from (
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            f"--kubelet-certificate-authority={self.credentials.ca.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
        )
        yield "--service-account-issuer=https://kubernetes.default.svc.cluster.local"
        yield f"--service-account-key-file={self._accounts.certificate}"
        yield f"--service-account-signing-key-file={self._accounts.key}"
        yield from (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit}")
        yield "--audit-log-maxsize=100000"  # megabytes: it is never begun anew

    def _controllers(self, port: int) -> Iterator[str]:
        config = self.credentials.kubeconfig(self.server, "system:kube-controller-manager")
        yield str(programs() / "kube-controller-manager")
        yield from (f"--kubeconfig={config}", "--leader-elect=false", "--use-service-account-credentials=true")
        yield from (f"--service-account-private-key-file={self._accounts.key}", "--bind-address=127.0.0.1")
        yield from (f"--root-ca-file={self.credentials.ca.certificate}", f"--secure-port={port}")
        yield f"--cluster-signing-cert-file={self.credentials.ca.certificate}"
        yield f"--cluster-signing-key-file={self.credentials.ca.key}"
        yield from ("--allocate-node-cidrs=true", f"--cluster-cidr={_PODS}", f"--service-cluster-ip-range={_SERVICES}")

    def _scheduler(self, port: int) -> Iterator[str]:
        config = self.credentials.kubeconfig(self.server, "system:kube-scheduler")
        yield str(programs() / "kube-scheduler")
        yield from (
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        )
