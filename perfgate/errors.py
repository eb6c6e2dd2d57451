"""Floor 0. One error root; each class fixes the exit code of the command that ends with it.

::

    PerfgateError            3
    |-- UsageError           2   wrong arguments
    |   `-- ConfigError      2   perfgate.toml (all problems at once)
    |-- CheckoutError        2   a side did not load its own checkout, submodules or LFS missing
    |-- HistoryError         2   the commits to compare cannot be found (shallow clone ...)
    |-- MeasuringError       3   measuring is impossible or was made invalid
    |-- StoreError           4   the baseline database
    |-- GitHubError          5   the API
    `-- Interrupted        130   Ctrl-C or SIGTERM

Exit codes 0 and 1 belong to verdicts, never to errors. Every message names the file or key
and ends in what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

EXIT_PASS = 0
EXIT_REGRESSION = 1


class PerfgateError(Exception):
    """Root of all errors that perfgate raises on purpose; ``str(error)`` is for the user."""

    exit_code: ClassVar[int] = 3


class UsageError(PerfgateError):
    """Arguments that make no sense together."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One wrong key: where it stands, why it is wrong, and what to write instead."""

    file: str
    key: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.file}: {self.key}: {self.reason}"
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(UsageError):
    """The configuration is wrong; holds every problem found, not only the first."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class CheckoutError(PerfgateError):
    """A side's tree is incomplete, or the worker loaded code from somewhere else."""

    exit_code = 2


class HistoryError(PerfgateError):
    """The commits to compare are not in this clone."""

    exit_code = 2


class MeasuringError(PerfgateError):
    """No believable measurement can be made here; never a verdict."""

    exit_code = 3


class StoreError(PerfgateError):
    """The baseline database cannot be read or written; nothing in it was changed."""

    exit_code = 4


class GitHubError(PerfgateError):
    """GitHub refused or did not answer; the verdict is not affected."""

    exit_code = 5


class Interrupted(PerfgateError):  # noqa: N818 - not a fault
    """The user or the runner asked to stop."""

    exit_code = 130
