"""``perfgate estimate``: fit the time estimator, ask it, and see how good it is; nothing is timed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli import options, requirements, verdict
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
        found = estimator_command.examples(source, least=estimator_command.LEAST)
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
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@_MODEL
@_DATA
@_TARGETS
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAMES",
    help="Platforms, as a100-sxm-80gb,l4; here (this machine); all.  [default: [cost] devices, else here]",
)
@click.option("--inputs", multiple=True, metavar="SPEC", help="Input of MODEL, as of `perfgate count`.")
@click.option("--mode", type=click.Choice(["infer", "train", "step"]), default=None, help="What one step is.")
@click.option("--batch", "batches", default="", metavar="SIZES", help="Batch sizes, as 1,8,32.")
@click.option("--dtype", "dtypes", default="", metavar="DTYPES", help="Dtypes, as float32,amp-bfloat16.")
@click.option("--compile", "compiled", is_flag=True, help="Estimate torch.compile (fused kernels) beside eager.")
@click.option("--threads", default="", metavar="LIST", help="Compute threads on CPUs, as 1,4.  [default: as measured]")
@click.option("--python", default="", metavar="PATH", help="Interpreter that builds the model.")
@_CONFIG
@options.JSON
@options.QUIET
def predict(
    models: tuple[str, ...], model_file: Path | None, data: Path | None, targets: tuple[str, ...], as_json: bool,
    quiet: bool, config_file: str, **asked: Any,
) -> int:  # fmt: skip
    """Estimate a step of each MODEL, or every row of --data, on other hardware and this. Writes no file (no --out).

    MODEL is what `perfgate count` takes: a model of perfgate.toml, module:callable with --inputs, or an .onnx file. It
    is counted on this machine, and nothing is timed. What a row of --data measured of itself is not looked at. Exit
    code 2: wrong arguments or configuration, or no fitted model; 3: MODEL cannot be built or run.
    """
    from perfgate.pipeline import estimator_command, estimator_file
    from perfgate.pipeline.working_tree import ESTIMATOR_FILE

    _check_asked(models, data, asked)
    model = estimator_file.read(model_file or options.here() / ESTIMATOR_FILE)
    estimator_command.check_targets(model, targets)
    if data is not None:
        questions = estimator_command.examples(_source(data, "", CONFIG_FILE))
        headroom: dict[str, float] = {}
    else:
        questions, headroom = _questions(models, config_file, quiet=quiet, **asked)
    answers = estimator_command.predict(model, questions, targets)
    fits = [_fits(one, answer, headroom) for one, answer in answers]
    if as_json:
        click.echo(json.dumps([_row(*pair, fit) for pair, fit in zip(answers, fits, strict=True)]))
        return EXIT_PASS
    console = verdict.console()
    console.print(_table(answers[:_SHOWN], fits))
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
        least = estimator_command.LEAST if model_file is None else 1
        found = estimator_command.examples(_source(data, store, config_file), least=least)
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


def _check_asked(models: tuple[str, ...], data: Path | None, asked: dict[str, Any]) -> None:
    """Raises UsageError where it is not clear what is asked."""
    given = [f"--{_OPTIONS[name]}" for name, value in asked.items() if value]
    if not models and data is None:
        msg = (
            "name a MODEL, as in `perfgate estimate predict resnet50 --device l4`, or the .csv or .jsonl file that has "
            "the questions with --data (docs/estimator.md)"
        )
        raise UsageError(msg)
    if data is not None and (models or given):
        both = "MODEL" if models else given[0]
        msg = f"--data and {both} both say what is asked; leave one of them out"
        raise UsageError(msg)
    if asked["inputs"] and len(models) > 1:
        msg = "--inputs are those of one MODEL; ask for one at a time, or configure the models in perfgate.toml"
        raise UsageError(msg)


_OPTIONS = {
    "devices": "device", "inputs": "inputs", "mode": "mode", "batches": "batch", "dtypes": "dtype",
    "compiled": "compile", "threads": "threads", "python": "python",
}  # fmt: skip


def _questions(
    models: tuple[str, ...], config_file: str, *, quiet: bool, devices: tuple[str, ...], inputs: tuple[str, ...],
    mode: str | None, batches: str, dtypes: str, compiled: bool, threads: str, python: str,
) -> tuple[list[Example], dict[str, float]]:  # fmt: skip
    """The questions, and by model the share of memory that has to stay free."""
    from perfgate.pipeline import estimator_questions as asking
    from perfgate.pipeline.count import CountRequest
    from perfgate.pipeline.request import Ports

    request = asking.QuestionRequest(
        models=tuple(dict.fromkeys(models)),
        count=CountRequest(
            root=options.here(),
            entry="",
            inputs=inputs,
            mode=mode or "",
            python=python,
            fallback_python=options.own_python(os.environ),
            config_file=config_file,
        ),
        batches=tuple(requirements.numbers("--batch", batches or None) or ()),
        dtypes=tuple(options.read_dtype(text) for text in requirements.listed(dtypes)),
        compiles=("eager", "default") if compiled else ("eager",),
        devices=tuple(requirements.listed(",".join(devices))),
        threads=tuple(requirements.numbers("--threads", threads or None) or ()),
    )
    with shown(Console(stderr=True), quiet=quiet) as progress:
        found = asking.questions(request, Ports(progress=progress, environ=os.environ))
    return found, {one.model: asking.headroom(request, one.model) for one in found}


def _fits(one: Example, answer: Estimate, headroom: dict[str, float]) -> bool | None:
    from perfgate.pipeline.estimator_questions import fits

    if answer.target != PEAK_MEMORY:
        return None
    return fits(answer, one.machine.memory_bytes, headroom.get(one.model, 0.0))


def _row(one: Example, answer: Estimate, fit: bool | None) -> dict[str, Any]:
    return {
        "model": one.model, "mode": one.mode, "dtype": one.dtype, "compile": one.compile, "batch": one.batch,
        "machine": one.machine.name, "threads": one.threads, **asdict(answer), "fits": fit,
    }  # fmt: skip


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


def _table(answers: list[tuple[Example, Estimate]], fits: list[bool | None]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("model", "machine", "run as", "target"):
        table.add_column(name, overflow="fold")
    for name in ("estimate", "90 % interval"):
        table.add_column(name, justify="right")
    table.add_column("from", overflow="fold")
    table.add_column("largest parts", overflow="fold")
    for (one, answer), fit in zip(answers, fits, strict=False):
        unit = _UNITS[answer.target]
        values = [units.quantity(value, unit) for value in (answer.value, answer.low, answer.high)]
        compiled = "" if one.compile == "eager" else f" {one.compile}"
        threads = f", {one.threads} thread{'' if one.threads == 1 else 's'}" if one.threads else ""
        run = f"{one.mode} {one.batch} {one.dtype}{compiled}{threads}"
        source = f"{answer.source} on {answer.anchor}" if answer.anchor else answer.source
        parts = ", ".join(f"{term.name} {units.quantity(term.value, unit)}" for term in answer.terms[:_TERMS])
        marks = f"{source} (!)" if answer.novel else source
        # Only what a user has to know: that a device is too small.
        target = f"{answer.target}, does not fit" if fit is False else answer.target
        cells = (
            one.model,
            one.machine.name,
            run,
            target,
            values[0],
            f"{values[1]} to {values[2]}",
            marks,
            parts,
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table
