"""A Lustre server outside the cluster, with the package, that joins a real site with a token."""

from pathlib import Path
from typing import Final

from demo.processes import Program, run
from harvest_pki.certificates import load_certificate
from packing.rpm import RELEASES, Package, pack
from support.chart import NAMESPACE
from support.real_site import NAME, SPACE, RealSite
from support.rpm_root import EPOCH, Machine, machine

_EL9: Final = Package(RELEASES[1], "x86_64")
_GIVEN: Final = "root/token"
_STATE: Final = "var/lib/harvest-agent"


class BareMetal:
    """The server, and its agent as its unit runs it."""

    def __init__(self, site: RealSite, name: str, folder: Path) -> None:
        self.site = site
        self.name = name
        self.machine: Machine = machine(folder)
        (package,) = pack(folder, [_EL9], epoch=EPOCH)
        installed = self.machine.rpm("-i", "--nodeps", package)
        assert installed.returncode == 0, installed.stderr
        self.machine.lustre.rmdir()
        self.machine.lustre.symlink_to(site.lustre.root / name)
        self.agent = Program(name, self.machine.service(), folder / "packaged.log")

    def join(self, token: str) -> str:
        """Join as an administrator does; return what was said, of a failure too."""
        (port,) = self.site.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/harvest-join")["spec"]["ports"]
        (self.machine.root / _GIVEN).parent.mkdir(exist_ok=True)
        (self.machine.root / _GIVEN).write_text(token)
        address = f"{self.site.node.address}:{port['nodePort']}"
        ran = self.machine.run("harvest-agent", "join", address, "--token-file", f"/{_GIVEN}")
        return ran.stdout + ran.stderr

    def token(self) -> str:
        """Make a token for this server."""
        where = ("--namespace", SPACE, "--kubeconfig", str(self.site.node.control_plane.admin))
        return run("harvest", "token", "create", NAME, self.name, *where)

    def start(self) -> None:
        """Start the agent over this server's own Lustre, by the unit's command line and under its restrictions."""
        config = self.machine.root / "etc/harvest/agent.toml"
        config.write_text(f'{config.read_text()}\n[lustre]\nroot = "/lustre"\n')
        self.agent.start()

    @property
    def serial(self) -> int:
        """By which its certificate is known."""
        return load_certificate((self.machine.root / _STATE / "tls/tls.crt").read_bytes()).serial_number
