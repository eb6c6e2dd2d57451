"""Several processes, killed processes, broken files. B01, B09, C01 and C03 of the public cases are here."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, inspect, text

from perfgate.errors import StoreError
from perfgate.store.database import Database
from perfgate.store.open import open_store
from perfgate.store.sql import SqlStore
from tests.store.helpers import RESNET, a_record, commit, tree_bytes, write_five, write_same

ROOT = Path(__file__).parents[2]


def run_all(target: Callable[..., None], arguments: list[tuple]) -> list[int | None]:
    """Exit codes of one process for each of ``arguments``, all started at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.helpers", "perfgate.store.sql", "alembic.command"])
    processes = [context.Process(target=target, args=arguments_) for arguments_ in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=100)
    return [process.exitcode for process in processes]


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Let permissions count, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can enter but only its owner change."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_record__b01_eight_writers_begin_one_store(lasting_url):
    assert run_all(write_five, [(lasting_url, writer) for writer in range(8)]) == [0] * 8
    with open_store(lasting_url) as store:
        assert store.count() == 40
        history = store.history("resnet", RESNET)
        assert {(found.run_nonce, found.commit) for found in history} == {
            (f"writer-{writer}", commit(number)) for writer in range(8) for number in range(5)
        }


def test_record__b09_same_content_from_four_processes_is_one(lasting_url):
    assert run_all(write_same, [(lasting_url,)] * 4) == [0] * 4
    with open_store(lasting_url) as store:
        assert store.count() == 5


def test_record__waits_for_another_writer_then_says_so(tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "store.sqlite"))
    with SqlStore(url, busy_s=0.05) as store:
        store.record([a_record(at=1)])
        with contextlib.closing(Database(url)) as other, other.transaction(write=True) as session:
            session.connection()  # takes the lock
            assert store.count() == 1  # readers are not held up
            with pytest.raises(StoreError, match=r"another process holds it .*; wait for it and run again"):
                store.record([a_record(at=2)])
        store.record([a_record(at=2)])
        assert store.count() == 2


KILLED_IN_COMMIT = """
import sys, time
from sqlalchemy import Engine, event
from perfgate.store import open_store
from perfgate.store.sql import SqlStore
from tests.store.helpers import a_record

store = open_store(sys.argv[1])
store.record([a_record(at=1)])

@event.listens_for(Engine, "commit")
def hold(connection):
    print("written", flush=True)
    time.sleep(60)

store.record([a_record(at=number) for number in range(2, 50)])
"""


def test_record__kill_before_commit_leaves_what_was_committed(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_IN_COMMIT, url], cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    with open_store(url) as store:
        assert [found.commit for found in store.history("resnet", RESNET)] == [commit(1)]
        store.record([a_record(at=number) for number in range(2, 50)])
        assert store.count() == 49


NO_ROOM = """
import resource, sys
from perfgate.errors import StoreError
from perfgate.store import open_store
from perfgate.store.sql import SqlStore
from tests.store.helpers import a_record

store = open_store(sys.argv[1])
store.record([a_record(at=1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.record([a_record(at=number) for number in range(2, 2000)])
except StoreError as error:
    print(error)
"""


def test_record__no_room_for_the_file_loses_nothing(tmp_path):
    path = tmp_path / "store.sqlite"
    done = run_python(NO_ROOM, str(path))
    assert done.stderr == ""
    assert done.stdout.startswith(f"{path}: ")
    assert "disk" in done.stdout
    with open_store(str(path)) as store:
        assert store.count() == 1


def fill(database: Database) -> None:
    with database.transaction(write=True) as session:
        session.execute(text("PRAGMA max_page_count=1"))  # at once as full as it can get
        session.execute(text("CREATE TABLE big AS SELECT randomblob(1000000)"))


def test_transaction__full_disk_is_named_and_nothing_stays(tmp_path):
    path = tmp_path / "store.sqlite"
    with open_store(str(path)) as store:
        store.record([a_record(at=1)])
    with contextlib.closing(Database(URL.create("sqlite", database=str(path)))) as database:
        with pytest.raises(StoreError, match=f"{path}: the disk is full; free some space and run again"):
            fill(database)
        with database.transaction() as session:
            assert "big" not in inspect(session.connection()).get_table_names()
    with open_store(str(path)) as store:
        assert store.count() == 1


@pytest.mark.parametrize(
    "content",
    [b"{}", b"\x00" * 4096, b"SQLite format 3\x00" + b"\xff" * 5000, b"x", b"SQLite format 3\x00"],
    ids=["json", "zeros", "header-then-noise", "one-byte", "header-only"],
)
def test_open_store__c01_not_a_database_is_refused_and_not_touched(tmp_path, content):
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"is not a perfgate database, or is damaged .* nothing was changed") as caught:
        open_store(str(path))
    assert str(caught.value).startswith(str(path))
    assert "move it away or restore it" in str(caught.value)
    assert tree_bytes(tmp_path) == {"store.sqlite": content}


def test_open_store__c01_another_programs_database_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "app.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"is not a perfgate database.* tables users of another program"):
        open_store(str(path))
    assert tree_bytes(tmp_path) == {"app.sqlite": before}


@pytest.mark.parametrize("damage", ["truncated", "page", "every-page"])
def test_open_store__c01_damaged_database_is_refused_and_not_touched(tmp_path, damage):
    path = tmp_path / "store.sqlite"
    with open_store(str(path)) as store:
        store.record([a_record(at=number) for number in range(50)])
    whole = path.read_bytes()
    broken = {
        "truncated": whole[: len(whole) // 2],
        "page": whole[:4096] + b"\xa5" * 4096 + whole[8192:],
        "every-page": whole[:100] + b"\xa5" * (len(whole) - 100),
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(StoreError, match=r"is damaged .* nothing was changed"):
        open_store(str(path))
    assert path.read_bytes() == broken


def test_get__c01_a_changed_document_stops(tmp_path):
    path = tmp_path / "store.sqlite"
    with open_store(str(path)) as store:
        (identifier,) = store.record([a_record(latency=10e6)])
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE perfgate_records SET document = replace(document, '10000000.0', '99000000.0')")
            connection.commit()
        with pytest.raises(StoreError, match=f"record {identifier[:12]} was changed after it was stored"):
            store.get(identifier)
        with pytest.raises(StoreError, match="was changed after it was stored"):
            store.nearest("resnet", RESNET, [commit(1)], hardware_id="cpu-1")


def test_record__read_only_file(open_folder):
    path = open_folder / "store.sqlite"
    with open_store(str(path)) as store:
        store.record([a_record(at=1)])
    path.chmod(0o444)
    before = tree_bytes(open_folder)
    with unprivileged(), pytest.raises(StoreError, match="make the file and its folder writable") as caught:
        with open_store(str(path)) as store:
            store.record([a_record(at=2)])
    assert str(path) in str(caught.value)
    assert tree_bytes(open_folder)["store.sqlite"] == before["store.sqlite"]


def test_open_store__read_only_folder(open_folder):
    open_folder.chmod(0o555)
    with unprivileged():
        with pytest.raises(StoreError, match="make the file and its folder writable"):
            open_store(str(open_folder / "store.sqlite"))
        with pytest.raises(StoreError, match="its folder cannot be made"):
            open_store(str(open_folder / "new" / "store.sqlite"))
    assert tree_bytes(open_folder) == {}


def test_open_store__leaves_one_file_when_closed(tmp_path):
    with open_store(str(tmp_path / "store.sqlite")) as store:
        store.record([a_record()])
    assert set(tree_bytes(tmp_path)) == {"store.sqlite"}
