"""Floor 3, worker. onnxruntime, one object for each execution provider.

In: ONNX files of pieces. Out: the same files with names of inputs and outputs. Asked by a trial session, which also
tells how many operators the provider takes: one that takes none would silently run on the CPU.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from perfgate.worker.placing.deployed.loaders import onnxruntime_piece
from perfgate.worker.placing.libraries import environment
from perfgate.worker.placing.libraries.base import SINGLE, Answer, Made
from perfgate.worker.placing.libraries.files import onnx_file
from perfgate.worker.placing.pieces import NoFileError, Piece

CPU = onnxruntime_piece.CPU
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
_REDUCED = 2e-3


class Onnxruntime:
    """``provider`` on ``device``."""

    loader = "onnxruntime_piece"
    compiler = False
    whole = False
    cost_s = 2.0

    def __init__(self, name: str = "onnxruntime", provider: str = CPU, device: str = "cpu") -> None:
        self.name = name
        self.device = device
        self.provider = provider
        self.tolerance = SINGLE if provider == CPU else _REDUCED

    def version(self) -> str:
        """onnxruntime's."""
        return str(onnxruntime_piece.runtime().__version__)

    def missing(self) -> str:
        """Without the package, with two of them, or without the provider."""
        if importlib.util.find_spec("onnxruntime") is None:
            return "onnxruntime is not installed: pip install onnxruntime"
        conflict = environment.conflict()
        if conflict:
            return conflict
        runtime = onnxruntime_piece.runtime()
        available = runtime.get_available_providers()
        if self.provider not in available:
            return f"onnxruntime {runtime.__version__} has no {self.provider} (it has {', '.join(available)})"
        return ""

    def takes(self, piece: Piece) -> Answer:
        """By a trial session."""
        how = "trial session"
        if piece.is_torch and importlib.util.find_spec("onnxscript") is None:
            return Answer(reason="exporting torch pieces needs onnxscript: pip install onnxscript", how="packages")
        try:
            file = piece.onnx()
        except NoFileError:
            raise
        except Exception as error:
            return Answer(reason=f"torch.onnx.export: {error}"[:300], how="trial export")
        try:
            options = self._options(piece)
            _, shares = onnxruntime_piece.open_session(file, device=self.device, threads=1, options=options)
        except Exception as error:
            return Answer(reason=" ".join(str(error).split())[:300], how=how)
        if shares:
            total = sum(shares.values())
            how = f"trial session: {self.provider} takes {shares.get(self.provider, 0)} of {total} operators"
        return Answer(how=how)

    def build(self, piece: Piece, folder: Path) -> Made:
        """The file, and its weights beside it where they are large."""
        return Made(file=onnx_file(piece, folder), options=self._options(piece))

    def _options(self, piece: Piece) -> dict[str, Any]:
        return {"provider": self.provider, "feeds": piece.feeds, "results": piece.results}
