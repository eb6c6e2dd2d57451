"""Floor 3, changes. Bench code from base on both sides: a pull request cannot lighten its own test.

In: both checkouts, before ``setup`` runs in them. Out: head's checkout with base's bench files, and
:class:`Overlay`, which can bring back head's own for a second, informative run. Bench code is the modules of
``make_inputs`` and ``step`` and the files under ``[gate] harness``. A file that is model code too (it holds an
``entry``, or a ``step`` that runs without one) is what is being tested: each side keeps its own, and
a banner says so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.changes.changed import changed_files
from perfgate.changes.git import Git
from perfgate.changes.globs import matches
from perfgate.changes.modules import module_file
from perfgate.changes.worktrees import Checkouts, erase
from perfgate.errors import CheckoutError
from perfgate.records.policy import Policy
from perfgate.records.workload import SideConfig

_KEPT = "harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """What was done to head's checkout; paths relative to it, sorted.

    ``changed`` files are base's now. ``new`` bench files are only in head and were left alone, as were
    ``shared`` ones, which differ but are model code too (or lie in a submodule).
    """

    trees: Checkouts
    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def banners(self) -> tuple[str, ...]:
        """Sentences to put above the table; none where the bench code is equal."""
        texts = []
        if self.changed:
            texts.append(
                f"This pull request changes bench code ({_listed(self.changed)}); both sides were judged with base's."
            )
        if self.shared:
            texts.append(
                f"Bench code that is model code too differs ({_listed(self.shared)}); each side ran with its own."
            )
        return tuple(texts)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Head's own bench files in place for a while; base's again on exit."""
        self.restore()
        try:
            yield
        finally:
            self.apply()

    def apply(self) -> None:
        """Put base's bench files into head's checkout. Raises CheckoutError where that is impossible."""
        for path in self.changed:
            _place(self.trees.base / path, self.trees.head, path)

    def restore(self) -> None:
        """Put head's own bench files back."""
        for path in self.changed:
            _place(self.trees.run_dir / _KEPT / path, self.trees.head, path)


def overlay(git: Git, trees: Checkouts, base: SideConfig, policy: Policy) -> Overlay:
    """Take base's bench code into head's checkout; call before ``setup`` can install head's anywhere.

    ``base`` and ``policy`` are base's. Raises CheckoutError.
    """
    files = git.files(trees.base_sha)
    bench, models = _bench_files(base, files), _model_files(base, files)
    changed, new, shared = set(), set(), set()
    for file in changed_files(git, trees.base_sha, trees.head_sha):
        for path in file.paths:
            if path not in bench and not any(matches(path, glob) for glob in policy.harness):
                continue
            if path in models or file.kind == "submodule":
                shared.add(path)
            elif path in files:
                changed.add(path)
            else:
                new.add(path)
    result = Overlay(trees=trees, changed=tuple(sorted(changed)), new=tuple(sorted(new)), shared=tuple(sorted(shared)))
    for path in result.changed:
        _keep(trees.head / path, trees.run_dir / _KEPT / path)
    result.apply()
    return result


def _bench_files(side: SideConfig, files: Collection[str]) -> frozenset[str]:
    references = [text for spec in side.models.values() for text in (spec.make_inputs, spec.step)]
    return _files_of(references, side.pythonpath, files)


def _model_files(side: SideConfig, files: Collection[str]) -> frozenset[str]:
    # Without an entry there is no model beside the step: the step is what the pull request may make slower.
    references = [spec.entry or spec.step for spec in side.models.values()]
    return _files_of(references, side.pythonpath, files)


def _files_of(references: Sequence[str], pythonpath: Sequence[str], files: Collection[str]) -> frozenset[str]:
    modules = {reference.partition(":")[0] for reference in references if reference}
    return frozenset(path for module in modules if (path := module_file(files, pythonpath, module)))


def _keep(source: Path, kept: Path) -> None:
    if os.path.lexists(source):
        kept.parent.mkdir(parents=True, exist_ok=True)
        _copy(source, kept)


def _copy(source: Path, target: Path) -> None:
    # One side's file may be a folder on the other.
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _place(source: Path, checkout: Path, path: str) -> None:
    """Make ``checkout/path`` equal to ``source``, absent if that is, without following head's links out of it."""
    target = checkout / path
    if not target.parent.resolve().is_relative_to(checkout.resolve()):
        msg = f"head: {path} leads out of the checkout through a link; bench code cannot be taken from base"
        raise CheckoutError(msg)
    try:
        if not erase(target):
            raise PermissionError(1, "it cannot be replaced")
        if os.path.lexists(source):
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, target)
    except OSError as error:
        msg = f"head: bench code {path} cannot be taken from base ({error.strerror}); keep it a plain file"
        raise CheckoutError(msg) from None
    # Byte code is valid by whole seconds and size, which base's and head's file may share.
    for stale in target.parent.glob(f"__pycache__/{target.stem}.*.pyc"):
        stale.unlink(missing_ok=True)


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
