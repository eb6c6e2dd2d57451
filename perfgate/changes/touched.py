"""Floor 3, changes. Which models a pull request touches, and why the others are not measured.

In: changed files, and the files that each model loads on either side. Out: :class:`Touched`. A model is
skipped only if every changed file is documentation or Python that neither side of it loads; what cannot be
classified touches every model. An ONNX model without Python of its own is touched by its own files alone, as long as
these come from git and not from ``setup``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from perfgate.changes import classify
from perfgate.changes.changed import ChangedFile
from perfgate.changes.globs import matches
from perfgate.records.evidence import Skipped
from perfgate.records.workload import ModelSpec, SideConfig

CONFIG_FILE = "perfgate.toml"

# Beside an ONNX model these are read by people; anything else may hold its weights.
_READ_BY_PEOPLE = frozenset({
    ".md", ".rst", ".markdown", ".adoc", ".txt", ".html", ".pdf",
    ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".bmp",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """``models``: name -> why it is measured. ``environment``: what the pull request changes of it, in words."""

    models: dict[str, str]
    skipped: tuple[Skipped, ...]
    environment: tuple[str, ...]


def decide(
    changed: Collection[ChangedFile],
    loaded: Mapping[str, Collection[str]],
    specs: Mapping[str, ModelSpec],
    *,
    failed: Collection[str] = (),
    sides: tuple[SideConfig, SideConfig] | None = None,
    committed: Collection[str] | None = None,
) -> Touched:
    """Judge every model of ``specs``.

    ``loaded``: model -> files of the checkout that base or head imported or opened. ``failed``: models whose
    files are not known on a side; a model absent from ``loaded`` is one of them. ``sides`` (base, head):
    their own differences (``setup``, ``python``, ``pythonpath``) touch every model and belong to the environment.
    ``committed``: files that git holds on both sides; None: where there is a ``setup``, it may have made any file.
    """
    files = sorted(changed, key=lambda file: file.path)
    differing = () if sides is None else side_changes(*sides)
    environment = (*differing, *(_named(file) for file in files if classify.kind(file) == classify.ENVIRONMENT))
    surely = differing[0] if differing else _touches_all(files)
    perhaps = surely or _may_touch_all(files)
    if committed is None and sides is not None and not any(side.setup for side in sides):
        committed = frozenset(file for used in loaded.values() for file in used)
    models, skipped = {}, []
    for name, spec in specs.items():
        own = frozenset(loaded.get(name, ()))
        unknown = name in failed or name not in loaded
        from_git = committed is not None and own.issubset(committed)
        closed = spec.is_onnx and not spec.modules and not unknown and from_git
        why = ""
        if unknown:
            why = "and which files it loads is not known"
        elif spec.is_onnx and not from_git:
            why = "of which setup may make its file"
        reason = (surely if closed else perhaps) or _touches(files, own, spec, python=why)
        if reason:
            models[name] = reason
        else:
            skipped.append(Skipped(model=name, reason=_why_not(len(files), closed=closed)))
    return Touched(models=models, skipped=tuple(skipped), environment=environment)


def only_documentation(
    changed: Iterable[ChangedFile], specs: Mapping[str, ModelSpec] | None = None, *, opened: Collection[str] = ()
) -> bool:
    """Whether nothing needs to be started: all changes are documentation that no model is known to use.

    ``specs`` gives the models' ``paths`` and ONNX files; ``opened`` are files that models opened in earlier runs.
    False where nothing changed: then there is nothing to tell from.
    """
    files = list(changed)
    globs = [glob for spec in (specs or {}).values() for glob in spec.paths]
    folders = [PurePosixPath(spec.entry).parent for spec in (specs or {}).values() if spec.is_onnx]
    used = frozenset(opened)
    return bool(files) and all(
        classify.kind(file) == classify.DOCUMENTATION
        and used.isdisjoint(file.paths)
        and not any(matches(path, glob) for path in file.paths for glob in globs)
        and not any(_may_hold_weights(path, folder) for path in file.paths for folder in folders)
        for file in files
    )


def side_changes(base: SideConfig, head: SideConfig) -> tuple[str, ...]:
    """What head changes in how a side is set up and run, in words; nothing where it is equal."""
    keys = ("setup", "python", "pythonpath")
    return tuple(f"{key} in the configuration" for key in keys if getattr(base, key) != getattr(head, key))


def _touches_all(files: Iterable[ChangedFile]) -> str:
    for file in files:
        if CONFIG_FILE in file.paths:
            return f"{CONFIG_FILE} changed"
        if classify.kind(file) == classify.ENVIRONMENT:
            return f"{_named(file)} changed, which may change every model's environment"
        if file.kind == "submodule":
            return f"submodule {_named(file)} changed"
    return ""


def _may_touch_all(files: Iterable[ChangedFile]) -> str:
    for file in files:
        if classify.kind(file) == classify.OTHER:
            return f"{_named(file)} changed, and perfgate cannot tell which models it touches"
    return ""


def _may_hold_weights(path: str, folder: PurePosixPath) -> bool:
    """Whether an ONNX model in ``folder`` may keep weights in the file ``path``: they lie beside or below it."""
    file = PurePosixPath(path)
    return file.is_relative_to(folder) and file.suffix.lower() not in _READ_BY_PEOPLE


def _touches(files: Iterable[ChangedFile], loaded: frozenset[str], spec: ModelSpec, *, python: str) -> str:
    """Why the model is touched; of several reasons the surest one. ``python``: why any Python file may touch it."""
    guess = ""
    for file in files:
        if not loaded.isdisjoint(file.paths):
            return f"it loads {_named(file)}, which changed"
        for glob in spec.paths:
            if any(matches(path, glob) for path in file.paths):
                guess = f"{_named(file)} changed, which its paths name ({glob})"
        if not guess and python and classify.kind(file) == classify.PYTHON:
            guess = f"{_named(file)} changed, {python}"
    return guess


def _named(file: ChangedFile) -> str:
    return f"{file.old_path} (now {file.path})" if file.old_path else file.path


def _why_not(count: int, *, closed: bool) -> str:
    if not count:
        return "no file differs between base and head"
    if closed:
        files = "the changed file is not" if count == 1 else f"none of {count} changed files is"
        return f"{files} part of this ONNX model"
    files = "the changed file is" if count == 1 else f"all {count} changed files are"
    return f"{files} documentation or Python that neither side of it loads"
