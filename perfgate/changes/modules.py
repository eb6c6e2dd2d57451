"""Floor 3, changes. Tracked Python files to importable names, and back.

In: a commit and ``pythonpath``. Out: module name -> file, so that the worker can tell "our package,
loaded from somewhere else" from "somebody else's package".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from perfgate.changes.git import Git

# Folders whose packages are not installed under their own name: copies of other people's, or never imported.
_NOT_ROOTS = frozenset({
    "vendor", "vendored", "_vendor", "third_party", "thirdparty", "3rdparty", "external", "extern", "submodules",
    "test", "tests", "testing", "doc", "docs", "example", "examples", "node_modules",
})  # fmt: skip
_INIT = "__init__.py"


def tracked_modules(git: Git, sha: str, pythonpath: Sequence[str]) -> dict[str, str]:
    """Importable dotted name -> tracked file (relative to the checkout), for every root it may be imported from.

    Roots are ``pythonpath``, the checkout itself, ``src``, and each folder that holds a package without
    being one: ``src/pkg/mod.py`` is ``pkg.mod`` and ``src.pkg.mod``. The first root that knows a name wins.
    """
    files = [path for path, mode in git.files(sha).items() if path.endswith(".py") and mode.startswith("100")]
    names: dict[str, str] = {}
    for root in _roots(files, pythonpath):
        for path in files:
            name = _module_name(path, root)
            if name:
                names.setdefault(name, path)
    return names


def module_file(files: Collection[str], pythonpath: Sequence[str], module: str) -> str | None:
    """The tracked file that ``import MODULE`` loads with ``pythonpath``; None: it is not in this tree."""
    stem = module.replace(".", "/")
    for root in pythonpath:
        for tail in (f"{stem}/{_INIT}", f"{stem}.py"):
            path = (PurePosixPath(root) / tail).as_posix()
            if path in files:
                return path
    return None


def _roots(files: Sequence[str], pythonpath: Sequence[str]) -> Iterator[PurePosixPath]:
    packages = {PurePosixPath(path).parent for path in files if PurePosixPath(path).name == _INIT}
    holders = {package.parent for package in packages if package.parent not in packages and package.parts}
    wanted = [*map(PurePosixPath, pythonpath), PurePosixPath(), PurePosixPath("src")]
    wanted += sorted(holder for holder in holders if not _NOT_ROOTS.intersection(holder.parts))
    yield from dict.fromkeys(wanted)


def _module_name(path: str, root: PurePosixPath) -> str:
    file = PurePosixPath(path)
    if not file.is_relative_to(root):
        return ""
    parts = file.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""
