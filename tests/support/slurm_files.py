"""What the daemons of a test's Slurm read, and the ports they listen on."""

import contextlib
import random
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

_SLURM = """
ClusterName={name}
SlurmctldHost=localhost
SlurmctldPort={ports[slurmctld]}
SlurmUser=root
SlurmdUser=root
# the daemons' host name is localhost: they listen at what it stands for
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge
{tokens}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=10
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
MinJobAge={min_job_age}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={ports[slurmdbd]}
AccountingStoragePass={folder}/munge
AccountingStorageEnforce=associations
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=1:00:00 State=UP
PartitionName=debug Nodes=n4 MaxTime=5:00 State=UP
"""

_SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge
{tokens}
CommunicationParameters=NoInAddrAny
DbdHost=localhost
DbdPort={ports[slurmdbd]}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports[mariadbd]}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
CommitDelay=1
"""


def slurm_conf(
    folder: Path, name: str, ports: Mapping[str, int], nodes: Sequence[str], min_job_age: int, tokens: str
) -> str:
    """Return a slurm.conf of nodes that are all this machine."""
    here = "NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=16000 State=UNKNOWN"
    lines = "\n".join(f"NodeName={node} Port={ports[node]} {here}" for node in nodes)
    return _SLURM.format(folder=folder, name=name, ports=ports, nodes=lines, min_job_age=min_job_age, tokens=tokens)


def slurmdbd_conf(folder: Path, ports: Mapping[str, int], tokens: str) -> str:
    return _SLURMDBD.format(folder=folder, ports=ports, tokens=tokens)


def tokens_conf(folder: Path) -> str:
    """Return the lines of both files that let a JWT stand for a user."""
    return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={folder}/jwt.key"


def free_ports(count: int) -> range:
    """Return ports in a row that nobody has; no outgoing connection is ever given one of these."""
    while True:
        first = random.SystemRandom().randrange(10000, 32000)
        block = range(first, first + count)
        with contextlib.ExitStack() as held:
            try:
                for port in block:
                    held.enter_context(socket.create_server(("", port)))
            except OSError:
                continue
            return block
