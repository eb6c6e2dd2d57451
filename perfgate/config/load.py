"""Floor 2, config. Start here: the texts of one revision in, :class:`Config` out, or all problems at once."""

from __future__ import annotations

import posixpath
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perfgate.config import build, problems, relations, schema
from perfgate.config import effective as effective_rows
from perfgate.config.effective import Setting
from perfgate.errors import ConfigError, ConfigProblem
from perfgate.records.policy import Policy
from perfgate.records.workload import SideConfig

FILES = ("perfgate.toml", "pyproject.toml")
_PYPROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One revision's configuration.

    ``store_url`` is empty where the file names none. ``source`` is for people
    (``perfgate.toml at a04be77 (base)``); ``settings`` holds every value in force with its source.
    """

    side: SideConfig
    policy: Policy
    store_url: str
    source: str
    settings: tuple[Setting, ...] = ()


def read_tree(reader: Callable[[str], bytes | None], names: Iterable[str] = FILES) -> dict[str, str]:
    """The texts for :func:`load`: ``reader`` gives a file's bytes, or None where there is no such file.

    Raises ConfigError for files that are not UTF-8. A byte order mark is dropped.
    """
    texts, wrong = {}, []
    for name in names:
        content = reader(name)
        if content is None:
            continue
        try:
            texts[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            reason = f"byte {content[error.start]:#04x} is not UTF-8"
            wrong.append(ConfigProblem(file=name, key=f"line {line}", reason=reason, hint="save the file as UTF-8"))
    if wrong:
        raise ConfigError(tuple(wrong))
    return texts


def load(files: Mapping[str, str], *, where: str, sha: str | None) -> Config | None:
    """The configuration in ``files`` (name -> text), or None where no file holds one.

    ``where`` names the revision for people (``base``, ``head``); ``sha`` is its commit, None for an
    uncommitted tree. Of a ``pyproject.toml`` only ``[tool.perfgate]`` is read. Raises ConfigError with
    every problem: TOML syntax, unknown keys, wrong types and values, broken relations, two configurations.
    """
    found: list[ConfigProblem] = []
    trees: dict[str, dict[str, Any]] = {}
    for name, text in files.items():
        tree = _parse(name, text, found)
        if tree is not None:
            trees[name] = tree
    if len(trees) > 1:
        first, second = list(trees)[:2]
        hint = "keep the configuration in one of the two"
        found.append(ConfigProblem(file=second, key="tool.perfgate", reason=f"{first} holds one too", hint=hint))
    tables = {name: _validate(name, tree, found) for name, tree in trees.items()}
    if found:
        raise ConfigError(tuple(found))
    if not tables:
        return None
    [(name, table)] = tables.items()
    assert table is not None  # noqa: S101 - without problems there is a table
    source = f"{name} at {sha[:7]} ({where})" if sha else f"{name} ({where})"
    return Config(
        side=build.side(table, source=source),
        policy=build.policy(table, source=source, sha=sha),
        store_url=table.store or "",
        source=source,
        settings=effective_rows.settings(trees[name], source),
    )


def effective(config: Config) -> tuple[Setting, ...]:
    """Rows (key, value, source) of everything in force, for printing before a run."""
    return config.settings


def _is_pyproject(name: str) -> bool:
    return posixpath.basename(name) == _PYPROJECT


def _parse(name: str, text: str, found: list[ConfigProblem]) -> dict[str, Any] | None:
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        found.append(ConfigProblem(file=name, key="TOML", reason=reason, hint="correct the syntax"))
        return None
    if not _is_pyproject(name):
        return tree
    tool = tree.get("tool")
    own = tool.get("perfgate") if isinstance(tool, dict) else None
    if own is None or isinstance(own, dict):
        return own
    found.append(ConfigProblem(file=name, key="tool.perfgate", reason=f"expected a table, found {own!r}"))
    return None


def _validate(name: str, tree: dict[str, Any], found: list[ConfigProblem]) -> schema.ConfigTable | None:
    prefix = ("tool", "perfgate") if _is_pyproject(name) else ()
    table = None
    try:
        table = schema.ConfigTable.model_validate(tree)
    except ValidationError as error:
        found.extend(problems.from_validation(error, file=name, prefix=prefix))
    for place, reason, hint in relations.broken(tree):
        found.append(problems.problem(name, (*prefix, *place), reason, hint))
    return table
