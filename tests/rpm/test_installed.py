"""The package on a machine: installed, run by its unit under the unit's restrictions, upgraded, taken away."""

import os
import re
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from alive.receiver import LIMIT_SECONDS, SERVER_NAME, Receiver, make_ca, serve, wait_for
from alive.scenes import closed, run, wrong
from demo.comparison import true_totals
from demo.play import Play, installed, settings
from demo.processes import Program
from harvest_pki.folders import CaFolder
from packing.rpm import RELEASES, Package, pack
from packing.running import run as done
from support.rpm_root import EPOCH, Machine, machine

CASE = Path(__file__).parents[1] / "data/lustre/places-2.17"
EL9 = Package(RELEASES[1], "x86_64")
NEWER = Package(EL9.release, EL9.machine, version="0.1.1")
CONFIG = "etc/harvest/agent.toml"
READ_SEARCH = f"{1 << 2:016x}"
CHANGES = re.compile(
    r"(?:open(?:at)?\(.*\bO_(?:WRONLY|RDWR|CREAT|TRUNC)\b"
    r"|(?:creat|mkdir|rmdir|unlink|rename|link|symlink|truncate|chmod|chown|mknod|fchmod|fchown|utimens)(?:at)?2?\()"
)
"""A call that changes a file that has a name, or its name."""
_SYSTEM = """
Name: system
Version: 1
Release: 1
Summary: What the package needs, as a distribution has it
License: none
BuildArch: noarch
Provides: systemd, /bin/sh, {interpreter}
%description
%files
"""
_RECORDER = '#!/bin/sh\necho "systemctl $*" >>/calls\n'


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a package that has, for rpm, all that ours may need, and nothing more."""
    folder = tmp_path_factory.mktemp("system")
    (folder / "system.spec").write_text(_SYSTEM.format(interpreter=EL9.release.interpreter))
    done("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {folder}", folder / "system.spec")
    (made,) = folder.rglob("*.rpm")
    return made


@pytest.fixture
def bare(tmp_path: Path, system: Path) -> Machine:
    """Give a machine without the agent."""
    made = machine(tmp_path)
    assert made.rpm("-i", system).returncode == 0
    return made


@pytest.fixture
def server(bare: Machine, packages: Mapping[Package, Path]) -> Machine:
    """Give a machine with the agent, not configured."""
    ran = bare.rpm("-i", packages[EL9])
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    return bare


def left(machine: Machine) -> list[str]:
    """Return all paths on the machine that are called after us."""
    found = [path for folder in ("etc", "usr", "var") for path in (machine.root / folder).rglob("*harvest*")]
    return sorted(str(path.relative_to(machine.root)) for path in found)


def test_it_cannot_be_installed_without_the_interpreter(tmp_path: Path, packages: Mapping[Package, Path]) -> None:
    refused = machine(tmp_path).rpm("-i", packages[EL9])
    assert refused.returncode != 0
    needed = re.findall(r"^\s+(\S+) is needed by", refused.stderr, re.MULTILINE)
    assert sorted(needed) == ["/bin/sh", "/usr/bin/python3.11", "systemd"]


def test_it_installs_as_promised_and_does_not_start_unconfigured(server: Machine) -> None:
    assert server.rpm("-V", "harvest-agent").stdout == ""
    (user,) = re.findall(
        r"^harvest-agent:x:(\d+):(\d+):.*:/var/lib/harvest-agent:/sbin/nologin$",
        (server.root / "etc/passwd").read_text(),
        re.MULTILINE,
    )
    for path, mode, owner in (("etc/harvest", 0o40750, 0), ("var/lib/harvest-agent", 0o40700, int(user[0]))):
        told = (server.root / path).stat()
        assert (told.st_mode, told.st_uid, told.st_gid) == (mode, owner, int(user[1]))
    assert list((server.root / "etc/harvest").iterdir()) == []
    assert server.unit().get("ConditionPathExists") == f"/{CONFIG}"
    assert server.unit().get("ExecStart").endswith(f"--config /{CONFIG}")
    assert server.run("systemctl", "is-enabled", "harvest-agent").stdout == "disabled\n"


def test_every_module_is_compiled_and_what_is_changed_is_compiled_anew(server: Machine) -> None:
    site = server.root / "usr/lib/harvest-agent/lib/python3.11/site-packages"
    modules = list(site.rglob("*.py"))
    assert len(modules) > 200
    compiled = [path.parent / f"__pycache__/{path.stem}.cpython-311.pyc" for path in modules]
    assert [path for path in compiled if not path.stat().st_size] == []
    module = site / "harvest_agent/summary.py"
    module.write_text("raise SystemExit('changed')\n")
    assert server.run("harvest-agent", "--help").stderr == "changed\n"


def test_systemd_understands_the_unit(server: Machine) -> None:
    verified = server.run("systemd-analyze", "verify", "--man=no", "harvest-agent.service")
    about = [line for line in verified.stderr.splitlines() if "harvest" in line]
    assert (verified.returncode, about) == (0, [])
    judged = server.run("systemd-analyze", "security", "--offline=yes", "--threshold=30", "harvest-agent.service")
    assert judged.returncode == 0, judged.stdout[-500:]


def test_it_is_stopped_before_targets_are_unmounted(server: Machine) -> None:
    """Whatever is started earlier is stopped later: systemd's own rule."""
    after = server.unit().get("After").split()
    assert {"remote-fs.target", "local-fs.target", "pacemaker.service", "network-online.target"} <= set(after)


def started(server: Machine, *command: str, capable: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command under the unit's restrictions."""
    return subprocess.run(server.service(*command, capable=capable), capture_output=True, text=True, check=False)


def test_the_agent_reads_what_only_root_may_with_the_units_one_capability(server: Machine) -> None:
    shutil.copytree(CASE / "root", server.lustre, dirs_exist_ok=True)
    (server.lustre / "sys/kernel/debug").chmod(0o700)  # as in the kernel
    sample = ("/usr/bin/harvest-agent", "sample", "--root", "/lustre", "--json")
    sampled = started(server, *sample)
    assert (sampled.returncode, sampled.stderr) == (0, "")
    assert sampled.stdout.splitlines() == (CASE / "expected.jsonl").read_text().splitlines()
    assert "scanner   compiled" in started(server, "/usr/bin/harvest-agent", "doctor", "--root", "/lustre").stdout
    assert "Permission denied" in started(server, *sample, capable=False).stdout


def test_the_units_restrictions_leave_one_folder_to_write_to(server: Machine) -> None:
    places = "/ /etc/harvest /usr/lib/harvest-agent /tmp /run /var/lib /var/lib/harvest-agent /lustre /proc/sys/kernel"
    script = f"for place in {places}; do (: >$place/new) 2>/dev/null && echo $place; done; umask; nice; ulimit -c"
    niceness = os.nice(0) + 5
    assert started(server, "/bin/sh", "-c", script).stdout.split() == [
        *("/var/lib/harvest-agent", "0077", str(min(niceness, 19)), "0")
    ]
    status = dict(re.findall(r"^(\w+):\t(.*)$", started(server, "cat", "/proc/self/status").stdout, re.MULTILINE))
    capabilities = ("CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert [status[name] for name in capabilities] == [READ_SEARCH] * 4
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()


def test_a_running_agent_asks_nothing_that_the_unit_forbids_and_writes_to_its_state_folder_alone(
    server: Machine, tmp_path: Path
) -> None:
    make_ca(tmp_path)
    CaFolder(tmp_path / "ca").write_agent(tmp_path / "agent", "oss1", now=datetime.now(UTC).replace(microsecond=0))
    shutil.copytree(tmp_path / "agent", server.root / "etc/harvest", dirs_exist_ok=True)
    shutil.copytree(CASE / "root", server.lustre, dirs_exist_ok=True)
    receiver = Receiver()
    listener, port = serve(receiver, tmp_path / "tls")
    example = (server.root / "usr/share/doc/harvest-agent/agent.toml").read_text()
    config = example.replace("harvest.example:8023", f"127.0.0.1:{port}").replace("main.example.harvest", SERVER_NAME)
    (server.root / CONFIG).write_text(f'{config}\n[lustre]\nroot = "/lustre"\n')

    traced = ("strace", "-D", "-f", "-o", "/var/lib/harvest-agent/trace", *server.unit().get("ExecStart").split())
    before = others_files(server)
    log = tmp_path / "log"
    with log.open("wb") as file:
        agent = subprocess.Popen(server.service(*traced), stderr=file)
    try:
        wait_for(lambda: bool(receiver.sweeps()), "a sweep", 120)
    finally:
        agent.terminate()
        code = agent.wait(LIMIT_SECONDS)
        listener.stop(0).wait(10)

    assert code == 0, log.read_text()
    traces = server.root / "var/lib/harvest-agent/trace"
    ended = re.compile(rf"^{agent.pid} +\+{{3}} exited with 0", re.MULTILINE)  # a short pid is filled up with blanks
    wait_for(lambda: bool(ended.search(traces.read_text(errors="replace"))), "the trace's end")
    trace = traces.read_text(errors="replace")
    used = set(re.findall(r"^\d+ +(?:<\.\.\. )?([a-z0-9_]+)(?:\(| resumed)", trace, re.MULTILINE))
    assert {"openat", "fsync", "execve", "connect"} <= used
    filters = server.run("systemd-analyze", "syscall-filter").stdout
    groups = {name: text.split() for name, text in re.findall(r"^(@[\w-]+)\n((?:    .*\n)*)", filters, re.MULTILINE)}
    assert used <= allowed(server.unit().get("SystemCallFilter"), groups)
    families = set(re.findall(r"socket\((AF_\w+)", trace))
    assert families <= set(server.unit().get("RestrictAddressFamilies").split())
    changes = [call for call in whole_calls(trace) if CHANGES.match(call) and " = -1 E" not in call]
    changed = {path for call in changes for path in re.findall(r'"([^"]+)"', call)}
    assert any(path.startswith("/var/lib/harvest-agent/spool/") for path in changed)
    assert {path for path in changed if not path.startswith("/var/lib/harvest-agent/")} == set()
    assert others_files(server) == before


def whole_calls(trace: str) -> Iterator[str]:
    """Yield every call of a trace with what came of it: of threads that run side by side it is in two pieces."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        pid, _, said = line.partition(" ")
        first, _, rest = said.strip().partition(" resumed>")
        if first.endswith("<unfinished ...>"):
            begun[pid] = first.removesuffix("<unfinished ...>")
        else:
            yield begun.pop(pid, "") + rest if first.startswith("<... ") else said.strip()


def others_files(server: Machine) -> dict[str, tuple[int, ...]]:
    """Return what tells whether anything but the agent's state was changed: on the server, or of its Lustre."""
    found: dict[str, tuple[int, ...]] = {}
    for root in (server.root, server.lustre):
        for path in root.rglob("*"):
            if not path.is_relative_to(server.root / "var/lib/harvest-agent"):
                told = path.lstat()
                found[str(path)] = (told.st_mode, told.st_uid, told.st_gid, told.st_size, told.st_mtime_ns)
    return found


def allowed(name: str, groups: Mapping[str, list[str]]) -> set[str]:
    """Return all system calls of one of systemd's groups."""
    if not name.startswith("@"):
        return {name}
    return {call for member in groups[name] for call in allowed(member, groups)}


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Give a socket on which a service manager would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(f"\0harvest-{uuid.uuid4().hex}")
        yield listening


def test_the_unit_streams_a_live_server_and_every_total_is_true(
    server: Machine, manager: socket.socket, tmp_path: Path
) -> None:
    """Of 2.17, whose clients' counters only root may read; systemd hears that it is ready, and alive."""
    simulated = settings(event_seconds=1e6)
    harvest = installed(tmp_path / "site", simulated)
    name = "oss3"
    config = harvest.agent_config(name)
    for there, here in (
        (harvest.trees / name, "/lustre"),
        (harvest.spool(name), "/var/lib/harvest-agent/spool"),
        (harvest.data / "agents" / name, "/etc/harvest"),
    ):
        config = config.replace(f'"{there}', f'"{here}')
    assert str(tmp_path) not in config
    shutil.copytree(harvest.data / "agents" / name, server.root / "etc/harvest", dirs_exist_ok=True)
    (server.root / CONFIG).write_text(config)
    assert (server.root / "etc/harvest/tls.key").stat().st_mode & 0o777 == 0o600  # root's: the agent cannot change it
    server.lustre.rmdir()
    (harvest.trees / name).mkdir(parents=True, exist_ok=True)
    server.lustre.symlink_to(harvest.trees / name)
    seconds = {"3min": 180}[server.unit().get("WatchdogSec")]
    command = server.service(NOTIFY_SOCKET=f"@{manager.getsockname()[1:].decode()}", WATCHDOG_USEC=str(seconds * 10**6))
    agent = Program(name, command, tmp_path / "site/packaged.log")
    harvest.agents[name] = agent
    play = Play(harvest, simulated, for_seconds=8)
    debug = harvest.trees / name / "sys/kernel/debug"
    play.live.face.publish()
    debug.chmod(0o700)

    try:
        play.start()
        run(play)
        unequal = wrong(play)
        clients = harvest.get("/api/v1/clients")["clients"]
        said = agent.log.read_text()
        status = Path(f"/proc/{agent.pid}/status").read_text()
        heard = received(manager)
    finally:
        closed(play)
    heard_at_the_end = received(manager)

    assert unequal == []
    assert true_totals(play.live.site.truth)
    assert clients
    problems = [line for line in said.splitlines() if line.startswith("problem ")]
    assert [line for line in problems if "sweeps were skipped" not in line] == []  # others may keep it from its ticks
    assert f"CapEff:\t{READ_SEARCH}" in status
    assert heard[0] == "READY=1"
    assert "WATCHDOG=1" in heard
    assert "STOPPING=1" in heard_at_the_end
    assert re.search(r"agent\.end waiting=0", agent.log.read_text())


def received(manager: socket.socket) -> list[str]:
    """Return what the service manager was told since the last time."""
    heard = []
    while True:
        try:
            heard.append(manager.recv(4096).decode())
        except BlockingIOError:
            return heard


def test_an_upgrade_keeps_what_is_configured_and_restarts_what_runs(server: Machine, tmp_path: Path) -> None:
    (server.root / CONFIG).write_text("# ours\n")
    (server.root / "var/lib/harvest-agent/spool").mkdir()
    assert server.run("systemctl", "enable", "harvest-agent").returncode == 0
    record_calls(server)
    (newer,) = pack(tmp_path, [NEWER], epoch=EPOCH)
    upgraded = server.rpm("-U", newer)
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert server.rpm("-q", "harvest-agent").stdout == "harvest-agent-0.1.1-1.el9.x86_64\n"
    assert calls(server) == ["systemctl daemon-reload", "systemctl try-restart harvest-agent.service"]
    assert (server.root / CONFIG).read_text() == "# ours\n"
    assert [path for path in left(server) if "rpm" in path] == []
    assert (server.root / "var/lib/harvest-agent/spool").is_dir()
    assert list((server.root / "etc/systemd/system/multi-user.target.wants").iterdir()) != []
    compiled = list((server.root / "usr/lib/harvest-agent").rglob("*.pyc"))
    assert len(compiled) > 200
    assert all(path.stat().st_size for path in compiled)
    assert server.run("harvest-agent", "--help").returncode == 0


def test_removal_stops_the_agent_and_leaves_what_is_the_sites(server: Machine) -> None:
    (server.root / CONFIG).write_text("# ours\n")
    (server.root / "etc/harvest/tls.key").write_text("key")
    (server.root / "var/lib/harvest-agent/spool").mkdir()
    assert server.run("systemctl", "enable", "harvest-agent").returncode == 0
    erased = server.rpm("-e", "harvest-agent")
    assert erased.returncode == 0, erased.stderr
    assert left(server) == ["etc/harvest", "var/lib/harvest-agent"]
    assert sorted(path.name for path in (server.root / "etc/harvest").iterdir()) == ["agent.toml", "tls.key"]
    assert (server.root / CONFIG).read_text() == "# ours\n"
    assert list((server.root / "etc/systemd/system").rglob("harvest*")) == []


def test_removal_of_one_that_was_never_configured_leaves_nothing(server: Machine) -> None:
    record_calls(server)
    assert server.rpm("-e", "harvest-agent").returncode == 0
    assert left(server) == []
    assert calls(server) == ["systemctl --no-reload disable --now harvest-agent.service"]


def record_calls(server: Machine) -> None:
    """Have a systemd that runs, and only notes what it is told."""
    (server.root / "run/systemd/system").mkdir(parents=True)
    (server.root / "bin/systemctl").unlink()
    (server.root / "bin/systemctl").write_text(_RECORDER)
    (server.root / "bin/systemctl").chmod(0o755)


def calls(server: Machine) -> list[str]:
    return (server.root / "calls").read_text().splitlines()
