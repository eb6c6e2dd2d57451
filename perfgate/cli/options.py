"""Options that several commands share, and what they turn into."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from perfgate.config import values
from perfgate.errors import UsageError
from perfgate.github import events
from perfgate.pipeline.request import CONFIG_FILE, MeasureRequest
from perfgate.records.cost import Prices

PRICES_VARIABLE = "PERFGATE_PRICES"

Command = TypeVar("Command", bound=Callable[..., Any])

OUT = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("perfgate-out"),
    show_default=True,
    help="Folder for the outputs.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
TEMPLATE = click.option(
    "--template",
    "template",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="Your own comment template, which extends comment.md.j2 (docs/report.md); rendered in a sandbox.",
)
WORKING_CONFIG = click.option(
    "--config",
    "config_file",
    default=CONFIG_FILE,
    show_default=True,
    metavar="FILE",
    help="Configuration in the working tree.",
)
PRICES = click.option(
    "--prices",
    "prices",
    default=None,
    metavar="FILE",
    help="Private prices (docs/prices.md).  [default: the variable PERFGATE_PRICES, a file's name or its text]",
)
QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress.")


def revision_options(command: Command) -> Command:
    """--base, --head, --config, --python, --model, --everything."""
    for option in (
        click.option("--everything", is_flag=True, help="Measure all models, touched or not."),
        click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model; may be repeated."),
        click.option("--python", default="", metavar="PATH", help="Interpreter that runs the models, for both sides."),
        click.option("--config", "config_file", default=CONFIG_FILE, show_default=True, metavar="FILE",
                     help="Configuration file, relative to the repository, read at each revision."),
        click.option("--head", default="", metavar="REV", help="Revision to judge.  [default: HEAD, or the event's]"),
        click.option("--base", default="", metavar="REV",
                     help="Revision to compare with; its merge base with head is taken.  [default: the event's]"),
    ):  # fmt: skip
        command = option(command)
    return command


def calibration_options(command: Command) -> Command:
    """--head, --config, --python, --model."""
    for option in (
        click.option("--model", "models", multiple=True, metavar="NAME", help="Only this model; may be repeated."),
        click.option("--python", default="", metavar="PATH", help="Interpreter that runs the models."),
        click.option("--config", "config_file", default=CONFIG_FILE, show_default=True, metavar="FILE",
                     help="Configuration file, relative to the repository, read at that revision."),
        click.option("--head", default="HEAD", show_default=True, metavar="REV", help="Revision to measure."),
    ):  # fmt: skip
        command = option(command)
    return command


def here() -> Path:
    """The folder that perfgate was started in. Raises UsageError where somebody has removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        msg = f"the current folder cannot be used ({error.strerror}); start perfgate inside of the repository"
        raise UsageError(msg) from None


def read_template(path: Path | None) -> str | None:
    """The text of --template. Raises UsageError."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--template {path}: cannot be read ({error}); name a UTF-8 file of yours"
        raise UsageError(msg) from None


def calibration_request(*, head: str, config_file: str, python: str, models: tuple[str, ...]) -> MeasureRequest:
    """The request of a revision to be measured against itself."""
    return MeasureRequest(root=here(), head=head, config_file=config_file, python=python, models=models)


def measure_request(
    *,
    base: str,
    head: str,
    config_file: str,
    python: str,
    models: tuple[str, ...],
    everything: bool,
    environ: Mapping[str, str] | None = None,
) -> MeasureRequest:
    """The request of explicit revisions, or of the GitHub event where none is given.

    Raises UsageError where neither says what to compare.
    """
    environ = os.environ if environ is None else environ
    common: dict[str, Any] = {
        "root": here(),
        "config_file": config_file,
        "python": python,
        "models": models,
        "everything": everything,
    }
    in_actions = environ.get("GITHUB_ACTIONS") == "true"
    event = events.read(environ) if in_actions else None
    ci = event.ci if event else None
    if base:
        return MeasureRequest(base=base, head=head or "HEAD", ci=ci, **common)
    if event is None:
        msg = "--base is missing: name the revision to compare with, as in `perfgate run --base main`"
        raise UsageError(msg)
    return MeasureRequest(
        base=event.base,
        head=head or event.head or "HEAD",
        # Only a pull request's base branch may have moved on; other events name the exact commits.
        merge_base=event.pull_request is not None,
        ci=ci,
        refuse="pull request from a fork" if event.is_fork else "",
        **common,
    )


def own_python(environ: Mapping[str, str]) -> str:
    """perfgate's own interpreter where no virtual environment is active and it has torch; else none."""
    if environ.get("VIRTUAL_ENV") or importlib.util.find_spec("torch") is None:
        return ""
    # The link, not what it points to: that is what makes it the environment's.
    return str(Path(sys.executable))


def read_dtype(text: str) -> str:
    """The dtype of --dtype; empty stays empty. Raises UsageError."""
    if not text:
        return ""
    try:
        return values.read_dtype(text)
    except ValueError as error:
        msg = f"--dtype {error}"
        raise UsageError(msg) from None


def read_prices(option: str | None, environ: Mapping[str, str]) -> Prices:
    """Private prices from --prices, else from the action's input or ``PERFGATE_PRICES``: a file's name or the text.

    Raises UsageError and ConfigError, which never repeat a price.
    """
    from perfgate.config import prices

    given = option or environ.get("INPUT_PRICES") or environ.get(PRICES_VARIABLE, "")
    if not given.strip():
        return Prices()
    if option is None and "\n" in given.strip():
        return prices.read(given, PRICES_VARIABLE)
    where = f"--prices {option}" if option else PRICES_VARIABLE
    try:
        text = Path(given.strip()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        msg = f"{where}: cannot be read ({reason}); name a TOML file with [prices.NAME] tables"
        raise UsageError(msg) from None
    return prices.read(text, option or PRICES_VARIABLE)
