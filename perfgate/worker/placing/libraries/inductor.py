"""Floor 3, worker. torch's compiler, ahead of time: a package that loads without the model's code or a compiler.

In: pieces of torch models. Out: ``.pt2`` packages. Asked by a trial compile, which takes tens of seconds.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

from perfgate.worker.placing.libraries.base import SINGLE, Answer, Made
from perfgate.worker.placing.libraries.eager import on_device
from perfgate.worker.placing.pieces import Piece

_COMPILERS = ("g++", "c++", "clang++")


class Inductor:
    """Ahead-of-time packages (torch 2.6 and newer)."""

    name = "inductor"
    loader = "inductor_piece"
    tolerance = SINGLE
    compiler = True
    whole = False
    cost_s = 30.0

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        if device != "cpu":
            self.name = f"inductor-{device.partition(':')[0]}"

    def version(self) -> str:
        """torch's."""
        return str(sys.modules["torch"].__version__)

    def missing(self) -> str:
        """Without torch, its packages or a C++ compiler."""
        if "torch" not in sys.modules:
            return "no torch model is open: pieces of ONNX models are not compiled by torch"
        import torch._inductor

        if not hasattr(torch._inductor, "aoti_compile_and_package"):
            return f"torch {torch.__version__} makes no compiled packages: update it to 2.6 or newer"
        if not any(map(shutil.which, _COMPILERS)):
            return f"it needs a C++ compiler, and none of {', '.join(_COMPILERS)} is on PATH: install g++"
        return ""

    def takes(self, piece: Piece) -> Answer:
        """By a trial compile; the package is kept for ``build``."""
        if not piece.is_torch:
            return Answer(reason="takes pieces of torch models only", how="framework")
        try:
            self._package(piece)
        except Exception as error:
            return Answer(reason=" ".join(f"{type(error).__name__}: {error}".split())[:300], how="trial compile")
        return Answer(how="trial compile")

    def build(self, piece: Piece, folder: Path) -> Made:
        """One file."""
        file = folder / "model.pt2"
        shutil.copyfile(self._package(piece), file)
        return Made(file=file)

    def _package(self, piece: Piece) -> Path:
        import torch
        import torch._inductor

        piece.folder.mkdir(parents=True, exist_ok=True)
        file = piece.folder / f"{self.name}.pt2"
        if not file.is_file():
            program = on_device(piece.program(), self.device)
            part = piece.folder / f"{self.name}-part.pt2"
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch._inductor.aoti_compile_and_package(program, package_path=str(part))
            part.rename(file)
        return file
