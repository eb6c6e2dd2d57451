"""One shim for all worker tests of a session."""

from __future__ import annotations

import pytest

from perfgate.bench.shim import write_shim
from tests.worker.helpers import must_prepare, prepare, started, write_files
from tests.worker.processes import FILES


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return write_shim(tmp_path_factory.mktemp("worker-shim"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Models that behave and misbehave."""
    return write_files(tmp_path_factory.mktemp("check out"), FILES)


@pytest.fixture(scope="module")
def factory(shim, checkout, tmp_path_factory):
    """A process that has imported them and forks."""
    with started(shim, tmp_path_factory.mktemp("logs") / "log") as worker:
        must_prepare(worker, prepare(checkout, "plain", "bad", "missing_module"))
        yield worker
