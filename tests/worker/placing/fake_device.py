"""A package with a compute library on a device that does not exist: its tensors, link and speed are made up.

It computes with torch on the CPU. ``EVENTS`` tells what happened in order: ``upload``, ``run``, ``download``. Beside it
is a library on the CPU that takes 4 ms for a sigmoid, ``host`` in ``EVENTS``: what the device is good for.
"""

from __future__ import annotations

import textwrap

LIBRARY = '''
import time
from pathlib import Path

EVENTS = []
LINK_S_PER_BYTE = 2e-9
CALL_S = 0.0002
SLOWDOWN_S = 0.001
HOST_SIGMOID_S = 0.004


class OnDevice:
    """A tensor in the device's memory."""

    def __init__(self, array):
        self._array = array

    def numpy(self):
        EVENTS.append(("download", self._array.nbytes))
        time.sleep(self._array.nbytes * LINK_S_PER_BYTE)
        return self._array


class Runner:
    reuses = False

    def __init__(self, module, device, name):
        self._module, self.memory, self._name = module, "simulated " + device, name

    def place(self, value):
        if isinstance(value, OnDevice):
            return value
        array = value.detach().numpy()
        EVENTS.append(("upload", array.nbytes))
        time.sleep(array.nbytes * LINK_S_PER_BYTE)
        return OnDevice(array)

    def run(self, values):
        import torch
        EVENTS.append(("run", self._name))
        time.sleep(CALL_S + SLOWDOWN_S * self._name.count("cumsum"))
        with torch.no_grad():
            return [OnDevice(one.numpy()) for one in self._module(*(torch.from_numpy(v._array) for v in values))]

    def wait(self):
        pass


def load(file, *, device, threads, options):
    import torch
    return Runner(torch.export.load(str(file)).module(), device, options["name"])


class HostRunner:
    reuses, memory = False, "torch cpu"

    def __init__(self, module, name):
        self._module, self._name = module, name

    def place(self, value):
        import torch
        return value if isinstance(value, torch.Tensor) else torch.from_numpy(value.numpy())

    def run(self, values):
        import torch
        EVENTS.append(("host", self._name))
        time.sleep(HOST_SIGMOID_S * self._name.count("sigmoid"))
        with torch.no_grad():
            return list(self._module(*values))

    def wait(self):
        pass


def load_host(file, *, device, threads, options):
    import torch
    return HostRunner(torch.export.load(str(file)).module(), options["name"])


class Library:
    name, device, tolerance, loader = "simulated", "sim:0", 1e-4, "fakelib:load"
    compiler, whole, cost_s = False, True, 0.1

    def version(self):
        return "1.0"

    def missing(self):
        return ""

    def takes(self, piece):
        from perfgate.worker.placing.libraries.base import Answer
        program = piece.program()
        refused = [str(node.target) for node in program.graph.nodes if "pow" in str(node.target)]
        return Answer(reason="has no kernel for " + refused[0] if refused else "", how="asked the simulation")

    def build(self, piece, folder):
        import torch
        from perfgate.worker.placing.libraries.base import Made
        file = Path(folder) / "model.pt2"
        torch.export.save(piece.program(), str(file))
        names = [str(node.target) for node in piece.program().graph.nodes if node.op == "call_function"]
        return Made(file=file, options={"name": ",".join(names)})


class Host(Library):
    name, device, loader, whole = "slow-host", "cpu", "fakelib:load_host", False

    def takes(self, piece):
        from perfgate.worker.placing.libraries.base import Answer
        return Answer(how="asked the simulation")
'''


def install(folder):
    """Write the package and its entry point into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fakelib.py").write_text(textwrap.dedent(LIBRARY))
    info = folder / "fakelib-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakelib\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[perfgate.libraries]\nsimulated = fakelib:Library\nhost = fakelib:Host\n")
