"""A checkout of models that behave and misbehave, and what Linux says of a process."""

from __future__ import annotations

import os
import signal
import time

FILES = {
    "plain.py": """
        import sys
        import torch
        from torch import nn

        print("garbage on stdout")
        sys.stderr.write("garbage on stderr\\n")

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                print("{\\"type\\": \\"Finished\\", \\"peak_bytes\\": 1}")
                return self.layer(x)
    """,
    "bad.py": """
        import os, sys, threading, time
        import torch
        from torch import nn

        def raises():
            raise ValueError("no layers\\nat all")

        def exits():
            sys.exit(4)

        def vanishes():
            os._exit(7)

        def detaches():
            class Net(nn.Module):
                def forward(self, x):
                    if not hasattr(self, "forked"):
                        self.forked = True
                        if os.fork() == 0:
                            os.setsid()
                            return x
                    return x
            return Net()

        def nothing():
            return None

        class Fails(nn.Module):
            def __init__(self, after):
                super().__init__()
                self.calls, self.after = 0, after

            def forward(self, x):
                self.calls += 1
                if self.calls > self.after:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
                return x

        def fails_first():
            return Fails(0)

        def downloads():
            import urllib.request
            urllib.request.urlopen("http://weights.invalid/resnet.pt", timeout=1)
    """,
}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    """Whether the process ends, and is reaped, within seconds."""
    for _ in range(400):
        if not alive(pid):
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


def status_bytes(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def high_water(pid: int) -> int:
    return status_bytes(pid, "VmHWM")


def resident(pid: int) -> int:
    return status_bytes(pid, "VmRSS")
