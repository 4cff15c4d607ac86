"""Who a uid is and what a gid is called, where the agent runs; asked in a thread of its own, for it may take long."""

import grp
import pwd
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from harvest_core.slurm.jobs import text

_KNOWN_SECONDS: Final = 3600.0
_UNKNOWN_SECONDS: Final = 600.0
_MOST: Final = 65536

User = tuple[str, int, str]
"""Name, primary gid, its group's name; empty: nobody has the uid."""


class SystemNames:
    """Answers from memory, at once; what is not there is looked up behind the scenes, and an answer is kept a while."""

    def __init__(
        self,
        on_user: Callable[[int, User], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_user = on_user
        self._clock = clock
        self._changed = threading.Condition()
        self._wanted: OrderedDict[tuple[str, int], bool] = OrderedDict()
        self._known: OrderedDict[tuple[str, int], tuple[float, User]] = OrderedDict()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="names", daemon=True)

    def start(self) -> None:
        """Begin to look up."""
        self._thread.start()

    def stop(self) -> None:
        """Look up nothing more; one that takes long is not waited for."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def user(self, uid: int) -> str:
        """Return a user's name, if it is known already."""
        return self._get("user", uid)[0]

    def group(self, gid: int) -> str:
        """Return a group's name, if it is known already."""
        return self._get("group", gid)[2]

    def ask(self, uid: int) -> None:
        """Say who this is as soon as it is known."""
        with self._changed:
            self._want(("user", uid), is_asked=True)

    def _get(self, kind: str, number: int) -> User:
        with self._changed:
            until, known = self._known.get((kind, number), (0.0, ("", 0, "")))
            if until <= self._clock():
                self._want((kind, number), is_asked=False)
            return known

    def _want(self, key: tuple[str, int], *, is_asked: bool) -> None:
        if key in self._wanted or len(self._wanted) < _MOST:
            self._wanted[key] = self._wanted.get(key, False) or is_asked
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._is_stopped:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._is_stopped)
            if not self._is_stopped:
                self.look_up_one()

    def look_up_one(self) -> bool:
        """Ask the system for one that is wanted; False: none is."""
        with self._changed:
            if not self._wanted:
                return False
            (kind, number), is_asked = self._wanted.popitem(last=False)
            until, found = self._known.get((kind, number), (0.0, ("", 0, "")))
        if until <= self._clock():
            found = self._found(kind, number)
            self._keep((kind, number), found)
        if is_asked:
            self._on_user(number, found)
        return True

    def _keep(self, key: tuple[str, int], found: User) -> None:
        is_known = any(found)
        with self._changed:
            self._known[key] = (self._clock() + (_KNOWN_SECONDS if is_known else _UNKNOWN_SECONDS), found)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    def _found(self, kind: str, number: int) -> User:
        try:
            if kind == "group":
                return "", number, text(grp.getgrgid(number).gr_name)
            user = pwd.getpwuid(number)
        except (KeyError, OverflowError, OSError):
            return "", 0, ""
        return text(user.pw_name), user.pw_gid, self._found("group", user.pw_gid)[2]
