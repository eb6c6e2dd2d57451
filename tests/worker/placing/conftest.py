"""A model taken apart in this process, and the worker's folder as the gate makes it."""

from __future__ import annotations

import pytest

from perfgate.bench.shim import write_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return write_shim(tmp_path_factory.mktemp("placing-shim"))


@pytest.fixture
def lowered(tmp_path):
    """``lowered("Residual")``: the torch model of ``models.made``."""
    torch = pytest.importorskip("torch")
    from perfgate.worker.inputs import Arguments
    from perfgate.worker.placing import exporting
    from perfgate.worker.placing.torchmodel import TorchModel
    from tests.worker.placing import models

    def lower(name, module=None, args=(), kwargs=None):
        if module is None:
            module, args, kwargs = models.made(name)
        arguments = Arguments(args=args, kwargs=kwargs or {})
        program = exporting.export(module, arguments, name)
        flat = exporting.flat(program)
        with torch.no_grad():
            # State that a step changes is the program's own copy only where export makes one.
            before = {key: value.clone() for key, value in module.state_dict().items()}
            reference = module(*args, **(kwargs or {}))
            module.load_state_dict(before)
        folder = tmp_path / f"work-{name}"
        folder.mkdir(exist_ok=True)
        return TorchModel(name, folder, flat, program, arguments, reference, "cpu")

    return lower
