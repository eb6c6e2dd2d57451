"""One shim for all worker tests of a session."""

from __future__ import annotations

import pytest

from perfgate.bench.shim import write_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return write_shim(tmp_path_factory.mktemp("worker-shim"))
