"""Models of torchvision, exported once a session."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Exports:
    """Exports on first demand; ``folder`` holds the files."""

    folder: Path
    done: dict[tuple[str, str], Path]

    def get(self, name: str, exporter: str = "torchscript", *, dynamic: bool = False) -> Path:
        """The file of ``torchvision.models.NAME`` at 224 x 224, batch 1 or dynamic."""
        import torchvision

        return self.of(
            torchvision.models.get_model(name, weights=None), (1, 3, 224, 224), name, exporter, dynamic=dynamic
        )

    def of(
        self, model: Any, shape: tuple[int, ...], name: str, exporter: str = "torchscript", *, dynamic: bool = False
    ) -> Path:
        """The file of any model that takes one tensor."""
        key = name, f"{exporter}-{dynamic}"
        if key not in self.done:
            self.done[key] = self._export(model, shape, self.folder / f"{'-'.join(key)}.onnx", exporter, dynamic)
        return self.done[key]

    def _export(self, model: Any, shape: tuple[int, ...], path: Path, exporter: str, dynamic: bool) -> Path:
        import torch

        options: dict[str, Any] = {"dynamo": exporter == "dynamo", "input_names": ["x"]}
        if exporter == "torchscript":
            options["opset_version"] = 17
        if dynamic and exporter == "dynamo":
            options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
        elif dynamic:
            options["dynamic_axes"] = {"x": {0: "batch"}}
        example = torch.zeros(2 if dynamic and exporter == "dynamo" else shape[0], *shape[1:])
        logging.disable(logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(model.eval(), (example,), str(path), verbose=False, **options)
        finally:
            logging.disable(logging.NOTSET)
        return path


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    pytest.importorskip("torchvision")
    pytest.importorskip("onnxscript")
    return Exports(tmp_path_factory.mktemp("exports"), {})
