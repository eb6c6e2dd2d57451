"""Progress for people: a live line on a terminal, one line per news elsewhere (a CI log)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class Shown(Protocol):
    """What the pipeline is told to report to."""

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        """See ``perfgate.bench.progress``."""


class _TimeLeft(ProgressColumn):
    """The time left as measuring predicts it (it knows about looks and budget; rich does not)."""

    def render(self, task: Task) -> Text:
        seconds = task.fields.get("seconds_left")
        if seconds is None:
            return Text("")
        return Text(f"about {timedelta(seconds=round(seconds))} left", style="cyan")


class _Live:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("Starting", total=None, seconds_left=None)

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        self._bar.update(self._task, description=text, completed=done, total=total or None, seconds_left=seconds_left)


class _Lines:
    """A CI log is read afterwards: one line whenever the text changes, and each tenth of the way."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] = ("", -1)

    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        tenth = 10 * done // total if total else 0
        if (text, tenth) == self._last:
            return
        self._last = (text, tenth)
        left = f", about {round(seconds_left)} s left" if seconds_left is not None else ""
        count = f" ({done} of {total}{left})" if total else ""
        self._console.print(f"{text}{count}", highlight=False, markup=False, soft_wrap=True)


class _Quiet:
    def step(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        del text, done, total, seconds_left


@contextmanager
def shown(console: Console, *, quiet: bool) -> Iterator[Shown]:
    """The progress to hand to the pipeline; ``console`` writes to standard error."""
    if quiet:
        yield _Quiet()
    elif console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _TimeLeft())
        with Progress(*columns, console=console, transient=True) as bar:
            yield _Live(bar)
    else:
        yield _Lines(console)
