"""A thread for each aggregator: connects, sends from the spool, hears what is durable, and tries again."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what is wrong is told by the errors, in our own words

import grpc

from harvest.v1.stream_pb2 import StreamResponse
from harvest_agent.config import ConfigError, UplinkSettings
from harvest_agent.conversations import Conversation, JobFeed, RefusedError, Speaker
from harvest_agent.credentials import Credentials, TlsFiles
from harvest_agent.cursors import Wishes
from harvest_agent.logs import say
from harvest_agent.segments import DamagedError, UnreadableError
from harvest_agent.shelf import Shelf
from harvest_agent.timing import BackOff

_METHOD: Final = "/harvest.v1.HarvestService/Stream"
_WELCOME_SECONDS: Final = 30.0
_SLOW_SECONDS: Final = 60.0
"""Before asking again somebody who has refused us until something is changed."""
_DISK_SECONDS: Final = 10.0
"""Before trying again to read what could not be read."""
_TEXT_MOST: Final = 300
_REFUSALS: Final = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 1 << 20),
)


def key_of(settings: UplinkSettings) -> str:
    """Return the name of an uplink in the spool and in logs."""
    return f"{settings.address}/{settings.server_name}"


class Uplink:
    """The way to one aggregator."""

    def __init__(
        self,
        settings: UplinkSettings,
        *,
        files: TlsFiles,
        agent: str,
        software: str,
        shelf: Shelf,
        speaker: Speaker,
        on_welcome: Callable[[], None],
        new_feed: Callable[[], JobFeed] | None = None,
    ) -> None:
        self.key = key_of(settings)
        self._settings = settings
        self._files = files
        self._agent = agent
        self._software = software
        self._shelf = shelf
        self._speaker = speaker
        self._on_welcome = on_welcome
        self._new_feed = new_feed
        self._changed = threading.Condition()
        self._is_stopped = False
        self._is_hurried = False
        self._call: grpc.Call | None = None
        self._trouble: str | None = None
        self._unreadable: str | None = None
        self.is_connected = False
        self._thread = threading.Thread(target=self._run, name=f"uplink {self.key}", daemon=True)

    @property
    def wishes(self) -> Wishes | None:
        """As the aggregator wishes; unknown before it was ever reached."""
        return self._shelf.wishes(self.key)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def problems(self) -> list[str]:
        """Return what is wrong, for a person."""
        found = (self._trouble, self._unreadable, self._files.current.problem(datetime.now(UTC)))
        return [f"{self.key}: {problem}" for problem in found if problem is not None]

    def wake(self) -> None:
        """Look again for what can be sent."""
        with self._changed:
            self._changed.notify_all()

    def reconnect(self, reason: str) -> None:
        """Begin another stream at once."""
        say("uplink.reconnect", uplink=self.key, reason=reason)
        self._hurry()

    def check_files(self) -> None:
        """Connect anew if the TLS files have changed, and are good."""
        try:
            if self._files.refresh():
                self.reconnect("TLS files changed")
        except ConfigError as error:
            self._blame(f"the new TLS files cannot be used: {error}")

    def stop(self, limit_seconds: float) -> None:
        """End the stream."""
        self._is_stopped = True
        self._hurry()
        self._thread.join(limit_seconds)

    def _hurry(self) -> None:
        with self._changed:
            self._is_hurried = True
            self._cancel()
            self._changed.notify_all()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _run(self) -> None:
        back_off = BackOff()
        while not self._is_stopped:
            self._is_hurried = False
            least_seconds = self._attempt(back_off)
            self.is_connected = False
            wait_seconds = back_off.seconds(random.random(), least=least_seconds)  # noqa: S311 - only spreads agents
            with self._changed:
                self._changed.wait_for(lambda: self._is_hurried or self._is_stopped, wait_seconds)

    def _attempt(self, back_off: BackOff) -> float:
        """Hold one stream until it ends; return how long to wait at least."""
        try:
            self._stream(self._files.current, back_off)
        except RefusedError as error:
            self._blame(f"refused: {error}")
            return error.retry_after_seconds or _SLOW_SECONDS
        except grpc.RpcError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - a bug, or a disk that fails: without its thread the uplink were dead for ever
            self._blame(f"{type(error).__name__}: {error}")
            return _SLOW_SECONDS
        else:
            self._blame("the aggregator ended the stream")
        return 0.0

    def _failed(self, error: grpc.RpcError) -> float:
        code = error.code()
        if code is grpc.StatusCode.CANCELLED:
            if self._unreadable is not None:
                return _DISK_SECONDS
            if not self._is_hurried:
                self._blame(f"no answer to our Hello in {_WELCOME_SECONDS:.0f} s")
            return 0.0
        if code in _REFUSALS:
            self._blame(f"refused: {error.details()}")
            return _SLOW_SECONDS
        self._blame(f"{code.name}: {error.details()}")
        return 0.0

    def _stream(self, credentials: Credentials, back_off: BackOff) -> None:
        conversation = Conversation(self.key, self._shelf, self._speaker, self._new_feed)
        ended = threading.Event()
        channel = grpc.secure_channel(
            self._settings.address,
            grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate),
            options=(*_OPTIONS, ("grpc.ssl_target_name_override", self._settings.server_name)),
        )
        stream: grpc.StreamStreamMultiCallable[bytes, StreamResponse] = channel.stream_stream(
            _METHOD, response_deserializer=StreamResponse.FromString
        )
        call = stream(self._requests(conversation, ended))
        with self._changed:
            self._call = call
            if self._is_hurried or self._is_stopped:
                call.cancel()
        limit = threading.Timer(_WELCOME_SECONDS, call.cancel)
        limit.daemon = True
        limit.start()
        try:
            for response in call:
                with self._changed:
                    was_welcome = conversation.is_welcome
                    conversation.hear(response)
                    self._changed.notify_all()
                if response.WhichOneof("message") == "welcome":
                    limit.cancel()
                    self._welcomed(conversation, back_off, is_first=not was_welcome)
        finally:
            limit.cancel()
            with self._changed:
                self._call = None
                ended.set()
                conversation.close()
                self._changed.notify_all()
            call.cancel()
            channel.close()

    def _welcomed(self, conversation: Conversation, back_off: BackOff, *, is_first: bool) -> None:
        if is_first:
            say("uplink.connected", uplink=self.key, interval_seconds=conversation.interval_seconds)
        back_off.succeeded()
        self._trouble = None
        self.is_connected = True
        self._on_welcome()

    def _requests(self, conversation: Conversation, ended: threading.Event) -> Iterator[bytes]:
        """Yield messages as they become possible; gRPC asks for them in a thread of its own."""
        yield conversation.hello(agent=self._agent, software=self._software, clock_nanoseconds=time.time_ns())
        while (request := self._next(conversation, ended)) is not None:
            yield request

    def _next(self, conversation: Conversation, ended: threading.Event) -> bytes | None:
        with self._changed:
            while not ended.is_set():
                try:
                    request = conversation.next()
                except DamagedError:  # a part of the sweep may be on its way: only another stream makes that undone
                    self._is_hurried = True
                    self._cancel()
                    return None
                except UnreadableError as error:
                    self._cannot_read(error)
                    self._cancel()
                    return None
                if request is not None:
                    self._unreadable = None
                    return request
                self._changed.wait()
        return None

    def _cannot_read(self, error: UnreadableError) -> None:
        """Keep in mind until something was read again that nothing can be sent."""
        text = f"nothing is sent while the spool cannot be read: {error}"[:_TEXT_MOST]
        if text != self._unreadable:
            say("uplink.trouble", uplink=self.key, reason=text)
        self._unreadable = text

    def _blame(self, trouble: str) -> None:
        text = trouble[:_TEXT_MOST]
        if text != self._trouble:
            say("uplink.trouble", uplink=self.key, reason=text)
        self._trouble = text
