from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.errors import StoreError
from perfgate.store.open import open_store
from tests.store.helpers import a_record


@pytest.mark.parametrize("form", ["sqlite:///{}", "{}"])
def test_open_store__makes_the_folder_and_keeps_the_records(tmp_path, form):
    path = tmp_path / "new folder" / "100% mine?#.sqlite"
    with open_store(form.format(path)) as store:
        assert store.name == str(path)
        store.record([a_record()])
    with open_store(form.format(path)) as store:
        assert store.count() == 1
    assert path.read_bytes().startswith(b"SQLite format 3\x00")


@pytest.mark.parametrize("form", ["sqlite:///baselines.sqlite", "baselines.sqlite", "./a:b.sqlite"])
def test_open_store__relative_path_stays_where_it_was_opened(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    with open_store(form) as store:
        store.record([a_record()])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert store.count() == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_open_store__memory_is_empty_each_time():
    with open_store("memory:") as store:
        store.record([a_record()])
    with open_store("memory:") as store:
        assert store.count() == 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "memory",
        "memory:x",
        ":memory:",
        "sqlite:x.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://x.db",
        "sqlite:///:memory:",
        "postgresql:x",
        "mysql://u:hunter2@host/db",
        "http://u:hunter2@host/db",
        "postgresql+asyncpg://u:hunter2@host/db",
        "postgresql://u:hunter2@host:port/db",
    ],
)
def test_open_store__unknown_form_names_the_forms_and_no_password(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    if url == "memory":  # a plain file name
        open_store(url).close()
        assert (tmp_path / "memory").is_file()
        return
    with pytest.raises(StoreError, match=r"write memory:, sqlite:///PATH, a path, or postgresql\+psycopg://") as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_open_store__a_folder(tmp_path):
    with pytest.raises(StoreError, match="is a folder; name a file in it"):
        open_store(str(tmp_path))


def test_open_store__below_a_file(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="its folder cannot be made"):
        open_store(str(tmp_path / "file" / "store.sqlite"))


def test_open_store__server_that_does_not_answer_is_named_without_password():
    with pytest.raises(StoreError) as caught:
        open_store("postgresql+psycopg://u:hunter2@127.0.0.1:1/db?connect_timeout=2")
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("postgresql+psycopg://u:***@127.0.0.1:1/db")
    if importlib.util.find_spec("psycopg") is None:
        assert "the driver psycopg is not installed; run: pip install 'perfgate[postgres]'" in str(caught.value)


def test_open_store__no_database_library_is_imported_for_memory():
    code = (
        "import sys, perfgate.store; perfgate.store.open_store('memory:'); "
        "print(sorted({'sqlalchemy', 'alembic', 'sqlite3'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
