"""Floor 3, worker. Pieces in ONNX files that onnxruntime runs. No perfgate.

Options: ``provider`` (execution provider), ``feeds`` and ``results`` (names of inputs and outputs in the piece's
order), ``spinning`` False: threads without work sleep, so that they do not fight with another library's for a
processor.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .host import to_numpy

CPU = "CPUExecutionProvider"
_ERRORS_ONLY = 3


class HostRunner:
    """A session on the CPU: arrays go in and out without a copy."""

    reuses = False
    memory = "numpy"

    def __init__(self, session: Any, feeds: list[str], results: list[str]) -> None:
        known = {one.name for one in session.get_inputs()}
        self._feeds = [(place, name) for place, name in enumerate(feeds) if name in known]
        self._results = results
        self._run = session.run
        self.session = session

    def place(self, value: Any) -> Any:
        """As an array."""
        return to_numpy(value)

    def run(self, values: list[Any]) -> list[Any]:
        """One call."""
        made = self._run(self._results, {name: values[place] for place, name in self._feeds})
        return list(made)

    def wait(self) -> None:
        """Calls return when their work is done."""


class DeviceRunner:
    """A session on an accelerator: tensors stay there between pieces."""

    reuses = False

    def __init__(
        self, runtime: Any, session: Any, feeds: list[str], results: list[str], kind: str, ordinal: int
    ) -> None:
        known = {one.name for one in session.get_inputs()}
        self._feeds = [(place, name) for place, name in enumerate(feeds) if name in known]
        self._results = results
        self._runtime = runtime
        self._kind, self._ordinal = kind, ordinal
        self._binding: Any = None
        self.session = session
        self.memory = f"ortvalue {kind}:{ordinal}"

    def place(self, value: Any) -> Any:
        """On the device."""
        return self._runtime.OrtValue.ortvalue_from_numpy(to_numpy(value), self._kind, self._ordinal)

    def run(self, values: list[Any]) -> list[Any]:
        """One call; results stay on the device."""
        binding = self.session.io_binding()
        for place, name in self._feeds:
            binding.bind_ortvalue_input(name, values[place])
        for name in self._results:
            binding.bind_output(name, self._kind, self._ordinal)
        self.session.run_with_iobinding(binding)
        self._binding = binding
        return list(binding.get_outputs())

    def wait(self) -> None:
        """Work is queued."""
        if self._binding is not None:
            self._binding.synchronize_outputs()


def runtime() -> Any:
    """onnxruntime without reports of its use: releases that make them begin, with files below the home folder, as soon
    as they are imported, so that only the environment comes early enough. A choice of the user's stays.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def load(file: Path, *, device: str, threads: int, options: dict[str, Any]) -> HostRunner | DeviceRunner:
    """Raises RuntimeError where a provider that was asked for is not there or takes no operator."""
    onnxruntime = runtime()
    session, _ = open_session(file, device=device, threads=threads, options=options)
    feeds, results = list(options["feeds"]), list(options["results"])
    if device == "cpu":
        return HostRunner(session, feeds, results)
    kind, _, number = device.partition(":")
    return DeviceRunner(onnxruntime, session, feeds, results, kind, int(number or 0))


def open_session(file: Path, *, device: str, threads: int, options: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """A session, and how many operators each execution provider takes (empty: not told). Raises RuntimeError."""
    onnxruntime = runtime()
    provider = str(options.get("provider") or CPU)
    available = onnxruntime.get_available_providers()
    if provider not in available:
        message = f"onnxruntime {onnxruntime.__version__} has no {provider} (it has {', '.join(available)})"
        raise RuntimeError(message)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = _ERRORS_ONLY
    spinning = "1" if options.get("spinning", False) else "0"
    settings.add_session_config_entry("session.intra_op.allow_spinning", spinning)
    settings.add_session_config_entry("session.inter_op.allow_spinning", spinning)
    # Releases that do not know an entry keep it and do nothing.
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    wanted: list[Any] = [provider]
    if provider != CPU:
        wanted = [(provider, {"device_id": device.partition(":")[2] or "0"}), CPU]
    session = onnxruntime.InferenceSession(str(file), settings, providers=wanted)
    shares = assigned(session)
    used = session.get_providers()
    if provider not in used:
        message = f"{provider} was asked for and did not load: operators would run on {', '.join(used)}"
        raise RuntimeError(message)
    if shares and not shares.get(provider):
        said = ", ".join(f"{name} {count}" for name, count in sorted(shares.items()))
        message = f"{provider} was asked for and took 0 of {sum(shares.values())} operators ({said})"
        raise RuntimeError(message)
    return session, shares


def assigned(session: Any) -> dict[str, int]:
    """Operators of each execution provider; empty where this release does not tell."""
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return {}
    shares: dict[str, int] = {}
    try:
        for part in ask():
            shares[part.ep_name] = shares.get(part.ep_name, 0) + len(part.get_nodes())
    except Exception:
        return {}
    return shares
