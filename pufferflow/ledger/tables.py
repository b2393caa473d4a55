"""The tables of a ledger, and the statements that read and append; none changes or removes a row."""

from typing import Final

import sqlalchemy as sa

metadata = sa.MetaData()

events: Final = sa.Table(
    "pufferflow_events",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
"""The log: canonical texts, each with the hash that ties it to those before."""

shapes: Final = sa.Table(
    "pufferflow_shapes",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
"""What many costs have in common."""

payloads: Final = sa.Table(
    "pufferflow_payloads",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Releases that were committed."""

migrations: Final = sa.Table(
    "pufferflow_migrations",
    sa.MetaData(),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
)
"""Which steps brought the tables to their present form. In PostgreSQL every writer locks this table, so that writers
follow each other, and no step is taken beneath one."""

NEWS: Final = (
    sa.select(events.c.number, events.c.body, events.c.hash)
    .where(events.c.number >= sa.bindparam("known"))
    .order_by(events.c.number)
)
"""The last event that is known, to see that it still is what it was, and all later ones."""
LEAST: Final = -(1 << 63)
"""The least number a row can have; those of events begin with 1, and others are found by reading them."""
LAST: Final = sa.select(events.c.number, events.c.hash).where(
    events.c.number == sa.select(sa.func.max(events.c.number)).scalar_subquery()
)
RANGE: Final = (
    sa.select(events.c.number, events.c.body)
    .where(events.c.number.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(events.c.number)
)
EVENT: Final = sa.select(events.c.body, events.c.hash).where(events.c.number == sa.bindparam("number"))
HASH: Final = sa.select(events.c.hash).where(events.c.number == sa.bindparam("number"))
SHAPE: Final = sa.select(shapes.c.body).where(shapes.c.digest == sa.bindparam("digest"))
PAYLOAD: Final = sa.select(payloads.c.body).where(payloads.c.digest == sa.bindparam("digest"))
SHAPES: Final = sa.select(shapes.c.digest, shapes.c.body)
PAYLOADS: Final = sa.select(payloads.c.digest, payloads.c.body)
ADD_EVENT: Final = sa.insert(events)
ADD_SHAPE: Final = sa.insert(shapes)
ADD_PAYLOAD: Final = sa.insert(payloads)
