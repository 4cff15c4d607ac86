"""A program: agents whose every record moves, on real streams; a sweep of all of them for each tick on its input."""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.accounting_sweeps import OPS, message
from harvest.v1.stream_pb2 import Batch, StreamRequest
from harvest_pki.certificates import bundle_pem
from harvest_pki.folders import CaFolder, Tls
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import key_pem, new_key
from support.uplinks import Agent, hello

_SECOND = 1_000_000_000
_MEBIBYTE_BITS = 20

_template = lru_cache(message)


class Sender:
    """An agent of some targets."""

    def __init__(self, number: int, targets: range, jobs: int) -> None:
        self.name = f"oss{number}"
        self._incarnation = number.to_bytes(16, "big")
        self._targets = targets
        self._jobs = jobs
        self._hello = hello(self.name, *(f"bench-OST{target:04x}" for target in targets))
        self._hello.incarnations[0].id = self._incarnation

    def sweep(self, seq: int, tick: int) -> list[bytes]:
        """Return what it sends of one sweep. Names are in the first alone; in all others only numbers differ."""
        request = StreamRequest()
        batch = request.batch
        batch.ParseFromString(_template(0, min(seq, 2), starts=True, jobs=self._jobs))
        batch.incarnation, batch.seq = self._incarnation, seq
        batch.tick_seconds, batch.period_seconds = tick, 1
        batch.read_at_nanoseconds = batch.uptime_nanoseconds = tick * _SECOND
        samples = 1000 * seq + np.arange(self._jobs * len(OPS)) % 97
        snapshot = (tick - 1) * _SECOND + np.arange(self._jobs)
        batch.jobs.snapshot.data, batch.jobs.snapshot.width = snapshot.tobytes(), 8
        batch.jobs.samples.data, batch.jobs.samples.width = samples.astype("<i4").tobytes(), 4
        sent = []
        for target, mounted in zip(self._targets, self._hello.targets, strict=True):
            batch.target.CopyFrom(mounted.target)
            batch.mount.CopyFrom(mounted.mount)
            batch.jobs.sum.data, batch.jobs.sum.width = (samples + target << _MEBIBYTE_BITS).tobytes(), 8
            sent.append(request.SerializeToString())
        end = Batch(incarnation=self._incarnation, seq=seq, tick_seconds=tick, period_seconds=1, last_of_sweep=True)
        end.end.targets.extend(self._hello.targets)
        end.end.health.clock_nanoseconds = tick * _SECOND
        return [*sent, StreamRequest(batch=end).SerializeToString()]

    async def come(self, address: str, tls: Tls) -> None:
        """Open the stream."""
        self._stream = Agent(address, tls)
        await self._stream.begin(self._hello)

    async def leave(self) -> None:
        """End the stream."""
        await self._stream.close()

    async def send(self, requests: list[bytes], seq: int) -> int:
        """Send what ends with this sweep, wait until it is durable, and return its size."""
        for request in requests:
            await self._stream.call.write(request)
        while await self._stream.acknowledged() < seq:
            pass
        return sum(map(len, requests))


def certificates(made: CaFolder, senders: list[Sender]) -> list[Tls]:
    """Give everybody a certificate for one key: to make five hundred would take its time."""
    key, trusted, now = new_key(), bundle_pem(made.bundle()), datetime.now(UTC)
    authority = made.load()
    files = []
    for serial, sender in enumerate(senders, start=1):
        holder = Identity(site="demo", kind=Kind.SERVER, name=sender.name)
        certificate = authority.issue(holder, key.public_key(), serial=serial, now=now, lifetime=None)
        files.append(Tls(certificate=bundle_pem([certificate]), key=key_pem(key), ca=trusted))
    return files


async def _all(senders: list[Sender], seq: int, tick: int) -> dict[str, int]:
    sweeps = [sender.sweep(seq, tick) for sender in senders]
    sizes = await asyncio.gather(*(sender.send(sweep, seq) for sender, sweep in zip(senders, sweeps, strict=True)))
    return {"acked": len(sizes), "bytes": sum(sizes)}


async def _come(senders: list[Sender], address: str, files: list[Tls]) -> None:
    await asyncio.gather(*(sender.come(address, tls) for sender, tls in zip(senders, files, strict=True)))


def main() -> None:
    """Answer with how many agents' sweeps were acknowledged, once for each tick."""
    os.nice(19)  # agents are on other machines: here they take what the aggregator leaves
    address, ca = sys.argv[1:3]
    first, last, targets, jobs = map(int, sys.argv[3:])
    senders = [Sender(agent, range((agent - 1) * targets, agent * targets), jobs) for agent in range(first, last + 1)]
    with asyncio.Runner() as runner:
        runner.run(_come(senders, address, certificates(CaFolder(Path(ca)), senders)))
        for seq, line in enumerate(sys.stdin, 1):
            print(json.dumps(runner.run(_all(senders, seq, int(line)))), flush=True)


if __name__ == "__main__":
    main()
