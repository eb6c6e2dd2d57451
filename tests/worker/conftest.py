"""One shim for all worker tests of a session."""

from __future__ import annotations

import pytest

from tests.worker.helpers import make_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return make_shim(tmp_path_factory.mktemp("worker-shim") / "shim")
