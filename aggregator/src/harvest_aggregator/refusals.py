"""Why a stream ends before its agent wanted it to."""

from typing import Final

from harvest.v1.stream_pb2 import Refusal, RefusalReason, RelayRefusalReason

CLONE: Final = RefusalReason.REFUSAL_REASON_CLONE
TARGET_TAKEN: Final = RefusalReason.REFUSAL_REASON_TARGET_TAKEN
PROTOCOL: Final = RefusalReason.REFUSAL_REASON_PROTOCOL
NOT_READY: Final = RefusalReason.REFUSAL_REASON_NOT_READY
DENIED: Final = "denied"


class DeniedError(Exception):
    """The certificate does not let its holder in, or no more: PERMISSION_DENIED."""


class RefusedError(Exception):
    """The agent may come, but not now or not like this."""

    def __init__(self, reason: RefusalReason.ValueType, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.label: Final = label(reason)
        self.refusal: Final = Refusal(reason=reason, message=message, retry_after_seconds=retry_after_seconds)


def label(reason: RefusalReason.ValueType) -> str:
    """Return a reason as metrics name it."""
    return RefusalReason.Name(reason).removeprefix("REFUSAL_REASON_").lower()


LABELS: Final = (DENIED, *map(label, (CLONE, TARGET_TAKEN, PROTOCOL, NOT_READY)))
"""Every reason, as metrics name it."""


def relay_label(reason: RelayRefusalReason.ValueType) -> str:
    """Return why a relay is refused, as metrics name it."""
    return RelayRefusalReason.Name(reason).removeprefix("RELAY_REFUSAL_REASON_").lower()


RELAY_LABELS: Final = (DENIED, *map(relay_label, RelayRefusalReason.values()[1:]))
"""Likewise of relays; the first is none."""


class NonsenseError(RefusedError):
    """What came is not what an agent says: a mistake in one of the two programs, or no agent."""

    def __init__(self, message: str) -> None:
        super().__init__(PROTOCOL, message, retry_after_seconds=60)


class ReplacedError(Exception):
    """The same agent began another stream."""


def not_ready(why: Exception | str) -> RefusedError:
    """Send an agent away for a while: it keeps what it has."""
    return RefusedError(NOT_READY, str(why), retry_after_seconds=10)
