"""The ledger's tables. Nothing here is SQLite's own: PostgreSQL can hold them as they are."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION: Final = 3
"""Of these tables and of what their payloads mean. A ledger of another one is refused, never guessed at."""

schema = MetaData()

_id = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows itself only where the type is exactly INTEGER."""

batch = Table(
    "batch",
    schema,
    Column("id", _id, primary_key=True, autoincrement=True),
    Column("filesystem", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("incarnation", LargeBinary, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("part", Integer, nullable=False),
    Column("arrived_seconds", Float, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    UniqueConstraint("agent", "incarnation", "seq", "target", "part"),
    Index("batch_of_target", "filesystem", "target"),
)
"""What agents sent, as it came, until a snapshot holds it; in order of arrival."""

stream = Table(
    "stream",
    schema,
    Column("agent", Text, nullable=False),
    Column("incarnation", LargeBinary, nullable=False),
    Column("acked_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent", "incarnation"),
)
"""Up to which sweep everything of an agent's incarnation is durable."""

snapshot = Table(
    "snapshot",
    schema,
    Column("filesystem", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("server", Text, nullable=False),  # what it was called last
    Column("position", Integer, nullable=False),  # of the stay among those of its target
    Column("payload", LargeBinary, nullable=False),  # has a checksum of its own
    PrimaryKeyConstraint("filesystem", "target", "boot_id"),
)
"""A target's stay on one boot of a server: what all batches up to then came to."""

tally = Table(
    "tally",
    schema,
    Column("filesystem", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("filesystem", "target"),
)
"""What could not be known, read or placed of a target, likewise; written with its snapshots."""

job = Table(
    "job",
    schema,
    Column("cluster", Text, nullable=False),
    Column("job", LargeBinary, nullable=False),
    Column("start_seconds", BigInteger, nullable=False),  # 0 where nobody knows
    Column("user", Text),
    Column("account", Text),
    Column("end_seconds", BigInteger, nullable=False),  # where nobody knows, when it last did anything
    Column("read_bytes", BigInteger, nullable=False),
    Column("write_bytes", BigInteger, nullable=False),
    Column("iops", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster", "job", "start_seconds"),
    Index("job_by_end", "end_seconds"),
    Index("job_by_user", "user", "end_seconds"),
    Index("job_by_account", "account", "end_seconds"),
)
"""Final records of jobs that are over. The payload is what the API tells; the columns are what is asked by."""

let_go = Table(
    "let_go",
    schema,
    Column("amounts", Text, nullable=False),
)
"""One row, or none: what all jobs together did that left the snapshots when their final records were written."""

run = Table(
    "run",
    schema,
    Column("cluster", Text, nullable=False),
    Column("job", LargeBinary, nullable=False),
    Column("start_seconds", BigInteger, nullable=False),
    Column("earlier", Text, nullable=False),
    PrimaryKeyConstraint("cluster", "job"),
)
"""Jobs that are not over: when the present run began, and what earlier ones did that the snapshots hold, too."""

parked = Table(
    "parked",
    schema,
    Column("filesystem", Text, nullable=False),
    Column("kind", Text, nullable=False),  # of target
    Column("job", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("filesystem", "job", "kind"),
)
"""What jobs did of which snapshots have no records any more; added to with the snapshots that they leave."""

writer = Table("writer", schema, Column("epoch", BigInteger, nullable=False))
"""One row: who may write. Whoever opens the ledger raises the epoch, and who finds another one has lost."""

meta = Table(
    "meta",
    schema,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What this is: the version of the schema, and when the ledger was made or restored from a backup."""
