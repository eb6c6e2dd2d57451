"""Floor 3, worker. Pieces compiled ahead of time by torch's compiler. No perfgate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .host import to_torch


class InductorRunner:
    """A compiled package. ``threads`` as in ``torch_piece``."""

    reuses = False

    def __init__(self, package: Any, device: str, threads: int) -> None:
        import torch

        self._torch = torch
        self._package = package
        self._threads = threads
        self._device = torch.device(device)
        self.memory = f"torch {device}"

    def place(self, value: Any) -> Any:
        """On this runner's device."""
        return to_torch(value, self._device)

    def run(self, values: list[Any]) -> list[Any]:
        """One call."""
        if self._threads and self._torch.get_num_threads() != self._threads:
            self._torch.set_num_threads(self._threads)
        with self._torch.no_grad():
            made = self._package(*values)
        return [made] if isinstance(made, self._torch.Tensor) else list(made)

    def wait(self) -> None:
        """Work on an accelerator is queued."""
        if self._device.type != "cpu":
            getattr(self._torch, self._device.type).synchronize(self._device)


def load(file: Path, *, device: str, threads: int, options: dict[str, Any]) -> InductorRunner:
    """``threads`` 0: as many as torch has."""
    import torch
    import torch._inductor

    del options
    return InductorRunner(torch._inductor.aoti_load_package(str(file)), device, threads)
