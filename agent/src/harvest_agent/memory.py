"""How the agent's memory is kept small."""

import ctypes
from contextlib import suppress
from typing import Final

_M_ARENA_MAX: Final = -8
"""As glibc's malloc.h has it."""


def share_one_heap() -> None:
    """Let all threads have one heap: glibc gives each its own, where what was used once is never given back.

    Call it before there are threads. They hardly ever allocate at the same time here.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
