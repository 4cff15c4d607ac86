"""The agent runs on file servers, where there is no numpy."""

import subprocess
import sys

BLOCKED = """
import sys
sys.modules["numpy"] = None
"""
IMPORTS = """
import harvest_core.differences, harvest_core.facts, harvest_core.job_ids, harvest_core.merging, harvest_core.wire
import harvest_core.lustre.columns, harvest_core.lustre.counters, harvest_core.lustre.job_ids
import harvest_core.lustre.job_stats, harvest_core.lustre.lctl, harvest_core.lustre.names, harvest_core.lustre.stats
import harvest_agent, harvest_agent.__main__, harvest_agent.scan
"""
WORK = """
from harvest.v1.stream_pb2 import Batch
from harvest_agent.scan import JobScanner, Pure
from harvest_core.differences import Differences
from harvest_core.facts import OST, Facts, Mount
from harvest_core.lustre.columns import Codes
from harvest_core.merging import merged
from harvest_core.wire import concatenated, joined, plain, read, write

codes = Codes()
scanner = JobScanner(Pure(), bytearray(1 << 16), codes)
differences = Differences(codes)
reads = []
for seq in range(1, 6):
    text = b"job_stats:\\n- job_id:          a\\n  snapshot_time:   %d\\n" % (1000 + seq)
    text += b"  write_bytes:     { samples: %d, unit: bytes, min: 1, max: %d, sum: %d }\\n" % (seq, seq, 10 * seq)
    rest = iter([text])

    def read_into(view):
        piece = next(rest, b"")
        view[: len(piece)] = piece
        return len(piece)

    about = Facts(
        incarnation=b"i", seq=seq, tick_seconds=20 * seq, period_seconds=20, kind=OST, target="fs-OST0000",
        mount=Mount(server="s", boot_id="b", instance=1), complete=True, read_at=seq, uptime=seq,
        lustre_version=(2, 12, 9), cleanup_interval_seconds=600,
    )
    spooled = []
    for part in differences.facts(about, scanner.read(read_into), scanner):
        message = Batch()
        write(message, part)
        spooled.append(message.SerializeToString())
    reads.append(joined([read(Batch.FromString(message), plain) for message in spooled], concatenated))
for facts in merged(reads):
    message = Batch()
    write(message, facts)
    if facts.moved.slot:
        columns = (message.jobs.sum, message.jobs.continuous, message.jobs.maximum)
        print(message.seq, *(list(column.data) for column in columns))
"""


def run(script: str) -> str:
    ran = subprocess.run([sys.executable, "-c", BLOCKED + script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_what_the_agent_uses_imports_without_numpy() -> None:
    run(IMPORTS)


def test_what_the_agent_uses_works_without_numpy() -> None:
    assert run(WORK).splitlines() == ["1 [10] [] [1]", "5 [50] [1] [5]"]


def test_the_accounting_does_need_numpy() -> None:
    """Else this file would test nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED + "import harvest_core.accounting.apply"], capture_output=True, check=False
    )
    assert ran.returncode != 0
