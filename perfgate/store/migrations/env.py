"""Room ``store``: run by Alembic to apply migrations on the connection that ``upgrade`` hands over.

The connection is already inside the transaction that the caller commits, so a migration that fails
half-way leaves the database as it was.
"""

from __future__ import annotations

from alembic import context

from perfgate.store.schema import VERSION_TABLE, Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
