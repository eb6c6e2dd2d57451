"""Floor 3, worker. torch itself, operator by operator: with oneDNN, with its native kernels, and on CUDA.

In: pieces of torch models. Out: programs of torch.export. Asked by a trial export.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from perfgate.worker.placing.libraries.base import SINGLE, Answer, Made
from perfgate.worker.placing.pieces import Piece

# Products on CUDA may use TF32 where the user allows it.
_CUDA = 2e-3


class Eager:
    """``mkldnn`` False: without oneDNN."""

    loader = "torch_piece"
    compiler = False
    whole = False
    cost_s = 0.2

    def __init__(self, name: str, device: str = "cpu", *, mkldnn: bool = True) -> None:
        self.name = name
        self.device = device
        self.tolerance = SINGLE if device == "cpu" else _CUDA
        self._mkldnn = mkldnn

    def version(self) -> str:
        """torch's."""
        return str(_torch().__version__)

    def missing(self) -> str:
        """Without torch, without oneDNN in it, or without the device."""
        torch = _torch()
        if torch is None:
            return "no torch model is open: pieces of ONNX models do not run in torch"
        if self.device != "cpu":
            count = torch.cuda.device_count()
            number = int(self.device.partition(":")[2] or 0)
            return "" if number < count else f"torch sees {count} CUDA devices, and {self.device} is none of them"
        if not torch.backends.mkldnn.is_available():
            return "this torch is built without oneDNN" if self._mkldnn else "native kernels are torch's only ones here"
        return ""

    def takes(self, piece: Piece) -> Answer:
        """By a trial export."""
        if not piece.is_torch:
            return Answer(reason="takes pieces of torch models only", how="framework")
        try:
            piece.program()
        except Exception as error:
            return Answer(reason=f"torch.export: {error}"[:300], how="trial export")
        return Answer(how="trial export")

    def build(self, piece: Piece, folder: Path) -> Made:
        """One file."""
        torch = _torch()
        program = on_device(piece.program(), self.device)
        file = folder / "model.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(program, str(file))
        return Made(file=file, options={"mkldnn": self._mkldnn})


def on_device(program: Any, device: str) -> Any:
    """The program on ``device``: by torch's own pass, which moves factories of tensors too."""
    if device == "cpu":
        return program
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, device)


def _torch() -> Any:
    return sys.modules.get("torch")


def cuda_devices() -> list[str]:
    """CUDA devices that torch sees, without making a context."""
    torch = _torch()
    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] if torch is not None else []
