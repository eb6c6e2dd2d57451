"""The worker's folder as the gate makes it."""

from __future__ import annotations

import pytest

from perfgate.bench.shim import write_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return write_shim(tmp_path_factory.mktemp("onnx-shim"))
