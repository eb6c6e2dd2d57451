"""Floor 3, worker. Pieces saved by torch.export, run operator by operator. No perfgate."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from .host import to_torch


class TorchRunner:
    """``options``: ``mkldnn`` False leaves oneDNN's kernels away while a piece runs.

    Torch's number of threads is the process's, so each call sees to its own; ``threads`` 0 leaves it as it is.
    """

    reuses = False

    def __init__(self, module: Any, device: str, threads: int, options: dict[str, Any]) -> None:
        import torch

        self._torch = torch
        self._module = module
        self._device = torch.device(device)
        self._threads = threads
        self._native = not options.get("mkldnn", True)
        self.memory = f"torch {device}"

    def place(self, value: Any) -> Any:
        """On this runner's device."""
        return to_torch(value, self._device)

    def run(self, values: list[Any]) -> list[Any]:
        """One call."""
        if self._threads and self._torch.get_num_threads() != self._threads:
            self._torch.set_num_threads(self._threads)
        if not self._native:
            with self._torch.no_grad():
                return list(self._module(*values))
        flags = self._torch.backends.mkldnn
        before = flags.enabled
        flags.enabled = False
        try:
            with self._torch.no_grad():
                return list(self._module(*values))
        finally:
            flags.enabled = before

    def wait(self) -> None:
        """Work on an accelerator is queued."""
        if self._device.type != "cpu":
            getattr(self._torch, self._device.type).synchronize(self._device)


def load(file: Path, *, device: str, threads: int, options: dict[str, Any]) -> TorchRunner:
    """``threads`` 0: as many as torch has."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.load(str(file)).module()
    return TorchRunner(plain(module), device, threads, options)


def plain(module: Any) -> Any:
    """The same without checks and trees of arguments, which take longer than small operators do."""
    import torch

    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_module" and str(node.target).startswith("_guards"):
            graph.erase_node(node)
    graph.set_codegen(torch.fx.graph.CodeGen())
    module.recompile()
    return module.forward
