"""The command tree. Importing this module imports click and nothing heavier."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Any

import click

from perfgate import __version__
from perfgate.errors import Interrupted, PerfgateError, UsageError

# One line a command: name -> (module below perfgate.cli, one-line help).
COMMANDS = {
    "run": "The whole gate: measure, record, judge, write the report.",
    "measure": "Measure only: writes measurements.json, no verdict.",
    "count": "F, M and I of one model, operator by operator.",
    "cost": "The cheapest hardware for one model within its limits.",
    "place": "Which operator runs on which device and library.",
    "allocate": "The smallest or cheapest machine for one job.",
    "report": "Judge a measurements.json again and write the report.",
    "publish": "Judge on GitHub: comment, check run, summary, outputs.",
    "calibrate": "The smallest change that this runner can see (A/A).",
    "sample": "Fill the database with sample workloads for the time estimator.",
    "estimate": "Fit the time estimator, ask it, and see how good it is.",
    "doctor": "What this runner is and what it reaches (roofline).",
}


class LazyGroup(click.Group):
    """Lists commands from :data:`COMMANDS` without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the flow, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of the command that is run."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"perfgate.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, from the one-line helps."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfgate")
def app() -> None:
    """Does this change make the model slower, hungrier or dearer, and why?

    Exit codes: 0 pass, 1 regression or missing, 2 configuration or usage, 3 measuring impossible, 4 database,
    5 GitHub, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> int:
    """Exit code of the command line ``arguments`` (default: those of the process)."""
    _write_utf8()
    previous = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        result: Any = app.main(args=arguments, prog_name="perfgate", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit:
        # click's way to end where nobody reads standard output any more: with 1, which is a verdict.
        return PerfgateError.exit_code
    except click.ClickException as error:
        error.show()
        return UsageError.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("perfgate: interrupted; nothing is left running", err=True)
        return Interrupted.exit_code
    except PerfgateError as error:
        if os.environ.get("PERFGATE_TRACEBACK"):
            raise
        from perfgate.cli.text import plain

        click.echo(plain(f"perfgate: {error}"), err=True)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last resort
        # Python itself would end with 1, which is a verdict.
        if os.environ.get("PERFGATE_TRACEBACK"):
            traceback.print_exc()
        click.echo(f"perfgate: {_unforeseen(error)}", err=True)
        return PerfgateError.exit_code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _unforeseen(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unforeseen fault, nothing was judged: {text}; set PERFGATE_TRACEBACK=1 to see where, and report it"


def _raise_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's signature
    raise KeyboardInterrupt


def _write_utf8() -> None:
    """A C or cp1252 locale must not hide a regression behind an encoding error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            encoding = (getattr(stream, "encoding", "") or "").lower().replace("-", "")
            reconfigure(errors="replace" if encoding == "utf8" else "backslashreplace")
