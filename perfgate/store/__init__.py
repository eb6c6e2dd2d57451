"""Floor 3, room of the baseline database: records in, the nearest recorded ancestor and history out.

Start at :func:`open_store`; what a store promises stands in :mod:`perfgate.store.contract`.
Measurements become records in :mod:`perfgate.store.from_evidence`; the reviewed files under
``baselines/`` are read and written by :mod:`perfgate.store.jsonfiles`. Importing this package does
not import SQLAlchemy: only opening a database does.
"""

from __future__ import annotations

from perfgate.store.contract import BaselineStore
from perfgate.store.from_evidence import records_of
from perfgate.store.open import open_store

__all__ = ["BaselineStore", "open_store", "records_of"]
