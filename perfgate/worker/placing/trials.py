"""Floor 3, worker. One piece in one library: asked, built, loaded, and its results compared.

In: pieces with example inputs and reference outputs. Out: :class:`Trial`, with a runner that is ready to be timed, or
the reason why there is none.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate.records.placement import Target
from perfgate.worker.placing.deployed import placed
from perfgate.worker.placing.libraries import base
from perfgate.worker.placing.libraries.base import Answer, Library, Made
from perfgate.worker.placing.pieces import NoFileError, Piece

# By results: a reduced precision is compared in its own terms.
_REDUCED = {"float16": 5e-3, "bfloat16": 4e-2, "int8": 0.1, "uint8": 0.1}


@dataclass(slots=True, kw_only=True)
class Trial:
    """``runner`` None: ``answer.reason`` says why. ``inputs`` are the runner's own tensors."""

    piece: Piece
    answer: Answer
    made: Made | None = None
    runner: Any = None
    inputs: Sequence[Any] = ()
    difference: float = 0.0

    def release(self) -> None:
        """Let go of the loaded piece; what is known of it stays."""
        self.runner, self.inputs = None, ()

    def call(self) -> None:
        """Once, until its work is done."""
        self.runner.run(self.inputs)
        self.runner.wait()


def ask(piece: Piece, library: Library) -> Answer:
    """Whether ``library`` takes ``piece``; whatever it raises is a reason."""
    known = piece.answers.get(library.name)
    if known is None:
        try:
            known = library.takes(piece)
        except Exception as error:
            if isinstance(error, NoFileError):
                raise
            known = Answer(reason=f"{type(error).__name__}: {error}"[:300], how="asked")
        piece.answers[library.name] = known
    return known


def attempt(
    piece: Piece, library: Library, target: Target, wanted: Sequence[Any], *, folder: Path, alone: bool
) -> Trial:
    """Ask, build into ``folder`` (made anew), load, run once, compare with ``wanted``."""
    answer = ask(piece, library)
    if answer.reason:
        return Trial(piece=piece, answer=answer)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        made = library.build(piece, folder)
        runner = base.runner(library, made, target.threads, alone=alone)
        inputs = [runner.place(value) for value in piece.examples]
        # State changes with each call: what is compared is the first.
        got = runner.run(inputs)
        runner.wait()
        difference = worst(got, wanted)
    except Exception as error:
        if isinstance(error, NoFileError):
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Trial(piece=piece, answer=Answer(reason=reason, how=answer.how))
    allowed = tolerance(library, wanted)
    if difference > allowed:
        reason = (
            f"its results differ from the reference by {difference:.2g} of the largest value (allowed: {allowed:g})"
        )
        return Trial(piece=piece, answer=Answer(reason=reason, how=answer.how), difference=difference)
    return Trial(piece=piece, answer=answer, made=made, runner=runner, inputs=inputs, difference=difference)


def tolerance(library: Library, wanted: Sequence[Any]) -> float:
    """What a library may differ by: more where results have few bits."""
    names = {str(getattr(value, "dtype", "")).removeprefix("torch.") for value in wanted}
    return max([library.tolerance, *(_REDUCED.get(name, 0.0) for name in names)])


def worst(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Largest relative difference of any tensor; see ``placed.difference``."""
    if len(got) != len(wanted):
        return float("inf")
    return max((_difference(one, other) for one, other in zip(got, wanted, strict=True)), default=0.0)


def _difference(got: Any, wanted: Any) -> float:
    from perfgate.worker.placing.deployed.loaders import host

    plain = got if hasattr(got, "detach") else host.to_numpy(got)
    return placed.difference(plain, wanted)
