"""Room ``store``: the tables, as today's code uses them; :mod:`perfgate.store.migrations` makes them.

``document`` is the record's canonical text, whose SHA-256 is ``id``: the whole truth. All other columns
repeat what is searched for. Types are those that SQLite and PostgreSQL share.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, Integer, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from perfgate.records.baseline import BaselineRecord

VERSION_TABLE = "perfgate_version"

# SQLite numbers rows by itself only where the key's type is spelt INTEGER.
_ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """Holds the metadata of all tables."""


class Row(Base):
    """One record. ``seq`` grows in order of arrival; times and run ids are as the runner wrote them."""

    __tablename__ = "perfgate_records"

    seq: Mapped[int] = mapped_column(_ROW_NUMBER, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Text, unique=True)
    model_key: Mapped[str] = mapped_column(Text)
    workload_key: Mapped[str] = mapped_column(Text)
    mode: Mapped[str] = mapped_column(Text)
    batch: Mapped[int] = mapped_column(BigInteger)
    dtype: Mapped[str] = mapped_column(Text)
    device: Mapped[str] = mapped_column(Text)
    compile: Mapped[str] = mapped_column(Text)
    namespace: Mapped[str] = mapped_column(Text)
    commit_id: Mapped[str] = mapped_column(Text)
    hardware_id: Mapped[str] = mapped_column(Text)
    software_id: Mapped[str] = mapped_column(Text)
    recorded_at: Mapped[str] = mapped_column(Text)
    run_nonce: Mapped[str] = mapped_column(Text)
    repository: Mapped[str | None] = mapped_column(Text)
    run_id: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int | None] = mapped_column(BigInteger)
    workflow: Mapped[str | None] = mapped_column(Text)
    event: Mapped[str | None] = mapped_column(Text)
    pull_request: Mapped[int | None] = mapped_column(BigInteger)
    file_count: Mapped[int] = mapped_column(Integer)
    document: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        Index("perfgate_records_by_commit", "model_key", "namespace", "workload_key", "commit_id"),
        Index("perfgate_records_by_run", "run_id", "attempt"),
    )


class Upgrade(Base):
    """One line for each migration that was applied, so that an older perfgate can say what is needed."""

    __tablename__ = "perfgate_upgrades"

    revision: Mapped[str] = mapped_column(Text, primary_key=True)
    perfgate: Mapped[str] = mapped_column(Text)


def row_of(identifier: str, record: BaselineRecord, document: str) -> Row:
    """The row that keeps ``record`` under its id."""
    workload = record.workload
    return Row(
        id=identifier,
        model_key=record.model_key,
        workload_key=workload.key,
        mode=workload.mode,
        batch=workload.batch,
        dtype=workload.dtype,
        device=workload.device,
        compile=workload.compile,
        namespace=record.namespace,
        commit_id=record.commit,
        hardware_id=record.hardware_id,
        software_id=record.software_id,
        recorded_at=record.recorded_at,
        run_nonce=record.run_nonce,
        repository=record.repository,
        run_id=record.run_id,
        attempt=record.attempt,
        workflow=record.workflow,
        event=record.event,
        pull_request=record.pull_request,
        file_count=len(record.files),
        document=document,
    )
