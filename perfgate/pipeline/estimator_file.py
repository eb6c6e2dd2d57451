"""The fitted estimator as a file: read for answers, written after a fit, or the cache that a gate leaves behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from perfgate.errors import UsageError
from perfgate.estimator import saved
from perfgate.estimator.model import Model
from perfgate.pipeline.working_tree import FOLDER, own_folder
from perfgate.report.write import write_file

# Of 100 000 examples in many settings it has some ten MB.
_MOST_BYTES = 2**30


def read(path: Path) -> Model:
    """The model in a file. Raises UsageError."""
    try:
        text = _content(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "no such file") if isinstance(error, OSError) else "not UTF-8"
        msg = f"{path}: cannot be read ({reason}); make it with `perfgate estimate fit`, or name one with --model"
        raise UsageError(msg) from None
    try:
        return saved.loads(text)
    except UsageError as error:
        msg = f"{path}: {error}"
        raise UsageError(msg) from None


def _content(path: Path) -> bytes:
    """A regular file's bytes: whoever wrote the checkout may have put a pipe or a device there. Raises OSError."""
    # Without O_NONBLOCK a pipe would be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > _MOST_BYTES:
            raise OSError(errno.EFBIG, "larger than any model")
        return file.read(_MOST_BYTES)


def cached(path: Path) -> Model | None:
    """The model that was fitted last; None where there is none, or none that this perfgate can read."""
    try:
        return read(path)
    except UsageError:
        return None


def write(model: Model, path: Path) -> None:
    """Raises UsageError."""
    try:
        if path.parent.name == str(FOLDER):
            own_folder(path.parent.parent)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}; choose another file with --out"
        raise UsageError(msg) from None
    if problem := write_file(path, saved.dumps(model)):
        raise UsageError(problem)
