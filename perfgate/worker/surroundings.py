"""Floor 3, worker. The process-wide settings that user code may change behind everyone's back.

In: torch's (where it is loaded) and the interpreter's global state, read twice. Out: one sentence for each difference.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything here changes what is measured, or where results land, without a trace in the model."""

    garbage_collection: bool
    working_directory: str
    default_dtype: str | None = None
    default_device: str | None = None
    threads: int | None = None
    grad_enabled: bool | None = None
    deterministic_algorithms: bool | None = None
    cudnn_benchmark: bool | None = None
    cudnn_deterministic: bool | None = None
    float32_matmul_precision: str | None = None

    @classmethod
    def now(cls) -> Surroundings:
        """The present state; touches no device, and leaves torch alone where nobody has imported it."""
        own: dict[str, Any] = {"garbage_collection": gc.isenabled(), "working_directory": _folder()}
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return cls(**own)
        return cls(
            **own,
            default_dtype=str(torch.get_default_dtype()),
            default_device=str(torch.get_default_device()),
            threads=int(torch.get_num_threads()),
            grad_enabled=bool(torch.is_grad_enabled()),
            deterministic_algorithms=bool(torch.are_deterministic_algorithms_enabled()),
            cudnn_benchmark=bool(torch.backends.cudnn.benchmark),
            cudnn_deterministic=bool(torch.backends.cudnn.deterministic),
            float32_matmul_precision=str(torch.get_float32_matmul_precision()),
        )

    def changes(self, after: Surroundings) -> tuple[str, ...]:
        """What the user's code changed between the two, as notes."""
        notes = []
        for item in dataclasses.fields(self):
            old, new = getattr(self, item.name), getattr(after, item.name)
            # None: torch was not there yet.
            if old == new or old is None:
                continue
            label = item.name.replace("_", " ")
            # Paths of the machine do not belong in a report.
            detail = "" if item.name == "working_directory" else f" from {old} to {new}"
            notes.append(f"the model's code changed the process's {label}{detail}")
        return tuple(notes)


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""
