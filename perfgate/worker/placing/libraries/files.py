"""Floor 3, worker. ONNX files of pieces, copied to where they are deployed.

In: a piece. Out: the path of the copy.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from perfgate.worker.placing.pieces import Piece


def onnx_file(piece: Piece, folder: Path) -> Path:
    """The piece's ONNX file in ``folder``, with files of weights beside it under their own names."""
    source = piece.onnx()
    for file in sorted(source.parent.glob(f"{source.name}*")):
        shutil.copyfile(file, folder / file.name)
    return folder / source.name
