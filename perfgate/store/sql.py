"""Room ``store``: a store over SQLAlchemy: one SQLite file, or a PostgreSQL server.

In and out: as :mod:`perfgate.store.contract` says. Statements are those that both databases share;
what SQLite alone needs stands in :mod:`perfgate.store.database`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import URL, Select, func, select
from sqlalchemy.orm import Session

from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.workload import Workload
from perfgate.store.contract import BaselineStore
from perfgate.store.database import Database, RacedError
from perfgate.store.identity import canonical, decode, digest, place
from perfgate.store.schema import Row, row_of
from perfgate.store.upgrade import prepare
from perfgate.store.valid import check

_CHUNK = 500  # values in one IN (...); SQLite's smallest usual limit of parameters is 999
_TRIES = 10


class SqlStore(BaselineStore):
    """Opens ``url`` and makes or upgrades its tables. ``busy_s``: seconds to wait for another writer (SQLite)."""

    def __init__(self, url: URL, *, busy_s: float = 30.0) -> None:
        self._database = Database(url, busy_s=busy_s)
        try:
            prepare(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def name(self) -> str:
        """The file, or the server's URL without password."""
        return self._database.name

    def record(self, records: Sequence[BaselineRecord]) -> tuple[str, ...]:
        """See :meth:`BaselineStore.record`."""
        texts = []
        for record in records:
            check(record)
            texts.append(canonical(record))
        ids = tuple(digest(text) for text in texts)
        wanted = {identifier: (record, text) for identifier, record, text in zip(ids, records, texts, strict=True)}
        for attempt in range(_TRIES):
            try:
                with self._database.transaction(write=True) as session:
                    present = _present(session, ids)
                    session.add_all(row_of(key, *value) for key, value in wanted.items() if key not in present)
                return ids
            except RacedError:
                # Someone recorded one of them in between; the next look finds it present.
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError

    def get(self, record_id: str) -> BaselineRecord | None:
        """See :meth:`BaselineStore.get`."""
        return next(iter(self._records(select(Row).where(Row.id == record_id))), None)

    def nearest(
        self,
        model_key: str,
        workload: Workload,
        commits: Sequence[str],
        *,
        hardware_id: str,
        software_id: str | None = None,
    ) -> BaselineRecord | None:
        """See :meth:`BaselineStore.nearest`."""
        query = _of_workload(model_key, workload, NAMESPACE_BASE).where(Row.hardware_id == hardware_id)
        if software_id is not None:
            query = query.where(Row.software_id == software_id)
        found = self._at_first(query, commits)
        return found[0] if found else None

    def history(
        self,
        model_key: str,
        workload: Workload,
        *,
        namespace: str = NAMESPACE_BASE,
        hardware_id: str | None = None,
        limit: int = 100,
    ) -> tuple[BaselineRecord, ...]:
        """See :meth:`BaselineStore.history`."""
        query = _of_workload(model_key, workload, namespace)
        if hardware_id is not None:
            query = query.where(Row.hardware_id == hardware_id)
        return self._records(query.order_by(Row.seq.desc()).limit(max(0, limit)))

    def newest(
        self, *, namespace: str = NAMESPACE_BASE, each_threads: bool = False, but_run: str | None = None
    ) -> tuple[BaselineRecord, ...]:
        """See :meth:`BaselineStore.newest`."""
        # No column has the number of threads, but it is among the facts that the software's id is of.
        apart = (Row.software_id,) if each_threads else ()
        last = (
            select(func.max(Row.seq))
            .where(Row.namespace == namespace, *(() if but_run is None else (Row.run_nonce != but_run,)))
            .group_by(Row.model_key, Row.workload_key, Row.hardware_id, *apart)
        )
        found = self._records(select(Row).where(Row.seq.in_(last)).order_by(Row.seq))
        places = {place(record, each_threads=each_threads): record for record in found}
        # Sorted here: databases disagree about the order of texts.
        return tuple(places[key] for key in sorted(places))

    def import_map(self, model_key: str, commits: Sequence[str]) -> tuple[str, ...] | None:
        """See :meth:`BaselineStore.import_map`."""
        query = select(Row).where(Row.model_key == model_key, Row.namespace == NAMESPACE_BASE, Row.file_count > 0)
        found = self._at_first(query, commits)
        return tuple(sorted({file for record in found for file in record.files})) if found else None

    def count(self) -> int:
        """See :meth:`BaselineStore.count`."""
        with self._database.transaction() as session:
            return session.scalar(select(func.count()).select_from(Row)) or 0

    def close(self) -> None:
        """See :meth:`BaselineStore.close`."""
        self._database.close()

    def _records(self, query: Select[Any]) -> tuple[BaselineRecord, ...]:
        with self._database.transaction() as session:
            rows = [(row.id, row.document) for row in session.scalars(query)]
        return tuple(decode(identifier, document, self.name) for identifier, document in rows)

    def _at_first(self, query: Select[Any], commits: Sequence[str]) -> tuple[BaselineRecord, ...]:
        """All records of ``query`` at the first commit that has any, the last to arrive first."""
        for chunk in _chunks(commits):
            with self._database.transaction() as session:
                present = set(session.scalars(query.where(Row.commit_id.in_(chunk)).with_only_columns(Row.commit_id)))
            commit = next((commit for commit in chunk if commit in present), None)
            if commit is not None:
                return self._records(query.where(Row.commit_id == commit).order_by(Row.seq.desc()))
        return ()


def _of_workload(model_key: str, workload: Workload, namespace: str) -> Select[Any]:
    return select(Row).where(Row.model_key == model_key, Row.namespace == namespace, Row.workload_key == workload.key)


def _present(session: Session, ids: Sequence[str]) -> set[str]:
    return {found for chunk in _chunks(ids) for found in session.scalars(select(Row.id).where(Row.id.in_(chunk)))}


def _chunks(values: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(values), _CHUNK):
        yield list(values[start : start + _CHUNK])
