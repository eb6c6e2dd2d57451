"""Past, present and future schemas. ``data/schema_NNNN.sql`` is a small database of each, as SQLite dumps it."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, create_engine

import perfgate
from perfgate.errors import StoreError
from perfgate.store import upgrade
from perfgate.store.database import Database
from perfgate.store.identity import record_id
from perfgate.store.open import open_store
from perfgate.store.schema import VERSION_TABLE, Base
from tests.store.helpers import RESNET, a_record, commit

DATA = Path(__file__).parent / "data"
MIGRATIONS = Path(upgrade.__file__).parent / "migrations"


def run_sql(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def test_head__is_the_last_migration_and_every_schema_has_its_database():
    script = ScriptDirectory(str(MIGRATIONS))
    revisions = sorted(revision.revision for revision in script.walk_revisions())
    assert script.get_heads() == [upgrade.HEAD]
    assert revisions[-1] == upgrade.HEAD
    assert sorted(path.name for path in DATA.iterdir()) == [f"schema_{revision}.sql" for revision in revisions]


def test_prepare__migrations_make_what_the_code_expects(lasting_url):
    open_store(lasting_url).close()
    url = lasting_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_open_store__reads_and_extends_a_database_of_schema_0001(tmp_path):
    path = tmp_path / "old.sqlite"
    run_sql(path, (DATA / "schema_0001.sql").read_text(encoding="utf-8"))
    with open_store(str(path)) as store:
        assert store.count() == 3
        found = store.nearest("resnet", RESNET, [commit(9), commit(2), commit(1)], hardware_id="cpu-1")
        assert found is not None
        assert record_id(found) == record_id(a_record(at=2))
        assert store.import_map("resnet", [commit(1)]) == ("models/resnet.py",)
        assert [record.pull_request for record in store.history("resnet", RESNET, namespace="pr/7")] == [7]
        store.record([a_record(at=1), a_record(at=3)])
        assert store.count() == 4


def test_open_store__newer_schema_names_the_version_to_install(tmp_path):
    path = tmp_path / "new.sqlite"
    open_store(str(path)).close()
    run_sql(
        path,
        f"UPDATE {VERSION_TABLE} SET version_num = '0007';"
        "INSERT INTO perfgate_upgrades (revision, perfgate) VALUES ('0007', '3.1.0');",
    )
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        open_store(str(path))
    assert str(caught.value) == (
        f"{path} has schema 0007, and perfgate {perfgate.__version__} knows schemas up to {upgrade.HEAD}; "
        "run: pip install 'perfgate>=3.1.0'; nothing was changed"
    )
    assert path.read_bytes() == before


def test_open_store__newer_schema_that_does_not_say_who_made_it(tmp_path):
    path = tmp_path / "new.sqlite"
    open_store(str(path)).close()
    run_sql(path, f"UPDATE {VERSION_TABLE} SET version_num = '0007'; DROP TABLE perfgate_upgrades;")
    with pytest.raises(StoreError, match=r"new\.sqlite"):
        open_store(str(path))


def test_prepare__a_migration_that_fails_leaves_no_table(tmp_path):
    path = tmp_path / "store.sqlite"
    # The name of the first index is taken, so that the migration fails after it has made its tables.
    run_sql(
        path,
        f"CREATE TABLE {VERSION_TABLE} (version_num TEXT);"
        f"CREATE INDEX perfgate_records_by_commit ON {VERSION_TABLE} (version_num);",
    )
    with pytest.raises(StoreError, match="perfgate_records_by_commit already exists"):
        open_store(str(path))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [
            (VERSION_TABLE,)
        ]


def test_open_store__write_ahead_log_is_on(tmp_path):
    path = tmp_path / "store.sqlite"
    open_store(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_transaction__foreign_keys_are_on(tmp_path):
    database = Database(URL.create("sqlite", database=str(tmp_path / "x.sqlite")))
    with contextlib.closing(database), database.transaction() as session:
        assert session.connection().exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def dump() -> str:
    """Text of ``data/schema_NNNN.sql`` for today's schema: run once, when the schema is new."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        with open_store(str(path)) as store:
            store.record([a_record(at=1), a_record(at=2)])
            store.record([dataclasses.replace(a_record(at=3), namespace="pr/7", pull_request=7)])
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return "\n".join(connection.iterdump()) + "\n"


if __name__ == "__main__":
    target = DATA / f"schema_{upgrade.HEAD}.sql"
    if target.exists():
        raise SystemExit(f"{target} is the database of a released schema; it is never written again")
    target.write_text(dump(), encoding="utf-8")
