"""Floor 3, graph. An ONNX file in, the trace of one step out.

In: a path and the input specifications of perfgate.toml. Out: :class:`~perfgate.records.graph.Trace`. Start here:
``files`` reads and checks, ``specifications`` gives the inputs their sizes, ``walk`` goes through the nodes,
``finishing`` makes the trace. No weights are loaded, so a model of any size is read in little memory.

What moves nothing is no call: Identity, Reshape, Flatten, Squeeze, Unsqueeze, Dropout outside of training, casts to the
same type, transpositions that only move dimensions of size 1. Their outputs share the storage of their input. Nor is
what depends on shapes and constants alone (a ``Shape`` that ends in a ``Reshape``): it is computed while reading.
"""

from __future__ import annotations

from pathlib import Path

from onnx import defs

from perfgate.errors import UsageError
from perfgate.graph.onnx import files, finishing, specifications
from perfgate.graph.onnx.naming import shown
from perfgate.graph.onnx.recording import Recorder
from perfgate.graph.onnx.walk import Walker
from perfgate.records.graph import Trace


def trace(path: Path, inputs: object = None, *, batch: int = 1, root: Path | None = None) -> Trace:
    """What one inference of the model in ``path`` does.

    Args:
        path: The ``.onnx`` file, from ``root`` if relative.
        inputs: Input specifications, a list by position or a table by name; None or empty: the file has to tell all
            sizes. Inputs whose sizes the file and the other inputs tell may be left out.
        batch: What the word ``batch`` in specifications stands for.
        root: Where the repository lies; the file may not be outside of it.

    Raises UsageError naming the file, the place and the remedy: no such file, not a model, data files missing or
    outside of the model's folder, an input or a symbolic dimension without size, sizes that contradict each other.
    """
    shown_path = str(path)
    model = files.load(path, root)
    stored = {tensor.name for tensor in model.graph.initializer}
    free = [info for info in model.graph.input if info.name not in stored]
    bound = specifications.bind(free, inputs, batch, shown_path)
    recorder = Recorder(shown_path)
    try:
        outputs = Walker(model, recorder, bound).run()
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - a file may be wrong in any way
        place = "the graph" if recorder.node is None else shown(recorder.node)
        detail = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        msg = f"{shown_path}: {place} cannot be read ({detail}); check the file with onnx.checker.check_model"
        raise UsageError(msg) from None
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    notes = [f"bound: {', '.join(bound.notes)}"] if bound.notes else []
    if opset > defs.onnx_opset_version():
        notes.append(
            f"operator set {opset} is newer than the installed onnx package knows ({defs.onnx_opset_version()})"
        )
    return finishing.finish(recorder, outputs, batch=batch, software=f"onnx opset {opset}", notes=notes)
