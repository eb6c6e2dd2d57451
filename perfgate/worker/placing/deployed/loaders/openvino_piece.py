"""Floor 3, worker. Pieces in ONNX files that OpenVINO runs. No perfgate.

Options: ``feeds`` and ``results`` (names of inputs and outputs in the piece's order).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .host import to_numpy


class OpenvinoRunner:
    """An inference request whose tensors are the caller's arrays."""

    reuses = True
    memory = "numpy"

    def __init__(self, module: Any, compiled: Any, feeds: list[str], results: list[str]) -> None:
        places: dict[str, int] = {}
        for place, one in enumerate(compiled.inputs):
            places.update(dict.fromkeys(one.get_names(), place))
        self._feeds = [(where, places[name]) for where, name in enumerate(feeds) if name in places]
        self._outputs = [_place(compiled.outputs, name) for name in results]
        self._request = compiled.create_infer_request()
        self._tensor = module.Tensor

    def place(self, value: Any) -> Any:
        """As an array."""
        return to_numpy(value)

    def run(self, values: list[Any]) -> list[Any]:
        """One call; the results' memory is the request's own."""
        request = self._request
        for where, place in self._feeds:
            request.set_input_tensor(place, self._tensor(values[where], shared_memory=True))
        request.infer(share_outputs=True)
        return [request.get_output_tensor(place).data for place in self._outputs]

    def wait(self) -> None:
        """Calls return when their work is done."""


def _place(outputs: Any, name: str) -> int:
    for place, one in enumerate(outputs):
        if name in one.get_names():
            return place
    message = f"OpenVINO lost the output {name!r}"
    raise RuntimeError(message)


def settings(threads: int) -> dict[str, Any]:
    """Of a compiled model: one request at a time, in the precision that was asked for."""
    chosen: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    if threads:
        chosen["INFERENCE_NUM_THREADS"] = threads
    return chosen


def runtime() -> Any:
    """OpenVINO without the package that reports its use: it would start processes of its own, and a measurement has
    room for none. Whoever has imported that package already keeps it.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def load(file: Path, *, device: str, threads: int, options: dict[str, Any]) -> OpenvinoRunner:
    """``device``: ``cpu``, or OpenVINO's name of another one."""
    openvino = runtime()
    core = openvino.Core()
    model = core.read_model(str(file))
    where = device.upper() if device == "cpu" else device
    compiled = core.compile_model(model, where, settings(threads) if device == "cpu" else {})
    return OpenvinoRunner(openvino, compiled, list(options["feeds"]), list(options["results"]))
