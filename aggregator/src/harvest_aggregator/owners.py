"""Whose runs of jobs are, and what each did in runs that are over."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert  # PostgreSQL's has the same methods

from harvest.v1.stream_pb2 import SlurmJob
from harvest_aggregator.amounts import Amounts, dump, load, plus
from harvest_aggregator.tables import owned


class Owner(NamedTuple):
    """An account's user on one cluster. A run is nobody else's once it is known whose it is."""

    cluster: str
    account: str
    """Empty where Slurm has none."""
    user: str
    outside: bool = False
    """Of what is run outside jobs, which has no account."""


Owned = Mapping[Owner, Amounts]
"""What runs did that are over, all together; replaced, never changed."""


def owner_of(cluster: str, job: SlurmJob | None) -> Owner | None:
    """Return whose a job is, as far as Slurm says."""
    return Owner(cluster, job.account, job.user) if job is not None and job.user else None


def with_more(done: Owned, owner: Owner | None, amounts: Amounts) -> Owned:
    """Return the same with another run that is over; what is nobody's is left out."""
    return done if owner is None else {**done, owner: plus(done.get(owner, {}), amounts)}


def read_owned(connection: Connection) -> Iterator[tuple[Owner, Amounts]]:
    """Return what was written."""
    for *owner, amounts in connection.execute(select(owned)):
        yield Owner(*owner), load(amounts)


def write_owned(connection: Connection, done: Owned, before: Owned) -> None:
    """Write what is other than it was before."""
    rows = [
        {**owner._asdict(), "amounts": dump(amounts)}
        for owner, amounts in done.items()
        if before.get(owner) is not amounts
    ]
    if rows:
        row = insert(owned)
        changed = {"amounts": row.excluded.amounts}
        connection.execute(row.on_conflict_do_update(index_elements=owned.primary_key, set_=changed), rows)
