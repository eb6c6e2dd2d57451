"""ONNX Runtime on a GPU that is not there: the module as the worker uses it, on real arrays, with a record of calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class Options:
    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.enable_profiling = False
        self.profile_file_prefix = ""
        self.optimized_model_filepath = ""

    def add_session_config_entry(self, key: str, value: str) -> None:
        self.entries[key] = value


class Value:
    """An OrtValue: contents that know where they lie."""

    def __init__(self, array: np.ndarray, device: str, ordinal: int) -> None:
        self.array, self.device, self.ordinal = array, device, ordinal


class Binding:
    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime
        self.inputs: dict[str, Value] = {}
        self.outputs: dict[str, tuple[str, int]] = {}
        self.results: list[np.ndarray] = []

    def bind_ortvalue_input(self, name: str, value: Value) -> None:
        self.inputs[name] = value

    def bind_output(self, name: str, device: str, ordinal: int) -> None:
        self.outputs[name] = (device, ordinal)

    def synchronize_inputs(self) -> None:
        self.runtime.calls.append("synchronize_inputs")

    def synchronize_outputs(self) -> None:
        self.runtime.calls.append("synchronize_outputs")

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        self.runtime.calls.append("copy_outputs_to_cpu")
        return self.results


class Session:
    """Doubles its input; ``events`` are what its profile will hold."""

    def __init__(self, runtime: FakeRuntime, path: str, options: Options, providers: list[Any]) -> None:
        self.runtime, self.path, self.options, self.asked = runtime, path, options, providers
        self.runs = 0

    def get_providers(self) -> list[str]:
        return self.runtime.loads

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="x", type="tensor(float)", shape=["N", 4])]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="y"), SimpleNamespace(name="z")]

    def io_binding(self) -> Binding:
        return Binding(self.runtime)

    def run_with_iobinding(self, binding: Binding) -> None:
        self.runtime.calls.append("run")
        self.runs += 1
        if self.runtime.error is not None:
            raise self.runtime.error
        array = binding.inputs["x"].array
        binding.results = [array * 2, array * 3]

    def end_profiling(self) -> str:
        path = Path(f"{self.options.profile_file_prefix}_fake.json")
        path.write_text(json.dumps(self.runtime.events(self.runs)), encoding="utf-8")
        return str(path)


class FakeRuntime:
    """``has``: providers of the build; ``loads``: those that a session ends up with."""

    __version__ = "1.99.0"
    SessionOptions = Options
    ExecutionMode = SimpleNamespace(ORT_SEQUENTIAL="sequential")

    def __init__(self, *, has: list[str], loads: list[str] | None = None) -> None:
        self.has, self.loads = has, has if loads is None else loads
        self.calls: list[str] = []
        self.sessions: list[Session] = []
        self.error: Exception | None = None
        self.events: Callable[[int], list[dict[str, Any]]] = lambda _: []
        self.OrtValue = SimpleNamespace(ortvalue_from_numpy=Value)

    def get_available_providers(self) -> list[str]:
        return self.has

    def preload_dlls(self) -> None:
        self.calls.append("preload_dlls")

    def InferenceSession(self, path: str, options: Options, providers: list[Any]) -> Session:  # noqa: N802
        self.sessions.append(Session(self, path, options, providers))
        return self.sessions[-1]
