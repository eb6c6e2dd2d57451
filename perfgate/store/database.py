"""Room ``store``: the one place that begins, commits, rolls back and translates database errors.

In: a database URL. Out: sessions inside a transaction; every fault of SQLAlchemy or SQLite leaves as
a :class:`~perfgate.errors.StoreError` that names the database and the remedy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from perfgate.errors import StoreError

_WRITE = "perfgate_write"


class RacedError(StoreError):
    """Another process wrote the same key in between; the transaction was rolled back and may be tried again."""


class Database:
    """An engine with this project's settings. ``busy_s``: seconds to wait for a lock (SQLite)."""

    def __init__(self, url: URL, *, busy_s: float = 30.0) -> None:
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.name = (url.database or "") if self.is_sqlite else url.render_as_string(hide_password=True)
        self._engine: Engine | None = _sqlite(url, busy_s) if self.is_sqlite else _server(url, self.name)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Session]:
        """A session that commits when the block ends and rolls back when it raises.

        Raises :class:`RacedError` where a unique key was taken meanwhile, StoreError for every other fault.
        """
        if self._engine is None:
            msg = f"{self.name}: the store is closed; open it again"
            raise StoreError(msg)
        engine = self._engine.execution_options(**{_WRITE: write})
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except IntegrityError as error:
            msg = f"{self.name}: {_first_line(error)}; try again"
            raise RacedError(msg) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(self._explain(error)) from error

    def use_write_ahead_log(self) -> None:
        """Let readers and one writer work at the same time (SQLite); kept in the file from then on."""
        if not self.is_sqlite or self._engine is None:
            return
        try:
            with closing(self._engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("PRAGMA journal_mode")
                row = cursor.fetchone()
                if row is not None and row[0] != "wal":
                    cursor.execute("PRAGMA journal_mode=WAL")
        except (SQLAlchemyError, sqlite3.Error) as error:
            # In use by another process, which makes the same switch; without it writers only wait longer.
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreError(self._explain(error)) from error

    def damaged(self, detail: str) -> StoreError:
        """The error for a file that holds something else or was damaged."""
        return StoreError(
            f"{self.name} is not a perfgate database, or is damaged ({detail}); "
            "move it away or restore it from a copy; nothing was changed"
        )

    def close(self) -> None:
        """Close all connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _explain(self, error: SQLAlchemyError | sqlite3.Error) -> str:
        detail = _first_line(error)
        match _code(error):
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return str(self.damaged(detail))
            case sqlite3.SQLITE_FULL:
                return f"{self.name}: the disk is full; free some space and run again; nothing was recorded"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return (
                    f"{self.name}: cannot be opened or written ({detail}); make the file and its folder "
                    "writable, or name another store; nothing was recorded"
                )
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return f"{self.name}: another process holds it ({detail}); wait for it and run again"
            case sqlite3.SQLITE_IOERR:
                return f"{self.name}: reading or writing failed ({detail}); check the disk's space and health"
            case _:
                return f"{self.name}: {detail}; check that the database can be reached and run again"


def _sqlite(url: URL, busy_s: float) -> Engine:
    # No pool: a connection costs a millisecond, and none is ever carried over a fork.
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": busy_s})

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _record: object) -> None:
        # The driver's own transaction handling begins too late (at the first write), so it is switched off.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A reader that turns writer cannot wait for a lock; so a writer takes it at once.
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _server(url: URL, name: str) -> Engine:
    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        msg = f"{name}: the driver {error.name} is not installed; run: pip install 'perfgate[postgres]'"
        raise StoreError(msg) from error


def _code(error: BaseException) -> int:
    """SQLite's primary result code, 0 if it gave none."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
    return int(code or 0) & 0xFF


def _first_line(error: BaseException) -> str:
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__])[0]
