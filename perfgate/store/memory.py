"""Room ``store``: a store that lives as long as its process; for trials, tests and ``memory:``.

In and out: as :mod:`perfgate.store.contract` says. Rows are kept as canonical text, like a
database does, so that what is returned is always the caller's own copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from perfgate.errors import StoreError
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.workload import Workload
from perfgate.store.contract import BaselineStore
from perfgate.store.identity import canonical, decode, digest, place
from perfgate.store.valid import check


class MemoryStore(BaselineStore):
    """Keeps records in a dict, in order of arrival."""

    def __init__(self) -> None:
        self._rows: dict[str, str] | None = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Always ``memory:``."""
        return "memory:"

    def record(self, records: Sequence[BaselineRecord]) -> tuple[str, ...]:
        """See :meth:`BaselineStore.record`."""
        texts = []
        for record in records:
            check(record)
            texts.append(canonical(record))
        rows = {digest(text): text for text in texts}
        with self._lock:
            kept = self._open()
            for identifier, text in rows.items():
                kept.setdefault(identifier, text)
        return tuple(digest(text) for text in texts)

    def get(self, record_id: str) -> BaselineRecord | None:
        """See :meth:`BaselineStore.get`."""
        with self._lock:
            text = self._open().get(record_id)
        return None if text is None else decode(record_id, text, self.name)

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
        found = self._select(
            lambda record: (
                record.namespace == NAMESPACE_BASE
                and (record.model_key, record.workload.key) == (model_key, workload.key)
                and record.hardware_id == hardware_id
                and software_id in (None, record.software_id)
            )
        )
        by_commit = {record.commit: record for record in reversed(found)}
        return next((by_commit[commit] for commit in commits if commit in by_commit), None)

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
        found = self._select(
            lambda record: (
                record.namespace == namespace
                and (record.model_key, record.workload.key) == (model_key, workload.key)
                and hardware_id in (None, record.hardware_id)
            )
        )
        return tuple(found[: max(0, limit)])

    def newest(
        self, *, namespace: str = NAMESPACE_BASE, each_threads: bool = False, but_run: str | None = None
    ) -> tuple[BaselineRecord, ...]:
        """See :meth:`BaselineStore.newest`."""
        found = self._select(lambda record: record.namespace == namespace and record.run_nonce != but_run)
        last = {place(record, each_threads=each_threads): record for record in reversed(found)}
        return tuple(last[key] for key in sorted(last))

    def import_map(self, model_key: str, commits: Sequence[str]) -> tuple[str, ...] | None:
        """See :meth:`BaselineStore.import_map`."""
        found = self._select(
            lambda record: record.namespace == NAMESPACE_BASE and record.model_key == model_key and bool(record.files)
        )
        for commit in commits:
            files = {file for record in found if record.commit == commit for file in record.files}
            if files:
                return tuple(sorted(files))
        return None

    def count(self) -> int:
        """See :meth:`BaselineStore.count`."""
        with self._lock:
            return len(self._open())

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows = None

    def _open(self) -> dict[str, str]:
        if self._rows is None:
            msg = f"{self.name} is closed; open the store again"
            raise StoreError(msg)
        return self._rows

    def _select(self, wanted: Callable[[BaselineRecord], bool]) -> list[BaselineRecord]:
        """Records that are wanted, the last to arrive first."""
        with self._lock:
            rows = list(self._open().items())
        records = [decode(identifier, text, self.name) for identifier, text in reversed(rows)]
        return [record for record in records if wanted(record)]
