"""Floor 3, worker. A piece of a model: the operators, what goes in and out, and the files that libraries are given.

In: a lowered model (torch or ONNX) and numbers of operations. Out: :class:`Piece`. What a library makes of it is kept
in the piece's folder, so that several libraries share one ONNX file.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfgate.records.protocol import TORCH


class NoFileError(Exception):
    """The ONNX file of a piece is not there yet; the parent has to cut it."""


@dataclass(slots=True, kw_only=True)
class Piece:
    """A part of a model, with what it is tried on.

    Attributes:
        key: Equal for equal pieces; names its folder.
        numbers: Of operations, ascending. ``inputs``, ``outputs``: names of values.
        examples: Real inputs, tensors of torch or arrays.
        state: What it changes in place from call to call; empty: nothing.
        module: Makes the torch module of it; None for ONNX models.
    """

    key: str
    name: str
    framework: str
    numbers: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: Path
    examples: Sequence[Any] = ()
    state: str = ""
    module: Callable[[], Any] | None = None
    _program: Any = None
    _refused: str = ""
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def is_torch(self) -> bool:
        """It is cut from a torch model."""
        return self.framework == TORCH

    @property
    def feeds(self) -> list[str]:
        """Names of inputs in the piece's ONNX file."""
        return [f"input_{n}" for n in range(len(self.inputs))] if self.is_torch else list(self.inputs)

    @property
    def results(self) -> list[str]:
        """Names of outputs in the piece's ONNX file."""
        return [f"output_{n}" for n in range(len(self.outputs))] if self.is_torch else list(self.outputs)

    def program(self) -> Any:
        """The piece as an exported program of torch. Raises what torch.export raises."""
        if self.module is None:
            message = "only torch models have pieces for torch"
            raise ValueError(message)
        if self._program is None:
            import torch

            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._program = torch.export.export(self.module(), tuple(self.examples), strict=False)
        return self._program

    def onnx(self) -> Path:
        """Its ONNX file: cut by the parent, or exported by torch. Raises ValueError with the reason."""
        file = self.folder / "model.onnx"
        if file.is_file():
            return file
        if not self.is_torch:
            raise NoFileError(str(file))
        if not self._refused:
            try:
                self._export(file)
            except Exception as error:
                self._refused = _first_line(error)
        if self._refused:
            raise ValueError(self._refused)
        return file

    def _export(self, file: Path) -> None:
        import torch

        if self.state:
            message = f"it keeps {self.state} from call to call, which an ONNX graph cannot"
            raise ValueError(message)
        self.folder.mkdir(parents=True, exist_ok=True)
        logger = logging.getLogger("torch.onnx")
        before = logger.level
        logger.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad(), kept_registry():
                warnings.simplefilter("ignore")
                made = torch.onnx.export(
                    self.program(),
                    dynamo=True,
                    verbose=False,
                    input_names=self.feeds,
                    output_names=self.results,
                )
                made.save(str(file))
        finally:
            logger.setLevel(before)


@contextlib.contextmanager
def kept_registry() -> Iterator[None]:
    """torch's exporter reads all of its operators' translations anew for each export, which takes most of the time of a
    small one. Inside, it reads them once a process; releases that are made differently just take longer.
    """
    try:
        owner = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
        make = owner.__dict__["from_torchlib"]
    except (ImportError, AttributeError, KeyError):
        yield
        return
    if not _KEPT:
        try:
            _KEPT.append(owner.from_torchlib())
        except Exception:
            yield
            return
    owner.from_torchlib = classmethod(lambda *_args, **_options: _KEPT[0])
    try:
        yield
    finally:
        owner.from_torchlib = make


_KEPT: list[Any] = []


def _first_line(error: BaseException) -> str:
    """The innermost reason in one line: exporters wrap it in pages of advice."""
    link = error
    while link.__cause__ is not None:
        link = link.__cause__
    text = next((line.strip() for line in str(link).splitlines() if line.strip()), "")
    return f"{type(link).__name__}: {text}"[:300] if not isinstance(link, ValueError) else text[:300]
