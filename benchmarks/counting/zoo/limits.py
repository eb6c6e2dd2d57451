"""Memory limit of the process that builds a model.

In: bytes, or the variable ``TORCH_BENCH_MEMORY`` (a worker is handed on variables of torch's prefix only). The limit is
on private writable memory, since a CUDA build of torch reserves tens of gigabytes of addresses that it never uses.
"""

from __future__ import annotations

import os
import resource

VARIABLE = "TORCH_BENCH_MEMORY"
DEFAULT_BYTES = 12 * 2**30


def limit_memory(size: int | None = None) -> None:
    """Let this process and its children have ``size`` bytes (None: the variable's, else 12 GiB); never raises it."""
    wished = int(os.environ.get(VARIABLE, DEFAULT_BYTES)) if size is None else size
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = wished if hard == resource.RLIM_INFINITY else min(wished, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
