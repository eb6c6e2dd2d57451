"""Floor 3, worker. Inference sessions: the file as ONNX Runtime runs it, on the device that was asked for.

In: ONNX Runtime's module, a model's files, device and threads. Out: an ``InferenceSession`` that runs there, and
nowhere else without saying so.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate.worker.failures import refuse
from perfgate.worker.onnx import faults
from perfgate.worker.onnx.source import Source

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
_ERRORS_ONLY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes sessions of one model that differ in nothing but what is written down beside them.

    ``key`` names the place of the configuration in messages; ``device`` is ``cpu`` or ``cuda:N``.
    """

    runtime: Any
    source: Source
    key: str
    device: str
    threads: int
    checkout: str

    @property
    def ordinal(self) -> int | None:
        """N of ``cuda:N``; None on the host."""
        return None if self.device == "cpu" else int(self.device.partition(":")[2] or 0)

    def make(self, *, profile: Path | None = None, optimised: Path | None = None) -> Any:
        """A session; with ``profile`` (prefix of a file) one that takes times, with ``optimised`` one that also
        writes down the graph that it runs.

        Raises WorkerError: ``unsupported`` where the device or an operator is not there, ``oom``, ``raised``.
        """
        options = self._options()
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        if optimised is not None:
            options.optimized_model_filepath = str(optimised)
        wanted: list[Any] = [CPU]
        if self.ordinal is not None:
            self._check_available()
            wanted = [(CUDA, {"device_id": str(self.ordinal)}), CPU]
        # It warns of a provider that it does not have, which is checked here and is an error.
        with faults.building(self.key, self.checkout), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = self.runtime.InferenceSession(str(self.source.path), options, providers=wanted)
        self._check_used(session.get_providers())
        return session

    def _options(self) -> Any:
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.execution_mode = self.runtime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = _ERRORS_ONLY
        # A side that waits for its turn must not burn the processor that the other one is timed on.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        return options

    def _check_available(self) -> None:
        """CUDA's own libraries may lie in packages of their own, where only ONNX Runtime finds them."""
        available = self.runtime.get_available_providers()
        if CUDA not in available:
            self._refuse_cuda(f"has no {CUDA} (it has {', '.join(available)})", "install onnxruntime-gpu in setup")
        preload = getattr(self.runtime, "preload_dlls", None)
        if preload is not None and "torch" not in sys.modules:
            with contextlib.suppress(Exception):
                preload()

    def _check_used(self, used: list[str]) -> None:
        wanted = CPU if self.ordinal is None else CUDA
        if wanted in used:
            return
        if self.ordinal is None:
            refuse("unsupported", "build", f"{self.key}: asked for the CPU, got {', '.join(used)}")
        self._refuse_cuda(
            f"could not load its {CUDA} for {self.device}",
            "install the CUDA and cuDNN releases that it needs, or choose a runner with this GPU",
        )

    def _refuse_cuda(self, why: str, remedy: str) -> None:
        message = (
            f"{self.key}: asked for CUDA, got CPU: onnxruntime {self.runtime.__version__} of {sys.executable} {why}; "
            f"{remedy}, or write device = 'cpu'"
        )
        refuse("unsupported", "build", message)
