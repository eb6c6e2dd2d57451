"""The fitted estimator as a file: read for answers, written after a fit, or the cache that a gate leaves behind."""

from __future__ import annotations

from pathlib import Path

from perfgate.errors import UsageError
from perfgate.estimator import saved
from perfgate.estimator.model import Model
from perfgate.pipeline.working_tree import FOLDER, own_folder
from perfgate.report.write import write_file


def read(path: Path) -> Model:
    """The model in a file. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "no such file") if isinstance(error, OSError) else "not UTF-8"
        msg = f"{path}: cannot be read ({reason}); make it with `perfgate estimate fit`, or name one with --model"
        raise UsageError(msg) from None
    try:
        return saved.loads(text)
    except UsageError as error:
        msg = f"{path}: {error}"
        raise UsageError(msg) from None


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
