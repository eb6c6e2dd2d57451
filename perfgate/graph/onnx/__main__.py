"""Floor 3, graph. ``python -m perfgate.graph.onnx``: reads one ONNX file for ``isolated``.

In: a :class:`Request` on standard input. Out: a :class:`Reply` on standard output, nothing else.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from perfgate import wire
from perfgate.errors import PerfgateError
from perfgate.graph.onnx.exchange import Reply, Request

# Reading takes little memory whatever the model's size; a file that makes it take more is no model.
MAX_MEMORY = 4 * 2**30


def main() -> int:
    """Answer one request."""
    # Native code may print; only the reply may reach standard output.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _limit_memory()
    reply = _reply(wire.loads(Request, sys.stdin.buffer.read()))
    with answer:
        answer.write(wire.dumps(reply))
    return 0


def _reply(request: Request) -> Reply:
    from perfgate.graph.onnx import read

    try:
        root = Path(request.root) if request.root else None
        return Reply(trace=read.trace(Path(request.path), request.inputs, batch=request.batch, root=root))
    except PerfgateError as error:
        return Reply(error=str(error))
    except MemoryError:
        return Reply(error=f"{request.path}: takes more than {MAX_MEMORY // 2**30} GiB to read; export the model anew")


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MAX_MEMORY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    sys.exit(main())
