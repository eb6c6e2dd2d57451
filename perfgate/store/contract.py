"""Room ``store``: what every baseline store promises, whatever keeps the rows.

In: :class:`~perfgate.records.baseline.BaselineRecord`. Out: their ids, and the records again.

**Immutable.** A record is identified by the SHA-256 of its content (:mod:`perfgate.store.identity`),
never changed and never replaced. Recording the same content again, from any number of processes at
once, leaves one record. What a store returns is the caller's own copy; changing a dict in it does
not reach the store.

**All or nothing.** One call of :meth:`BaselineStore.record` is one transaction. When it returns, all
of its records are durable; when it raises, or the process dies in it, none of them is there.

**Ancestry, never the clock.** The caller knows git and passes commits, nearest first. Times that a
runner wrote down are shown to people and decide nothing: clocks of runners disagree. Where one
commit was recorded several times, the record that reached this store last is taken.

**Only the default branch is a baseline.** :meth:`BaselineStore.nearest` and
:meth:`BaselineStore.import_map` look at the namespace ``base`` alone, so a pull request is never
compared with its own earlier push.

**Broken content stops.** A database that is corrupt, foreign or newer than this code raises; it is
never repaired, emptied or overwritten.

**Errors.** Faults of the database, the disk or a record's content raise
:class:`~perfgate.errors.StoreError`, whose message names the store and what to do next. Finding
nothing is not an error: it is None or an empty tuple. Use after :meth:`BaselineStore.close` raises
StoreError. One store may be used from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.records.workload import Workload


class BaselineStore(ABC):
    """A place that keeps baseline records; see the module's text for the promises. A context manager."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The store as messages name it: a path or URL without password."""

    @abstractmethod
    def record(self, records: Sequence[BaselineRecord]) -> tuple[str, ...]:
        """Keep ``records`` and return their ids, in the same order; all in one transaction.

        Raises StoreError, with nothing written, if a record is not well formed (see
        :func:`perfgate.store.valid.check`) or the store cannot be written.
        """

    @abstractmethod
    def get(self, record_id: str) -> BaselineRecord | None:
        """The record with this id (64 hexadecimal digits), or None."""

    @abstractmethod
    def nearest(
        self,
        model_key: str,
        workload: Workload,
        commits: Sequence[str],
        *,
        hardware_id: str,
        software_id: str | None = None,
    ) -> BaselineRecord | None:
        """The record of the first of ``commits`` that has one for this workload and hardware, or None.

        ``commits`` are full commit ids in ancestry order, nearest first; the position of the answer's
        commit in them is the baseline's age in commits. ``software_id`` None: any software.
        """

    @abstractmethod
    def history(
        self,
        model_key: str,
        workload: Workload,
        *,
        namespace: str = NAMESPACE_BASE,
        hardware_id: str | None = None,
        limit: int = 100,
    ) -> tuple[BaselineRecord, ...]:
        """Up to ``limit`` records of a workload, the last to arrive first. ``hardware_id`` None: any."""

    @abstractmethod
    def newest(
        self, *, namespace: str = NAMESPACE_BASE, each_threads: bool = False, but_run: str | None = None
    ) -> tuple[BaselineRecord, ...]:
        """For each model, workload and hardware the record that arrived last, in order of these keys.

        ``each_threads``: and for each number of compute threads (``resources["threads"]``), which a workload does
        not say; ascending as text within a key. ``but_run``: as if the run with this nonce had recorded nothing.
        """

    @abstractmethod
    def import_map(self, model_key: str, commits: Sequence[str]) -> tuple[str, ...] | None:
        """Files that the model loaded at the first of ``commits`` where any are recorded, sorted.

        The union over the model's workloads and all hardware. None: no such commit, so what touches
        the model is not known.
        """

    @abstractmethod
    def count(self) -> int:
        """Number of records in all namespaces."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
