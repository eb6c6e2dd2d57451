"""``perfgate estimate``: learn from the store or a file, answer questions, say how good the answers are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.errors import UsageError
from perfgate.estimator import fit as fitting
from perfgate.estimator import frame
from perfgate.estimator.accuracy import of_answers
from perfgate.estimator.fit import Choice
from perfgate.estimator.model import Model
from perfgate.pipeline import estimator_file
from perfgate.pipeline.examples import NAMESPACES
from perfgate.pipeline.examples import examples as of_records
from perfgate.pipeline.sample_record import disturbed
from perfgate.pipeline.working_tree import DEFAULT_STORE, configuration
from perfgate.records.estimate import TARGETS, Accuracy, Estimate, Example
from perfgate.store.open import open_store

# Fewer examples teach nothing.
LEAST = fitting.LEAST


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where examples come from: a file (``data``), or the store at ``store`` (empty: the configured one)."""

    root: Path
    data: Path | None = None
    store: str = ""
    config_file: str = "perfgate.toml"


def examples(source: Source, *, least: int = 1) -> list[Example]:
    """Measured examples, at least so many. Raises UsageError, ConfigError and StoreError."""
    noisy = 0
    if source.data is not None:
        found = frame.examples(source.data)
        where = str(source.data)
    else:
        url = source.store or _configured(source)
        with open_store(url, make=False) as store:
            where = store.name
            records = [one for space in NAMESPACES for one in store.newest(namespace=space, each_threads=True)]
        found, noisy = of_records(records), sum(map(disturbed, records))
    if len(found) < least:
        many = f"{len(found)} measured examples" if len(found) != 1 else "1 measured example"
        needed = f"{many} in it, and {least} are needed" if found else "no measured examples in it"
        remedy = "run `perfgate sample` or the gate with this store, or name a file with --data"
        if noisy:
            remedy = (
                f"other programs took the processors while {noisy} records were made, so that these teach nothing: "
                "run `perfgate sample` on a quiet machine"
            )
        if source.data is not None:
            remedy = "add rows (docs/estimator.md says what a row holds), or learn from the database without --data"
        msg = f"{where}: {needed}; {remedy}"
        raise UsageError(msg)
    return found


def fit(
    measured: Iterable[Example], *, out: Path, targets: Sequence[str] = TARGETS, seed: int = 0, fresh: bool = False
) -> Choice:
    """A model of these examples, written to ``out``.

    Where ``out`` holds the model of the same content and seed already, that is the answer. Where it holds another one
    that is better on what both held out, that one stays. ``fresh``: neither.

    Raises:
        UsageError: Nothing to learn from, or ``out`` cannot be written.
    """
    old = None if fresh else estimator_file.cached(out)
    chosen = fitting.again(old, measured, targets=targets, seed=seed)
    if not chosen.kept:
        estimator_file.write(chosen.model, out)
    return chosen


def check_targets(model: Model, targets: Sequence[str]) -> None:
    """Raises UsageError where the model does not estimate one of them."""
    lacking = [target for target in targets if target not in model.fitted]
    if lacking:
        known = ", ".join(model.fitted)
        msg = f"--target {lacking[0]}: the fitted model estimates {known} only; fit it on examples that measure it"
        raise UsageError(msg)


def predict(model: Model, asked: Sequence[Example], targets: Sequence[str] = ()) -> list[tuple[Example, Estimate]]:
    """An estimate of each target for each question; what a question measured of itself is not looked at."""
    chosen = tuple(targets) or tuple(model.fitted)
    blank = [replace(one, targets={}) for one in asked]
    found = [(target, model.estimates(blank, target)) for target in chosen]
    return [(one, each[number]) for number, one in enumerate(asked) for _, each in found]


def evaluate(
    measured: Iterable[Example], targets: Sequence[str] = TARGETS, seed: int = 0
) -> tuple[dict[str, Accuracy], tuple[str, ...]]:
    """Accuracy on held-out groups of a fit on these examples, and its notes."""
    model = fitting.fit(measured, targets=targets, seed=seed)
    return model.accuracy, model.notes


def evaluate_model(model: Model, measured: Sequence[Example], targets: Sequence[str] = ()) -> dict[str, Accuracy]:
    """Accuracy of a model on examples: as they are, so the caller sees to it that it did not learn from them."""
    found = {}
    for target in tuple(targets) or tuple(model.fitted):
        rows = [one for one in measured if one.targets.get(target, 0) > 0]
        if rows:
            answers = model.estimates([replace(one, targets={}) for one in rows], target)
            found[target] = of_answers(target, rows, answers)
    if not found:
        msg = "no example measures what the model estimates; name a file with measured values"
        raise UsageError(msg)
    return found


def _configured(source: Source) -> str:
    config = configuration(source.root, source.config_file)
    if config is not None and config.store_url:
        return config.store_url
    # Where `perfgate sample` keeps its records when no database is configured.
    local = source.root / DEFAULT_STORE
    if not local.is_file():
        msg = "no store is configured here; name one with --store, or a CSV or JSON Lines file with --data"
        raise UsageError(msg)
    return str(local)
