"""One real node beside a control plane: containerd, kubelet and kube-proxy in a machine of their own."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packing.archive import Image, write_archive
from packing.layers import written
from packing.running import architecture
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.kubernetes.machine import Machine, run
from support.kubernetes.programs import go_program, programs
from support.processes import wait_for

NODE: Final = "node1"
_SOCKET: Final = "/run/containerd/containerd.sock"  # of the machine
_PAUSE: Final = "localhost/pause:1"
_PODS: Final = "10.244.0.0/24"
_START_SECONDS: Final = 180.0
_CONTAINERD: Final = """
version = 2
root = "{state}/containerd"
state = "{state}/containerd-state"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true  # where root may not lower it
disable_apparmor = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""
_DNS: Final = """
. {{
  errors
  cache 1
  kubernetes cluster.local {{
    kubeconfig {user}
    ttl 1
  }}
}}
"""


@dataclass
class Node:
    """A node that is Ready, its control plane, and the machine that it runs in."""

    machine: Machine
    control_plane: ControlPlane
    volumes: int = 0

    def __post_init__(self) -> None:
        self.folder = self.machine.folder
        self.api = Api(self.control_plane.admin)

    @property
    def address(self) -> str:
        """Where node ports are, seen from outside."""
        return self.machine.inside

    def start(self) -> None:
        """Start all of it, and wait until Pods may come."""
        self._configure()
        self.machine.start_program("containerd", "containerd", "--config", str(self.folder / "containerd.toml"))
        self._wait(self.machine.seen(_SOCKET).exists, "containerd")
        self.load(_pause(self.folder))
        names = go_program("dns", "tests/support/kubernetes/dns")
        self.machine.start_program("dns", str(names), "-conf", str(self.folder / "dns"))
        proxy = self.folder / "kube-proxy.json"
        self.machine.start_program("kube-proxy", str(programs() / "kube-proxy"), f"--config={proxy}")
        self.start_kubelet()

    def start_kubelet(self) -> None:
        """Start kubelet, also again after it was ended."""
        self.machine.start_program(
            "kubelet",
            str(programs() / "kubelet"),
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self._kubelet}",
            f"--hostname-override={NODE}",
            f"--node-ip={self.machine.inside}",
            f"--root-dir={self.machine.state}/kubelet",
            f"--cert-dir={self.machine.state}/kubelet/pki",
        )
        self._wait(self._is_ready, "the node")

    def load(self, archive: Path) -> None:
        """Give the node images: there is no registry to pull them from."""
        self._containers("images", "import", str(archive))

    def tag(self, image: str, other: str) -> None:
        """Give an image another name."""
        self._containers("images", "tag", image, other)

    def kill(self, container: str) -> None:
        """End a container's program at once, as a crash does."""
        self._containers("tasks", "kill", "--signal", "SIGKILL", container)

    def _containers(self, *command: str) -> None:
        self.machine.run("ctr", "--address", _SOCKET, "--namespace", "k8s.io", *command)

    def offer_volume(self) -> Path:
        """Give the node room for one claim of no class, as an admin without a provisioner would; return where it is."""
        self.volumes += 1
        name = f"volume-{self.volumes}"
        path = f"{self.machine.state}/{name}"
        self.machine.run("mkdir", path)
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}]
        self.api.post(
            "/api/v1/persistentvolumes",
            {
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "100Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": path},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                },
            },
        )
        return self.machine.seen(path)

    def kubectl(self, *arguments: str, told: str | None = None) -> str:
        """Run kubectl with all rights, as a person would; return what it printed."""
        ran = subprocess.run(self.kubectl_command(*arguments), input=told, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"kubectl {' '.join(arguments)}:\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def kubectl_command(self, *arguments: str) -> list[str]:
        """Return the command."""
        return [str(programs() / "kubectl"), f"--kubeconfig={self.control_plane.admin}", *arguments]

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def so() -> bool:
            self.machine.check()
            return bool(condition())

        wait_for(so, what, seconds=_START_SECONDS)

    def _is_ready(self) -> bool:
        node = self.api.find(f"/api/v1/nodes/{NODE}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)

    def _configure(self) -> None:
        who, server, state = self.control_plane.credentials, self.control_plane.server, self.machine.state
        self._kubelet = who.kubeconfig(server, f"system:node:{NODE}", group="system:nodes")
        serving = who.issue("kubelet-serving", names=(NODE, self.machine.inside))
        (self.folder / "resolv.conf").touch()
        (self.folder / "cni").mkdir()
        text = _CONTAINERD.format(state=state, socket=_SOCKET, pause=_PAUSE, folder=self.folder)
        (self.folder / "containerd.toml").write_text(text)
        (self.folder / "dns").write_text(_DNS.format(user=self.control_plane.admin))
        self._write(
            "cni/pods.conflist",
            {
                "cniVersion": "0.4.0",
                "name": "pods",
                "plugins": [
                    {
                        "type": "ptp",  # no bridge: what goes from Pod to Pod would pass by Services' rules there
                        "ipMasq": True,  # outside the machine nobody knows the way to its Pods
                        "ipam": {
                            "type": "host-local",
                            "dataDir": f"{state}/addresses",
                            "ranges": [[{"subnet": _PODS}]],
                            "routes": [{"dst": "0.0.0.0/0"}],
                        },
                    },
                    {"type": "portmap", "capabilities": {"portMappings": True}},
                ],
            },
        )
        self._write(
            "kubelet.json",
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "address": self.machine.inside,
                "authentication": {"x509": {"clientCAFile": str(who.ca.certificate)}},
                "tlsCertFile": str(serving.certificate),
                "tlsPrivateKeyFile": str(serving.key),
                "containerRuntimeEndpoint": f"unix://{_SOCKET}",
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": self.machine.cgroup,
                "cgroupsPerQOS": False,  # containers' limits hold; nothing is made that others on this machine see
                "enforceNodeAllocatable": ["none"],
                "failCgroupV1": False,
                "failSwapOn": False,
                "clusterDNS": [self.machine.inside],
                "clusterDomain": "cluster.local",
                "resolvConf": str(self.folder / "resolv.conf"),
                "podLogsDir": f"{state}/pod-logs",
                "volumePluginDir": f"{state}/volume-plugins",
                "imageGCHighThresholdPercent": 100,  # an image that is thrown away cannot be had again
                "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
                "syncFrequency": "10s",
            },
        )
        self._write(
            "kube-proxy.json",
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "clientConnection": {"kubeconfig": str(who.kubeconfig(server, "system:kube-proxy"))},
                "hostnameOverride": NODE,
                "clusterCIDR": _PODS,
                "bindAddress": self.machine.inside,
                "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
                "iptables": {"minSyncPeriod": "0s"},
            },
        )

    def _write(self, name: str, content: object) -> None:
        (self.folder / name).write_text(json.dumps(content))  # JSON is YAML


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Node]:
    """Run a control plane with a node; both are gone afterwards."""
    machine = Machine(folder / "node")
    machine.folder.mkdir()
    (folder / "control-plane").mkdir()
    machine.start()
    try:
        control_plane = ControlPlane(folder / "control-plane", address=machine.outside)
        try:
            control_plane.start()
            node = Node(machine, control_plane)
            node.start()
            yield node
        finally:
            control_plane.stop()
    finally:
        machine.stop()


def _pause(folder: Path) -> Path:
    """Make the image that holds a Pod's namespaces."""
    content = folder / "pause"
    content.mkdir()
    run("gcc", "-O2", "-static", "-o", str(content / "pause"), str(Path(__file__).with_name("pause.c")))
    layer = written(content, folder / "pause-layer.tar")
    write_archive(folder / "pause.tar", [Image(_PAUSE, architecture(), [layer], ["/pause"])])
    return folder / "pause.tar"
