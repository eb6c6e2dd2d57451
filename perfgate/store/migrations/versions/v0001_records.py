"""Schema 0001: one table of records, one line for each migration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import perfgate

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TEXTS = (
    "id", "model_key", "workload_key", "mode", "dtype", "device", "compile", "namespace", "commit_id",
    "hardware_id", "software_id", "recorded_at", "run_nonce", "document",
)  # fmt: skip


def upgrade() -> None:
    """Make the tables and say which perfgate made them."""
    upgrades = op.create_table(
        "perfgate_upgrades",
        sa.Column("revision", sa.Text, primary_key=True),
        sa.Column("perfgate", sa.Text, nullable=False),
    )
    op.create_table(
        "perfgate_records",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in _TEXTS),
        *(sa.Column(name, sa.Text) for name in ("repository", "run_id", "workflow", "event")),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger),
        sa.Column("pull_request", sa.BigInteger),
        sa.Column("file_count", sa.Integer, nullable=False),
        sa.UniqueConstraint("id", name="perfgate_records_id_key"),
    )
    op.create_index(
        "perfgate_records_by_commit", "perfgate_records", ["model_key", "namespace", "workload_key", "commit_id"]
    )
    op.create_index("perfgate_records_by_run", "perfgate_records", ["run_id", "attempt"])
    op.bulk_insert(upgrades, [{"revision": revision, "perfgate": perfgate.__version__}])
