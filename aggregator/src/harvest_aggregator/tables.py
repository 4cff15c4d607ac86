"""The ledger's tables. Nothing here is SQLite's own: PostgreSQL can hold them as they are."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
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

SCHEMA_VERSION: Final = 10
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
    Column("written_seconds", BigInteger, nullable=False),  # by our own clock
    Column("read_bytes", BigInteger, nullable=False),
    Column("write_bytes", BigInteger, nullable=False),
    Column("iops", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster", "job", "start_seconds"),
    Index("job_by_end", "end_seconds"),
    Index("job_by_age", "written_seconds"),
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
    Column("filesystem", Text, nullable=False),
    Column("job", LargeBinary, nullable=False),  # Lustre's id: a site that is changed may call the job otherwise
    Column("start_seconds", BigInteger, nullable=False),  # 0 where nobody knows
    Column("earlier", Text, nullable=False),
    Column("cluster", Text),  # of whose it is; this and what follows is NULL where nobody knows
    Column("account", Text),
    Column("user", Text),
    PrimaryKeyConstraint("filesystem", "job"),
)
"""Jobs that are not over: when the present run began, whose it is, what earlier ones did that snapshots hold, too."""

owned = Table(
    "owned",
    schema,
    Column("cluster", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("outside", Boolean, nullable=False),  # any job
    Column("amounts", Text, nullable=False),
    PrimaryKeyConstraint("cluster", "account", "user", "outside"),
)
"""What runs of jobs, and days of programs outside jobs, did that are over, all together, by whose they were."""

shown = Table(
    "shown",
    schema,
    Column("sink", Text, nullable=False),
    Column("kind", Text, nullable=False),  # of what
    Column("subject", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("left_seconds", BigInteger, nullable=False),  # 0 while it is shown
    PrimaryKeyConstraint("sink", "kind", "subject"),
)
"""What a sink has shown that counts: from which total on, so that it never shows less, nor anything twice."""

fact = Table(
    "fact",
    schema,
    Column("cluster", Text, nullable=False),
    Column("kind", Text, nullable=False),  # a job, or a user
    Column("number", BigInteger, nullable=False),  # Slurm's, or a uid
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster", "kind", "number"),
)
"""What Slurm said last of jobs that are not over, and who has which uid: it may be away when the aggregator begins."""

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

relayed = Table(
    "relayed",
    schema,
    Column("filesystem", Text, primary_key=True),
    Column("checksum", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""The highest totals that relays ever told of the nodes of a file system: what is lower later is held there. And what
of nodes' totals is in no counter, also while it is the site's own."""

writer = Table("writer", schema, Column("epoch", BigInteger, nullable=False))
"""One row: who may write. Whoever opens the ledger raises the epoch, and who finds another one has lost."""

meta = Table(
    "meta",
    schema,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What this is: the version of the schema, and when the ledger was made or restored from a backup."""
