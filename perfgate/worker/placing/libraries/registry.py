"""Floor 3, worker. All compute libraries of this interpreter.

In: what the model runs in. Out: libraries in a fixed order, and sentences about what is wrong with the environment.
"""

from __future__ import annotations

from perfgate.records.placing import LibraryFound
from perfgate.worker.placing.libraries import base, eager, environment
from perfgate.worker.placing.libraries.base import Library
from perfgate.worker.placing.libraries.eager import Eager
from perfgate.worker.placing.libraries.inductor import Inductor
from perfgate.worker.placing.libraries.onnxruntime import CUDA, TENSORRT, Onnxruntime
from perfgate.worker.placing.libraries.openvino import Openvino


class Registry:
    """``found`` holds a record of each, missing ones included; ``usable`` those that are there."""

    def __init__(self, *, torch_model: bool) -> None:
        own = _torch_libraries() if torch_model else []
        own += [Onnxruntime(), Openvino()]
        for device in eager.cuda_devices() or ["cuda:0"]:
            number = device.partition(":")[2]
            suffix = "" if number == "0" else f"-{number}"
            own.append(Onnxruntime(f"onnxruntime-cuda{suffix}", CUDA, device))
            own.append(Onnxruntime(f"onnxruntime-tensorrt{suffix}", TENSORRT, device))
        more, problems = base.others(one.name for one in own)
        self._libraries = {one.name: one for one in [*own, *more]}
        self.found: tuple[LibraryFound, ...] = tuple(map(base.found, self._libraries.values()))
        missing = {one.name for one in self.found if one.missing}
        self.usable: dict[str, Library] = {name: one for name, one in self._libraries.items() if name not in missing}
        conflict = environment.conflict()
        self.problems: tuple[str, ...] = (*problems, *([conflict] if conflict else []))

    def missing(self, name: str) -> str:
        """Why a library cannot be used; empty where it can."""
        for one in self.found:
            if one.name == name:
                return one.missing
        return f"there is no library {name!r}; known are {', '.join(self._libraries)}"


def _torch_libraries() -> list[Library]:
    libraries: list[Library] = [Eager("torch-onednn"), Eager("torch-native", mkldnn=False), Inductor()]
    for device in eager.cuda_devices():
        suffix = "" if device == "cuda:0" else f"-{device.partition(':')[2]}"
        libraries.append(Eager(f"torch-cuda{suffix}", device))
        libraries.append(Inductor(device))
    return libraries
