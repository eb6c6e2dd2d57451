"""Floor 0. Standard output without what a compiled solver prints there.

In: nothing. Out: a context in which the process's standard output goes nowhere. HiGHS prints some messages whatever its
options say, and standard output may be somebody's JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Compiled code writes through C's own buffer, so it is the file descriptor that is turned away meanwhile.

    What Python has printed before is written first; standard error stays as it is.
    """
    with contextlib.suppress(ValueError, AttributeError):  # closed, or none
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # closed: nothing to protect
        yield
        return
    flush = ctypes.CDLL(None).fflush
    flush(None)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)
