"""Text of a small 2.15.8 job_stats file, for tests that need some, not a certain one."""

from pathlib import Path


def record(job: str, *, written: int = 1, start: int = 1_699_990_000, header: bool = True) -> bytes:
    """Return one record of an OST that wrote this many times one MiB."""
    size = 1 << 20
    times = f"  start_time:      {start}.000000007 secs.nsecs\n  elapsed_time:    10.000000000 secs.nsecs\n"
    zero = (
        "samples:           0, unit: {}, min:        0, max:        0, sum:                0, sumsq:                  0"
    )
    return (
        f"- job_id:          {job}\n"
        f"  snapshot_time:   {start + written}.000000005 secs.nsecs\n"
        + (times if header else "")
        + f"  read_bytes:      {{ {zero.format('bytes')} }}\n"
        f"  write_bytes:     {{ samples: {written:11}, unit: bytes, min: {size:8}, max: {size:8}, "
        f"sum: {written * size:16}, sumsq: {written * size * size:18} }}\n"
        f"  getattr:         {{ {zero.format('usecs')} }}\n"
    ).encode()


def job_stats(*records: bytes) -> bytes:
    """Return a whole file."""
    return b"job_stats:\n" + b"".join(records)


def put(root: Path, path: str, content: bytes | str) -> Path:
    """Write a file of a server's tree and return its path."""
    full = root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content if isinstance(content, bytes) else content.encode())
    return full
