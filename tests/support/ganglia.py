"""Real gmond and gmetad, as plain processes on free ports of loopback."""

import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from demo.processes import free_port
from harvest_aggregator.sinks import gmetric
from support.processes import LIMIT_SECONDS, wait_for

_GMOND = """
globals {{
  daemonize = no
  setuid = no
  mute = yes
  host_dmax = 0
}}
cluster {{ name = "{name}" }}
udp_recv_channel {{ port = {port} bind = {bind} family = {family} }}
tcp_accept_channel {{ port = {port} bind = 127.0.0.1 }}
"""
_MARK = "mark"
"""A host that only tells how far gmond has come."""


def read_xml(port: int) -> ET.Element:
    """Return all that a gmond or gmetad knows."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as asked, asked.makefile("rb") as answer:
        return ET.fromstring(answer.read())  # noqa: S314 - our own child process


class _Process:
    """Started and stopped, by its pid."""

    folder: Path
    process: subprocess.Popen[bytes]

    def _launch(self, program: str, *arguments: str, port: int) -> None:
        found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
        assert found is not None, f"{program} is missing: `make test` installs it"
        with (self.folder / f"{program}.log").open("ab") as log:
            self.process = subprocess.Popen([found, *arguments], stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or _answers(port), program)
        assert self.process.poll() is None, (self.folder / f"{program}.log").read_text()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)  # it has nothing to lose, and gmetad takes its time
        self.process.wait(LIMIT_SECONDS)


def _answers(port: int) -> bool:
    try:
        read_xml(port)
    except (OSError, ET.ParseError):
        return False
    return True


@dataclass
class Gmond(_Process):
    """Takes metrics of one cluster, by UDP; tells them, by TCP, at the same port."""

    folder: Path
    name: str
    bind: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    marks: int = 0

    @property
    def address(self) -> str:
        return f"[{self.bind}]:{self.port}" if ":" in self.bind else f"{self.bind}:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        family = "inet6" if ":" in self.bind else "inet4"
        text = _GMOND.format(name=self.name, port=self.port, bind=self.bind, family=family)
        (self.folder / "gmond.conf").write_text(text)
        self._launch("gmond", "-c", str(self.folder / "gmond.conf"), "-f", port=self.port)

    def catch_up(self) -> None:
        """Wait until it has taken in all that was sent so far: another thread than the one that listens answers."""
        self.marks += 1
        host, mark = gmetric.spoofed("127.0.0.1", _MARK), str(self.marks)
        with socket.socket(socket.AF_INET6 if ":" in self.bind else socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect((self.bind, self.port))

            def is_marked() -> bool:
                sender.send(gmetric.metadata(host, _MARK, "", dmax_seconds=0))
                sender.send(gmetric.value(host, _MARK, mark))
                return read_xml(self.port).find(f".//METRIC[@NAME='{_MARK}'][@VAL='{mark}']") is not None

            wait_for(is_marked, "gmond to catch up")

    def _hosts(self) -> list[ET.Element]:
        return [host for host in read_xml(self.port).iter("HOST") if host.attrib["NAME"] != _MARK]

    def hosts(self) -> list[tuple[str, str]]:
        """Return name and address of every host."""
        return sorted((host.attrib["NAME"], host.attrib["IP"]) for host in self._hosts())

    def metrics(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return every metric's attributes, by host and name."""
        return {
            host.attrib["NAME"]: {metric.attrib["NAME"]: dict(metric.attrib) for metric in host.iter("METRIC")}
            for host in self._hosts()
        }

    def values(self) -> dict[str, dict[str, str]]:
        return {
            host: {name: attributes["VAL"] for name, attributes in metrics.items()}
            for host, metrics in self.metrics().items()
        }

    def started(self) -> dict[str, str]:
        """Return when every host's gmond began, as it seems."""
        return {host.attrib["NAME"]: host.attrib["GMOND_STARTED"] for host in self._hosts()}

    def waited_seconds(self) -> float:
        """Return for how long it could have run, and others had the processors."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[1]) for thread in threads) / 1e9

    def lost_packets(self) -> int:
        """Return how many the system threw away because its socket was full."""
        rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
        (lost,) = [int(row[-1]) for row in rows if int(row[1].partition(":")[2], 16) == self.port]
        return lost


@dataclass
class Gmetad(_Process):
    """Asks several gmonds."""

    folder: Path
    sources: tuple[Gmond, ...]
    port: int = field(default_factory=free_port)

    def start(self) -> None:
        rrds = self.folder / "rrds"
        rrds.mkdir(parents=True, exist_ok=True)
        (self.folder / "gmetad.conf").write_text(
            "".join(f'data_source "{gmond.name}" 1 127.0.0.1:{gmond.port}\n' for gmond in self.sources)
            + f'gridname "tests"\nxml_port {self.port}\ninteractive_port {free_port()}\n'
            + f'rrd_rootdir "{rrds}"\nsetuid off\ncase_sensitive_hostnames 1\n'
        )
        self._launch("gmetad", "-d", "1", "-c", str(self.folder / "gmetad.conf"), port=self.port)

    def metrics(self) -> dict[str, dict[str, set[str]]]:
        """Return the names of metrics, by cluster and host."""
        return {
            cluster.attrib["NAME"]: {
                host.attrib["NAME"]: {metric.attrib["NAME"] for metric in host.iter("METRIC")}
                for host in cluster.iter("HOST")
            }
            for cluster in read_xml(self.port).iter("CLUSTER")
        }
