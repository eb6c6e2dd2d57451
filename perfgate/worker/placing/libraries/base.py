"""Floor 3, worker. What a compute library is to placement, and all that this interpreter has.

In: the interpreter's packages, entry points of group ``perfgate.libraries`` included. Out: :class:`Library` objects.
An entry point names a callable that returns a library or several; ``loader`` of such a library is ``module:function``
of its own package (see ``deployed.loaders`` for what it returns), since deployed folders run without perfgate.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from perfgate.records.placing import LibraryFound
from perfgate.worker.placing.pieces import Piece

GROUP = "perfgate.libraries"
# Of the largest value of a tensor: single precision in another order of summation.
SINGLE = 1e-4
_LOADERS = "perfgate.worker.placing.deployed.loaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a library says to a piece: ``reason`` empty where it takes it; ``how`` it was asked."""

    reason: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A piece built: the file to load, and what its loader is to know."""

    file: Path
    options: dict[str, Any] = field(default_factory=dict)


class Library(Protocol):
    """A compute library on one device.

    ``tolerance``: largest difference from the reference relative to a tensor's largest value. ``loader``: a module of
    ``deployed.loaders``, or ``module:function``. ``compiler``: takes what no library takes. ``cost_s``: what building
    one piece takes, roughly, for planning.
    """

    name: str
    device: str
    tolerance: float
    loader: str
    compiler: bool
    whole: bool
    cost_s: float

    def version(self) -> str:
        """Of the installed package."""

    def missing(self) -> str:
        """Why it cannot be used here, with the remedy; empty where it can."""

    def takes(self, piece: Piece) -> Answer:
        """Whether it takes ``piece``, as the library itself says."""

    def build(self, piece: Piece, folder: Path) -> Made:
        """Files for ``piece`` in ``folder``, which is there and empty. Raises what the library raises."""


def options(made: Made, threads: int, *, alone: bool) -> dict[str, Any]:
    """What the loader is told. ``alone``: no other library works in this process, so that idle threads may spin."""
    return {**made.options, "spinning": alone and threads > 1}


def runner(library: Library, made: Made, threads: int, *, alone: bool) -> Any:
    """The loaded piece."""
    module, _, function = library.loader.partition(":")
    where = importlib.import_module(module if function else f"{_LOADERS}.{module}")
    load = getattr(where, function or "load")
    return load(made.file, device=library.device, threads=threads, options=options(made, threads, alone=alone))


def found(library: Library) -> LibraryFound:
    """The record of a library."""
    missing = _asked(library)
    return LibraryFound(
        name=library.name,
        device=library.device,
        version="" if missing else library.version(),
        missing=missing,
        compiler=library.compiler,
        whole=library.whole,
        tolerance=library.tolerance,
    )


def _asked(library: Library) -> str:
    try:
        return library.missing()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


def others(taken: Iterable[str]) -> tuple[list[Library], list[str]]:
    """Libraries of other packages, and what is wrong with some; names in ``taken`` are those of our own."""
    libraries: list[Library] = []
    problems: list[str] = []
    known = set(taken)
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            made = point.load()()
        except Exception as error:
            problems.append(
                f"entry point {point.name} = {point.value} of group {GROUP} does not load "
                f"({type(error).__name__}: {error}); correct or uninstall its package"
            )
            continue
        for one in made if isinstance(made, (list, tuple)) else (made,):
            if one.name in known:
                problems.append(
                    f"entry point {point.name}: there is a library {one.name!r} already; give it another name"
                )
                continue
            known.add(one.name)
            libraries.append(one)
    return libraries, problems


def installed(distribution: str) -> str:
    """Version of an installed distribution; empty where there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
