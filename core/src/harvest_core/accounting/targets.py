"""One target of a file system, wherever it was mounted: its stays, and what was lost between them."""

import numpy as np

from harvest_core.accounting.apply import OutOfOrderError, Stay, Work, apply
from harvest_core.accounting.mounts import NEVER, Integers, MountState
from harvest_core.facts import Facts

StayKey = str
"""The boot id of a server's kernel, which no two share; what the server is called may change while it is up."""


class TargetAccount:
    """All that is known of a target. Its mounts are put in order by their ticks, whenever their facts come.

    Nobody saw what was done between the last read of a mount and the first of the next one. That time is counted, and
    the jobs that were there are named, as soon as the next one shows up: the old server's agent may hold later reads,
    or be gone for good. If such reads come after all, the time that they cover was counted too early and is taken off
    what is counted next; a job stays named. So both are upper bounds, and exact where facts come in order. (Before
    2.5.3 nothing tells two mounts on one boot of a server apart: they are as one that was read all the time.)
    """

    def __init__(self, stays: dict[StayKey, Stay] | None = None, *, seen_after_all_seconds: int = 0) -> None:
        self.stays: dict[StayKey, Stay] = {} if stays is None else stays
        self.seen_after_all_seconds = seen_after_all_seconds
        """Counted as unseen before late facts covered it."""

    def apply(self, facts: Facts) -> Work:
        """Take in one read, as ``apply`` does, of whichever stay."""
        key = facts.mount.boot_id
        stay = self.stays.get(key, Stay())
        _refuse_earlier(stay, facts)
        orders = {id(mount): mount.order for _, mount in stay.mounts}
        whole = {id(mount) for _, mount in stay.mounts if mount.whole_tick != NEVER}
        unread_seconds = self._unread_seconds()
        work = apply(stay, facts)
        if work.mount is None:
            return work
        self.stays[key] = stay
        mounts = self._mounts()
        place = mounts.index(work.mount)
        incomplete = set(work.incomplete_jobs)
        if id(work.mount) not in whole and len(mounts) > 1:
            # whoever is on either side of the time that nobody saw: by clocks that may be wrong, so of all the others
            for mount in mounts:
                incomplete |= _jobs(mount, mount.order)
            for mount in mounts[place : place + 2]:
                incomplete |= _jobs(mount, _shown(mount)) | mount.opening
        elif id(work.mount) not in whole:
            work.mount.opened[_shown(work.mount)] = True
        if _may_be_over(work.mount, mounts):  # who is new in it may have worked until its end, too
            order = orders.get(id(work.mount), np.zeros(0, np.int64))
            incomplete |= _jobs(work.mount, np.setdiff1d(work.mount.order, order))
        work.incomplete_jobs = sorted(incomplete)
        unseen_seconds = work.unseen_seconds + self._unread_seconds() - unread_seconds
        work.unseen_seconds = max(unseen_seconds - self.seen_after_all_seconds, 0)
        self.seen_after_all_seconds = max(self.seen_after_all_seconds - unseen_seconds, 0)
        return work

    def _mounts(self) -> list[MountState]:
        """Return all mounts in the order in which they were first read."""
        mounts = [mount for stay in self.stays.values() for _, mount in stay.mounts]
        return sorted(mounts, key=lambda mount: mount.first_tick)

    def _unread_seconds(self) -> int:
        """Return all the time between two mounts: some in any case, even if the clocks of two servers deny it."""
        mounts = self._mounts()
        unread = 0
        until = _last_tick(mounts[0]) if mounts else 0
        for mount in mounts[1:]:
            unread += max(mount.first_tick - until, 1)
            until = max(until, _last_tick(mount))
        return unread


def _refuse_earlier(stay: Stay, facts: Facts) -> None:
    """Refuse what an incarnation unknown so far read before what is known: of one kernel, facts come in order.

    An agent sends its own in order. These are from another one's spool: its lower counters would look like another
    life. How long a server is up tells, whatever happens to its clock.
    """
    if stay.mounts and facts.incarnation not in stay.applied:
        clock = stay.mounts[-1][1].clock
        if clock is not None and facts.uptime < clock[1]:
            raise OutOfOrderError("it was read earlier than what is known of this boot of the server")


def _may_be_over(mount: MountState, mounts: list[MountState]) -> bool:
    """Tell whether another mount began later: by the clocks as they are now, or as they were before they were set."""
    last = max(mounts, key=lambda other: other.first_tick - other.moved_seconds)
    return mount is not mounts[-1] or mount is not last


def _last_tick(mount: MountState) -> int:
    """Return until when a mount was read: what a read that was cut short did not reach, nobody saw."""
    return mount.last_tick if mount.whole_tick == NEVER else mount.whole_tick


def _shown(mount: MountState) -> Integers:
    """Return all records that a mount has shown so far."""
    return np.flatnonzero(mount.seen_tick[: len(mount.jobs)] != NEVER)


def _jobs(mount: MountState, rows: Integers) -> set[bytes]:
    return {mount.jobs[row] for row in rows}
