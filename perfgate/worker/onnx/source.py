"""Floor 3, worker. The files of one ONNX model: where they lie, whether they are this checkout's, and what is in them.

In: ``ModelSpec`` and ``Prepare``. Out: :class:`Source`. Standard library only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NoReturn

from perfgate.protobuf import MalformedError
from perfgate.records.protocol import Prepare
from perfgate.records.workload import ModelSpec
from perfgate.worker.failures import refuse
from perfgate.worker.onnx import file
from perfgate.worker.onnx.file import ModelFile
from perfgate.worker.provenance import prove_file

_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """``path`` is absolute; ``nbytes`` counts the file and those that hold its weights."""

    path: Path
    contents: ModelFile
    nbytes: int


def locate(spec: ModelSpec, prepare: Prepare) -> Source:
    """The model's files, each opened once, so that they count among those used.

    Raises WorkerError: ``import`` where a file is missing or no model, ``foreign-code`` where it is another
    checkout's, ``unsupported`` where weights lie outside of the model's folder.
    """
    key = f"models.{spec.name}.entry = {spec.entry!r}"
    path = Path(prepare.checkout, spec.entry)
    if not path.is_file():
        _missing(f"{key}: {prepare.side} has no such file; correct the path, commit the file, or let setup make it")
    prove_file(prepare, str(path), key)
    _check_contents(path, spec.entry)
    try:
        contents = file.read(path)
    except MalformedError as error:
        _missing(f"{key}: {prepare.side}'s file is no ONNX model: {error}; export it again")
    nbytes = path.stat().st_size
    for location, tensor in contents.external.items():
        nbytes += _external(location, tensor, path, prepare, key)
    return Source(path=path, contents=contents, nbytes=nbytes)


def _external(location: str, tensor: str, model: Path, prepare: Prepare, key: str) -> int:
    """Size of a file with weights."""
    relative = PurePath(location)
    if not location or relative.is_absolute() or ".." in relative.parts:
        message = (
            f"{key}: the weights of {tensor!r} lie in {location!r}, outside of the model's folder; export the model "
            "with its weights beside it"
        )
        refuse("unsupported", "build", message)
    path = model.parent / relative
    if not path.is_file():
        message = (
            f"{key}: the weights of {tensor!r} lie in {location!r}, which {prepare.side} does not have; commit it "
            "beside the model, or let setup make it"
        )
        _missing(message)
    prove_file(prepare, str(path), key)
    _check_contents(path, os.path.relpath(path, prepare.checkout))
    return path.stat().st_size


def _check_contents(path: Path, name: str) -> None:
    with path.open("rb") as stream:
        if stream.read(len(_POINTER)) == _POINTER:
            _missing(f"{name} is a Git LFS pointer and not the file itself; install git-lfs where perfgate runs")


def _missing(message: str) -> NoReturn:
    refuse("import", "build", message)
