"""``perfgate estimate``: fit the time estimator, ask it, and see how good it is; nothing is timed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import plain, say
from perfgate.errors import EXIT_PASS, UsageError
from perfgate.pipeline.request import CONFIG_FILE
from perfgate.records.estimate import ENERGY, PEAK_MEMORY, STEP_TIME, TARGETS, UTILISATION, Accuracy, Estimate

if TYPE_CHECKING:
    from perfgate.pipeline.estimator_command import Source
    from perfgate.records.estimate import Example

_UNITS = {STEP_TIME: "ns", PEAK_MEMORY: "byte", ENERGY: "joule", UTILISATION: "ratio"}
# Answers that are printed before `--json` is named.
_SHOWN = 50
_TERMS = 4

_FILE = click.Path(path_type=Path, dir_okay=False)
_DATA = click.option(
    "--data", type=_FILE, default=None, metavar="FILE", help="Examples as .csv or .jsonl (docs/estimator.md)."
)
_STORE = click.option("--store", default="", metavar="URL", help="Database.  [default: configuration, else .perfgate/]")
_CONFIG = click.option(
    "--config", "config_file", default=CONFIG_FILE, show_default=True, metavar="FILE", help="Names the store."
)
_MODEL = click.option(
    "--model", "model_file", type=_FILE, default=None, metavar="FILE",
    help="Fitted model.  [default: .perfgate/estimator.json]",
)  # fmt: skip
_TARGETS = click.option(
    "--target", "targets", multiple=True, type=click.Choice(TARGETS), help="Only this target; may be repeated."
)
_SEED = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random.")


@click.group("estimate")
def command() -> None:
    """Fit the estimator of step time, memory, energy and utilisation; ask it; see how good it is.

    It learns from the database that `perfgate sample` and the gate fill, or from a file with --data. `fit` writes the
    model (--out), `predict` and `evaluate` write to standard output. Exit codes: 0; 2 wrong arguments or a file that
    cannot be read; 4 the database.
    """


@command.command("fit")
@_DATA
@_STORE
@_CONFIG
@_TARGETS
@_SEED
@click.option("--out", type=_FILE, default=None, metavar="FILE", help="Model.  [default: .perfgate/estimator.json]")
@click.option("--fresh", is_flag=True, help="Do not look at the model that is there already.")
@click.option("--write", "lines", type=_FILE, default=None, metavar="FILE", help="Also write the examples as .jsonl.")
@options.JSON
@options.QUIET
def fit(
    data: Path | None, store: str, config_file: str, targets: tuple[str, ...], seed: int, out: Path | None,
    fresh: bool, lines: Path | None, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Learn from measured examples and write the model to --out as JSON.

    A model that is there already stays where the examples are the same, or where the new one is worse on examples that
    both held out.
    """
    from perfgate.pipeline import estimator_command
    from perfgate.pipeline.working_tree import ESTIMATOR_FILE

    source = _source(data, store, config_file)
    out = out or source.root / ESTIMATOR_FILE
    with shown(Console(stderr=True), quiet=quiet) as progress:
        progress.step("Reading examples", 0, 0, None)
        found = estimator_command.examples(source)
        if lines is not None:
            _write(found, lines)
        progress.step(f"Fitting {len(found)} examples", 0, 0, None)
        chosen = estimator_command.fit(found, out=out, targets=targets or TARGETS, seed=seed, fresh=fresh)
    if as_json:
        accuracy = {target: asdict(one) for target, one in chosen.model.accuracy.items()}
        tree = {
            "model": str(out), "key": chosen.model.key, "kept": chosen.kept, "reason": chosen.reason,
            "examples": len(found), "accuracy": accuracy, "notes": list(chosen.model.notes),
        }  # fmt: skip
        click.echo(json.dumps(tree))
        return EXIT_PASS
    console = verdict.console()
    say(console, f"{out}: {'kept' if chosen.kept else 'written'}, {len(found)} examples: {chosen.reason}")
    _accuracies(console, chosen.model.accuracy, "On held-out groups")
    for note in chosen.model.notes:
        say(console, f"Note: {note}")
    return EXIT_PASS


@command.command("predict")
@_MODEL
@_DATA
@_TARGETS
@options.JSON
def predict(model_file: Path | None, data: Path | None, targets: tuple[str, ...], as_json: bool) -> int:
    """Estimate every row of --data; what it measured of itself is not looked at. Writes no file (no --out)."""
    from perfgate.pipeline import estimator_command, estimator_file
    from perfgate.pipeline.working_tree import ESTIMATOR_FILE

    if data is None:
        msg = "--data is missing: name the .csv or .jsonl file that has the questions (docs/estimator.md)"
        raise UsageError(msg)
    model = estimator_file.read(model_file or options.here() / ESTIMATOR_FILE)
    answers = estimator_command.predict(model, estimator_command.examples(_source(data, "", CONFIG_FILE)), targets)
    if as_json:
        rows = [
            {
                "model": one.model, "mode": one.mode, "dtype": one.dtype, "compile": one.compile, "batch": one.batch,
                "machine": one.machine.name, "threads": one.threads, **asdict(answer),
            }
            for one, answer in answers
        ]  # fmt: skip
        click.echo(json.dumps(rows))
        return EXIT_PASS
    console = verdict.console()
    console.print(_table(answers[:_SHOWN]))
    if len(answers) > _SHOWN:
        say(console, f"… {len(answers) - _SHOWN} more, which --json lists")
    for sentence in dict.fromkeys(sentence for _, answer in answers for sentence in answer.novel):
        say(console, f"Note: {sentence}")
    return EXIT_PASS


@command.command("evaluate")
@_DATA
@_STORE
@_CONFIG
@click.option(
    "--model",
    "model_file",
    type=_FILE,
    default=None,
    metavar="FILE",
    help="Evaluate this model on the examples as they are.  [default: fit with groups held out]",
)
@_TARGETS
@_SEED
@options.JSON
@options.QUIET
def evaluate(
    data: Path | None, store: str, config_file: str, model_file: Path | None, targets: tuple[str, ...], seed: int,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Say how good estimates are where the whole group (a family) was held out. Writes no file (no --out)."""
    from perfgate.pipeline import estimator_command, estimator_file

    with shown(Console(stderr=True), quiet=quiet) as progress:
        progress.step("Reading examples", 0, 0, None)
        found = estimator_command.examples(_source(data, store, config_file))
        progress.step(f"Evaluating on {len(found)} examples", 0, 0, None)
        notes: tuple[str, ...] = ()
        if model_file is None:
            accuracy, notes = estimator_command.evaluate(found, targets or TARGETS, seed)
        else:
            accuracy = estimator_command.evaluate_model(estimator_file.read(model_file), found, targets)
    if as_json:
        click.echo(json.dumps({"accuracy": {name: asdict(one) for name, one in accuracy.items()}, "notes": notes}))
        return EXIT_PASS
    console = verdict.console()
    _accuracies(console, accuracy, "On held-out groups" if model_file is None else f"Of {model_file}")
    for note in notes:
        say(console, f"Note: {note}")
    return EXIT_PASS


def _source(data: Path | None, store: str, config_file: str) -> Source:
    from perfgate.pipeline.estimator_command import Source

    if data is not None and store:
        msg = "--data and --store both say where examples come from; leave one of them out"
        raise UsageError(msg)
    return Source(root=options.here(), data=data, store=store, config_file=config_file)


def _write(found: list[Example], path: Path) -> None:
    from perfgate.estimator import frame

    try:
        frame.write_lines(found, path)
    except OSError as error:
        msg = f"--write {path}: cannot be written ({error.strerror}); name a file in a writable folder"
        raise UsageError(msg) from None


def _accuracies(console: Console, accuracy: dict[str, Accuracy], title: str) -> None:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("target")
    for name in ("examples", "groups", "median error", "mean", "within 10 %", "within 20 %", "covered", "high/low"):
        table.add_column(name, justify="right")
    for one in accuracy.values():
        shares = (one.median_ape, one.mean_ape, one.within_10, one.within_20, one.coverage)
        cells = (one.target, str(one.n), str(one.groups), *(units.percent(share) for share in shares))
        table.add_row(*cells, units.significant(one.width))
    console.print(table)


def _table(answers: list[tuple[Example, Estimate]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("model", "machine", "run as", "target"):
        table.add_column(name, overflow="fold")
    for name in ("estimate", "90 % interval"):
        table.add_column(name, justify="right")
    table.add_column("from", overflow="fold")
    table.add_column("largest parts", overflow="fold")
    for one, answer in answers:
        unit = _UNITS[answer.target]
        values = [units.quantity(value, unit) for value in (answer.value, answer.low, answer.high)]
        run = f"{one.mode} {one.batch} {one.dtype}{'' if one.compile == 'eager' else f' {one.compile}'}"
        source = f"{answer.source} on {answer.anchor}" if answer.anchor else answer.source
        parts = ", ".join(f"{term.name} {units.quantity(term.value, unit)}" for term in answer.terms[:_TERMS])
        marks = f"{source} (!)" if answer.novel else source
        cells = (
            one.model,
            one.machine.name,
            run,
            answer.target,
            values[0],
            f"{values[1]} to {values[2]}",
            marks,
            parts,
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table
