"""How long a fit takes, and an answer: step times by a law, of ten families of models.

``python -m benchmarks.estimator.speed``: fits on 10 000 (the best of ``--repeats``) and on 100 000 examples, the best
of ``--repeats`` answers about a step of 2 000 operators after load, and the key of the examples (what a gate without
news works out).

Exit status 1 where one takes longer than the limit that was set for it beforehand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.tables import print_table
from perfgate import units
from perfgate.estimator import fit, saved
from perfgate.estimator.model import Model
from perfgate.records.estimate import STEP_TIME, Example
from tests.estimator import steps

# Examples -> seconds that a fit may take; of an answer.
FITS = {10_000: 2.0, 100_000: 20.0}
OPERATORS, ANSWER_S = 2000, 0.05
REPEATS = 5


def learned(examples: Sequence[Example], times: int) -> tuple[Model, float]:
    """A fit and its seconds, the fastest of some: other work on the machine is no property of a fit."""

    def once() -> tuple[Model, float]:
        begun = time.perf_counter()
        model = fit.fit(examples, targets=(STEP_TIME,))
        return model, time.perf_counter() - begun

    return min((once() for _ in range(times)), key=lambda one: one[1])


def answered(model: Model, like: Example, repeats: int) -> float:
    """Least seconds of an answer about a step of 2 000 operators, each time other kernels in memory."""
    questions = [replace(like, targets={}, kernels=steps.large(OPERATORS)) for _ in range(repeats + 1)]
    # The first one loads what is loaded lazily.
    model.estimate(questions[0])
    return min(_seconds(partial(model.estimate, one)) for one in questions[1:])


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def run(counts: Sequence[int], repeats: int) -> int:
    """The table, printed."""
    rows, wrong = [], []

    def row(name: str, seconds: float, limit: float | None) -> None:
        rows.append((name, units.duration(seconds * 1e9), "" if limit is None else units.duration(limit * 1e9)))
        if limit is not None and seconds > limit:
            wrong.append(name)

    for count in counts:
        examples = steps.examples(count)
        model, seconds = learned(examples, max(1, repeats * min(FITS) // count))
        row(f"fit on {count} examples", seconds, FITS.get(count))
        row(f"key of {count} examples", _seconds(partial(fit.key, examples)), None)
        loaded = saved.loads(saved.dumps(model))
        row(f"answer, {OPERATORS} operators, learned from {count}", answered(loaded, examples[0], repeats), ANSWER_S)
    print_table(("what", "time", "limit"), rows)
    for name in wrong:
        print(f"{name}: above its limit")
    return int(bool(wrong))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smaller fit alone")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args(argv)
    return run(list(FITS)[: 1 if arguments.quick else None], arguments.repeats)


if __name__ == "__main__":
    raise SystemExit(main())
