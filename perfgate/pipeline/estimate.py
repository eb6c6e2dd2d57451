"""``perfgate estimate``: learn from the store or a file, answer questions, say how good the answers are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.errors import UsageError
from perfgate.estimator import fit as fitting
from perfgate.estimator import frame, saved
from perfgate.estimator.fit import Choice
from perfgate.estimator.model import Model
from perfgate.pipeline.examples import examples as of_records
from perfgate.pipeline.working_tree import DEFAULT_STORE, ESTIMATOR_FILE, FOLDER, configuration, own_folder
from perfgate.records.baseline import NAMESPACE_BASE
from perfgate.records.estimate import TARGETS, Accuracy, Estimate, Example
from perfgate.records.sampling import NAMESPACE_SAMPLE
from perfgate.report.write import write_file
from perfgate.store.open import open_store
from perfgate.store.valid import NAMESPACE_LOCAL

# What may be learned from. Pull requests' records are not: nothing that ran beside unmerged code teaches the gate.
NAMESPACES = (NAMESPACE_BASE, NAMESPACE_SAMPLE, NAMESPACE_LOCAL)
DEFAULT_MODEL = ESTIMATOR_FILE
FORMATS = (".csv", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where examples come from: a file (``data``), or the store at ``store`` (empty: the configured one)."""

    root: Path
    data: Path | None = None
    store: str = ""
    config_file: str = "perfgate.toml"
    namespaces: tuple[str, ...] = NAMESPACES


def examples(source: Source) -> list[Example]:
    """Measured examples. Raises UsageError, ConfigError and StoreError; nothing found is a UsageError too."""
    if source.data is not None:
        found = frame.examples(source.data)
        where = str(source.data)
    else:
        url = source.store or _configured(source)
        with open_store(url) as store:
            where = store.name
            found = of_records(one for space in source.namespaces for one in store.newest(namespace=space))
    if not found:
        msg = (
            f"{where}: no measured examples in it; run `perfgate sample` or the gate with this store, "
            "or name a file with --data"
        )
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
    given = list(measured)
    old = None if fresh else _old(out)
    if old is not None and old.key == fitting.key(given, targets=targets, seed=seed):
        return Choice(model=old, kept=True, reason="the same examples as in the last fit")
    chosen = fitting.choose(old, fitting.fit(given, targets=targets, seed=seed))
    if not chosen.kept:
        write(chosen.model, out)
    return chosen


def write(model: Model, out: Path) -> None:
    """Raises UsageError."""
    try:
        if out.parent.name == str(FOLDER):
            own_folder(out.parent.parent)
        out.parent.mkdir(parents=True, exist_ok=True)
        problem = write_file(out, saved.dumps(model))
    except OSError as error:
        problem = str(error)
    if problem:
        msg = f"{out}: cannot be written ({problem}); choose another file with --out"
        raise UsageError(msg)


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
            found[target] = _accuracy(target, rows, answers)
    if not found:
        msg = "no example measures what the model estimates; name a file with measured values"
        raise UsageError(msg)
    return found


def _accuracy(target: str, rows: Sequence[Example], answers: Sequence[Estimate]) -> Accuracy:
    truth = [one.targets[target] for one in rows]
    ape = sorted(abs(answer.value / true - 1) for answer, true in zip(answers, truth, strict=True))
    inside = sum(answer.low <= true <= answer.high for answer, true in zip(answers, truth, strict=True))
    width = sorted(answer.high / answer.low for answer in answers)
    n = len(rows)
    return Accuracy(
        target=target,
        n=n,
        groups=len({one.group for one in rows}),
        median_ape=_median(ape),
        mean_ape=sum(ape) / n,
        within_10=sum(one <= 0.1 for one in ape) / n,
        within_20=sum(one <= 0.2 for one in ape) / n,
        coverage=inside / n,
        width=_median(width),
    )


def _median(values: Sequence[float]) -> float:
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _old(out: Path) -> Model | None:
    """The model that is there; None where there is none, or none that this perfgate can read."""
    try:
        return read(out)
    except UsageError:
        return None


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
