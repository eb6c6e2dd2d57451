"""Stores to test: memory, one SQLite file, and PostgreSQL where PERFGATE_TEST_DB_URL names a server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.store.contract import BaselineStore
from perfgate.store.open import open_store

SERVER = "PERFGATE_TEST_DB_URL"


@pytest.fixture
def server_url() -> Iterator[str]:
    """A URL of the test server with a schema of its own, dropped afterwards."""
    url = os.environ.get(SERVER)
    if not url:
        pytest.skip(f"{SERVER} is not set")
    from sqlalchemy import create_engine, make_url, text

    schema = f"perfgate_test_{uuid.uuid4().hex}"
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    own = make_url(url).update_query_dict({"options": f"-csearch_path={schema}"})
    yield own.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty store that outlives its process."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    url: str = request.getfixturevalue("server_url")
    return url


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaselineStore]:
    """An empty store of each kind."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 'store.sqlite'}"}
    with open_store(urls.get(request.param) or request.getfixturevalue("server_url")) as opened:
        yield opened
