"""Floor 3, worker. OpenVINO on the CPU.

In: ONNX files of pieces. Out: the same files. Asked by ``Core.query_model``: which operators its plugin takes.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from perfgate.worker.placing.deployed.loaders import openvino_piece
from perfgate.worker.placing.libraries.base import SINGLE, Answer, Made
from perfgate.worker.placing.libraries.files import onnx_file
from perfgate.worker.placing.pieces import NoFileError, Piece

_HOW = "query_model"


class Openvino:
    """One device of it."""

    name = "openvino"
    loader = "openvino_piece"
    tolerance = SINGLE
    compiler = False
    whole = False
    cost_s = 2.0
    device = "cpu"

    def __init__(self) -> None:
        self._core: Any = None

    def version(self) -> str:
        """OpenVINO's."""
        return str(openvino_piece.runtime().__version__)

    def missing(self) -> str:
        """Without the package."""
        if importlib.util.find_spec("openvino") is None:
            return "openvino is not installed: pip install openvino"
        return "" if "CPU" in self._cores().available_devices else "OpenVINO has no CPU plugin here"

    def takes(self, piece: Piece) -> Answer:
        """Asks the plugin about every operator."""
        if piece.is_torch and importlib.util.find_spec("onnxscript") is None:
            return Answer(reason="exporting torch pieces needs onnxscript: pip install onnxscript", how="packages")
        try:
            file = piece.onnx()
        except NoFileError:
            raise
        except Exception as error:
            return Answer(reason=f"torch.onnx.export: {error}"[:300], how="trial export")
        try:
            core = self._cores()
            model = core.read_model(str(file))
            known = set(core.query_model(model, "CPU"))
        except Exception as error:
            return Answer(reason=" ".join(str(error).split())[-300:], how=_HOW)
        lacking = [one for one in model.get_ops() if one.get_friendly_name() not in known]
        if lacking:
            names = ", ".join(dict.fromkeys(one.get_type_name() for one in lacking))
            return Answer(reason=f"its CPU plugin does not take {names}", how=_HOW)
        return Answer(how=f"{_HOW}: takes all {len(known)} operators")

    def build(self, piece: Piece, folder: Path) -> Made:
        """The file, and its weights beside it where they are large."""
        return Made(file=onnx_file(piece, folder), options={"feeds": piece.feeds, "results": piece.results})

    def _cores(self) -> Any:
        if self._core is None:
            self._core = openvino_piece.runtime().Core()
        return self._core
