"""A small aggregator that keeps everything in memory, for tests of real agents: real sockets, real mTLS."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from typing_extensions import override

from harvest.v1.stream_pb2 import Batch, Hello, JobTable, StreamRequest, StreamResponse
from harvest.v1.stream_pb2_grpc import HarvestServiceServicer, add_HarvestServiceServicer_to_server
from harvest_pki.authorities import Authority
from harvest_pki.folders import CaFolder
from harvest_pki.keys import new_key, new_serial

SERVER_NAME = "main.example.harvest"
LIMIT_SECONDS = 60.0


def wait_for(condition: Callable[[], bool], what: str, limit_seconds: float = LIMIT_SECONDS) -> None:
    """Wait until something is so, or fail."""
    end = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < end, f"waited {limit_seconds} s in vain: {what}"
        time.sleep(0.02)


def make_ca(folder: Path) -> CaFolder:
    """Make a site's CA with an aggregator's certificate in ``tls`` beside it."""
    ca = CaFolder(folder / "ca")
    now = datetime.now(UTC).replace(microsecond=0)
    authority = Authority.create("example", key=new_key(), serial=new_serial(), now=now, lifetime=timedelta(days=30))
    ca.create(authority)
    ca.write_server(folder / "tls", "main", now=now)
    return ca


@dataclass
class Receiver(HarvestServiceServicer):
    """What an aggregator does at the least: welcomes, keeps, acknowledges; each a switch for tests."""

    interval_seconds: int = 1
    filesystems: tuple[str, ...] = ("fs",)
    acknowledges: bool = True
    full_picture: bool = False
    job_table: bool = False
    refusal: StreamResponse | None = None
    cut_after: int | None = None
    """End the stream after so many batches."""
    hellos: list[Hello] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    tables: list[JobTable] = field(default_factory=list)
    durable: dict[bytes, int] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)
    streams: int = 0

    def __post_init__(self) -> None:
        self._guard = threading.Lock()
        self._answers: list[queue.Queue[StreamResponse | None]] = []

    @override
    def Stream(
        self, request_iterator: Iterator[StreamRequest], context: grpc.ServicerContext
    ) -> Iterator[StreamResponse]:
        self.identities += [name.decode() for name in context.peer_identities() or ()]
        answers: queue.Queue[StreamResponse | None] = queue.Queue()
        with self._guard:
            self._answers.append(answers)
            self.streams += 1
        threading.Thread(target=self._take_in, args=(request_iterator, answers), daemon=True).start()
        while (answer := answers.get()) is not None:
            yield answer

    def say(self, answer: StreamResponse) -> None:
        """Say something on the newest stream."""
        self._answers[-1].put(answer)

    def ask(self, *jobs: int, uids: tuple[int, ...] = ()) -> None:
        """Ask about jobs and users."""
        answer = StreamResponse()
        answer.job_question.jobs.extend(jobs)
        answer.job_question.uids.extend(uids)
        self.say(answer)

    def welcome(self) -> StreamResponse:
        answer = StreamResponse()
        answer.welcome.interval_seconds = self.interval_seconds
        answer.welcome.full_picture = self.full_picture
        answer.welcome.job_table = self.job_table
        for fsname in self.filesystems:
            answer.welcome.filesystems.add(fsname=fsname)
        for incarnation in self.hellos[-1].incarnations:
            answer.welcome.resume.add(incarnation=incarnation.id, seq=self.durable.get(incarnation.id, 0))
        return answer

    def _take_in(self, requests: Iterator[StreamRequest], answers: "queue.Queue[StreamResponse | None]") -> None:
        taken = 0
        try:
            for request in requests:
                if request.HasField("hello"):
                    self.hellos.append(request.hello)
                    answers.put(self.refusal or self.welcome())
                    if self.refusal is not None:
                        break
                    continue
                if request.HasField("job_table"):
                    self.tables.append(request.job_table)
                    continue
                batch = request.batch
                with self._guard:
                    self.batches.append(batch)
                taken += 1
                if taken == self.cut_after:
                    self.cut_after = None
                    break
                if batch.last_of_sweep and self.acknowledges:
                    self.durable[batch.incarnation] = batch.seq
                    answer = StreamResponse()
                    answer.ack.incarnation, answer.ack.seq = batch.incarnation, batch.seq
                    answers.put(answer)
        except grpc.RpcError:
            pass
        finally:
            answers.put(None)

    def sweeps(self) -> list[Batch]:
        """Return the end of every sweep that came."""
        with self._guard:
            return [batch for batch in self.batches if batch.last_of_sweep]


def serve(receiver: Receiver, tls: Path, *, port: int = 0) -> tuple[grpc.Server, int]:
    """Let a receiver listen on loopback; return the server and its port."""
    server = grpc.server(ThreadPoolExecutor(8))
    add_HarvestServiceServicer_to_server(receiver, server)
    pair = ((tls / "tls.key").read_bytes(), (tls / "tls.crt").read_bytes())
    credentials = grpc.ssl_server_credentials([pair], (tls / "ca.crt").read_bytes(), require_client_auth=True)
    bound = server.add_secure_port(f"127.0.0.1:{port}", credentials)
    server.start()
    return server, bound
