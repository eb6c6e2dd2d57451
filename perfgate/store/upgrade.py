"""Room ``store``: brings a database to the schema that this code speaks, or refuses it untouched.

In: a :class:`~perfgate.store.database.Database`. Out: nothing; afterwards its schema is ``HEAD``.

The revision stands in the table ``perfgate_version`` (Alembic's own, under our name, so that a shared
server's other programs are left alone). Alembic is only imported when there is something to do.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.orm import Session

import perfgate
from perfgate.errors import StoreError
from perfgate.store.database import Database
from perfgate.store.schema import VERSION_TABLE, Upgrade

HEAD = "0001"

_HEADER_BYTES = 100
_MIGRATIONS = Path(__file__).parent / "migrations"


def prepare(database: Database) -> None:
    """Create or upgrade the tables. Raises StoreError for what is not ours, newer, damaged or unwritable."""
    _refuse_stub(database)
    with database.transaction() as session:
        current = _revision(database, session) == HEAD
    if not current:
        try:
            with database.transaction(write=True) as session:
                # Looked at again now that the lock is held: another process may have been first.
                if _revision(database, session) != HEAD:
                    _upgrade(session.connection())
        except StoreError:
            # Where making tables takes no lock (PostgreSQL), the loser of a race finds the winner's tables.
            with database.transaction() as session:
                if database.is_sqlite or _revision(database, session) != HEAD:
                    raise
    database.use_write_ahead_log()


def _refuse_stub(database: Database) -> None:
    """SQLite takes a file of one byte for an empty one and would overwrite it; an empty file is fine."""
    path = Path(database.name)
    size = path.stat().st_size if database.is_sqlite and path.is_file() else 0
    if 0 < size < _HEADER_BYTES:
        detail = f"{size} bytes are too few"
        raise database.damaged(detail)


def _revision(database: Database, session: Session) -> str | None:
    """The schema found; None where there is none yet."""
    tables = inspect(session.connection()).get_table_names()
    if database.is_sqlite and tables:
        result = session.execute(text("PRAGMA quick_check(1)")).scalar()
        if result != "ok":
            raise database.damaged(str(result).strip().splitlines()[-1])
    if VERSION_TABLE not in tables:
        if database.is_sqlite and tables:
            detail = f"it holds the tables {', '.join(sorted(tables)[:5])} of another program"
            raise database.damaged(detail)
        return None
    revision = session.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
    if revision is None:
        return None
    if str(revision) > HEAD:
        raise _newer(database, session, str(revision))
    return str(revision)


def _newer(database: Database, session: Session, revision: str) -> StoreError:
    wanted = session.execute(select(Upgrade.perfgate).where(Upgrade.revision == revision)).scalar()
    install = f"pip install 'perfgate>={wanted}'" if wanted else "pip install --upgrade perfgate"
    return StoreError(
        f"{database.name} has schema {revision}, and perfgate {perfgate.__version__} knows schemas up to {HEAD}; "
        f"run: {install}; nothing was changed"
    )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, HEAD)
