"""Room ``store``: the door. In: where the store is, as text. Out: an open store.

SQLAlchemy is imported only where a database is opened.
"""

from __future__ import annotations

import re
from pathlib import Path

from perfgate.errors import StoreError
from perfgate.store.contract import BaselineStore
from perfgate.store.memory import MemoryStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SERVERS = ("postgresql", "postgresql+psycopg")
_FORMS = "write memory:, sqlite:///PATH, a path, or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"


def open_store(url: str, *, make: bool = True) -> BaselineStore:
    """The store at ``url``; a file that does not exist is made, with its folder, unless ``make`` is False.

    ``memory:`` is gone when it is closed. ``sqlite:///PATH`` (three slashes and a relative path, four
    for an absolute one) and a bare path are one SQLite file, under any number of local processes but
    not on a network file system. ``postgresql+psycopg://`` needs the extra ``postgres``.

    Raises:
        StoreError: The form is not known, or the store is corrupt, foreign, newer than this code,
            or cannot be written, or there is no such file and none may be made. Nothing was changed then.
    """
    if url == "memory:":
        return MemoryStore()
    scheme = _SCHEME.match(url)
    if scheme is None:
        # "sqlite:x" and ":memory:" are slips of the pen; "./a:b" is still a path.
        if not url.strip() or re.match(r"[\w+]*:", url):
            msg = f"store {url!r} is not understood; {_FORMS}"
            raise StoreError(msg)
        return _open_file(url, make=make)
    if scheme[1] == "sqlite":
        path = url.removeprefix("sqlite://")
        if not path.startswith("/") or path in ("/", "/:memory:"):
            msg = f"store {url!r} names no file; {_FORMS}"
            raise StoreError(msg)
        return _open_file(path[1:], make=make)
    if scheme[1] in _SERVERS:
        return _open_server(url)
    # The rest of the text is not repeated: it may hold a password.
    msg = f"a store at {scheme[1]}:// is not supported; {_FORMS}"
    raise StoreError(msg)


def _open_file(text: str, *, make: bool) -> BaselineStore:
    path = Path(text)
    if not make and not path.exists():
        msg = f"{path}: there is no such database; name one that `perfgate sample` or the gate has filled"
        raise StoreError(msg)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_folder = path.is_dir()
    except OSError as error:
        msg = f"{path}: its folder cannot be made ({error.strerror}); name a file in a writable folder"
        raise StoreError(msg) from error
    if is_folder:
        msg = f"{path} is a folder; name a file in it, such as {path / 'perfgate.sqlite'}"
        raise StoreError(msg)

    from sqlalchemy import URL

    from perfgate.store.sql import SqlStore

    return SqlStore(URL.create("sqlite", database=str(path)))


def _open_server(url: str) -> BaselineStore:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from perfgate.store.sql import SqlStore

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        msg = f"the store's URL is not understood; {_FORMS}"
        raise StoreError(msg) from error
    return SqlStore(parsed.set(drivername="postgresql+psycopg"))
