"""Floor 3, worker. Which files a side really used, and whether they are its own.

In: the interpreter's audit events and ``sys.modules``. Out: paths relative to the checkout, or
``WorkerError`` of kind ``foreign-code``. No torch.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from perfgate.records.protocol import Prepare
from perfgate.worker.failures import refuse

_SHIM = str(Path(__file__).resolve().parents[2])
_NOT_SOURCES = frozenset({".git", "__pycache__", "site-packages", "dist-packages"})


class OpenedFiles:
    """Paths that this process opened for reading, from an audit hook; hooks cannot be taken away again.

    ``hosts`` are names of other machines that were looked up: a download was tried.
    """

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.hosts: set[str] = set()

    def install(self) -> None:
        """Start recording; children made by fork go on with a copy."""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        # Runs for every audited event of the process, also inside timed blocks: two comparisons, no more.
        if event == "open":
            self._opened(args)
        elif event == "ctypes.dlopen":
            self._add(args[0])
        elif event == "socket.getaddrinfo":
            self._looked_up(args[0])

    def _opened(self, args: tuple[object, ...]) -> None:
        flags = args[2] if len(args) > 2 else 0
        if isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY:
            return
        self._add(args[0])

    def _add(self, path: object) -> None:
        try:
            if isinstance(path, (str, bytes, os.PathLike)):
                text = os.fsdecode(path)
                self.paths.add(text if text.startswith("/") else os.path.join(os.getcwd(), text))  # noqa: PTH109, PTH118
        except (OSError, ValueError):
            return

    def _looked_up(self, host: object) -> None:
        name = host.decode(errors="replace") if isinstance(host, bytes) else host
        if isinstance(name, str) and name not in ("localhost", "127.0.0.1", "::1", ""):
            self.hosts.add(name)

    def used(self, prepare: Prepare, belongs: Callable[[str], bool] = lambda _: True) -> tuple[str, ...]:
        """Files of the checkout that were opened or imported, relative to it, sorted.

        ``belongs`` says of a loaded module's name whether it is the workload's; sources of others are left out.
        Caches, version control, and packages installed below it are left out; of an installed copy of the
        checkout's own package its source is named. A link is named beside the file it leads to.
        """
        root = os.path.realpath(prepare.checkout)
        paths = set(map(_source, self.paths))
        names: set[str] = set()
        modules = [(name, file, belongs(name)) for name, file in _module_files()]
        # Two modules may share a file; opened data files, and what was opened at import time, count for every model.
        paths -= {file for _, file, mine in modules if not mine}
        for name, file, mine in modules:
            if not mine:
                continue
            paths.add(file)
            if _NOT_SOURCES.intersection(file.split("/")):
                names.update(filter(None, [_expected(name, prepare, root)]))
        for path in paths:
            real = os.path.realpath(path)
            if _own_file(real, root):
                names.add(os.path.relpath(real, root))
                plain = os.path.normpath(path)
                if plain != real and _own_file(plain, root):
                    names.add(os.path.relpath(plain, root))
        return tuple(sorted(names))


def _source(path: str) -> str:
    """The source that a cached module was compiled from; other paths as they are."""
    if path.endswith(".pyc"):
        try:
            return importlib.util.source_from_cache(path)
        except (ValueError, NotImplementedError):
            return path
    return path


def _own_file(path: str, root: str) -> bool:
    if not _below(path, root) or _below(path, sys.prefix):
        return False
    if _NOT_SOURCES.intersection(path[len(root) :].split("/")):
        return False
    return os.path.isfile(path)  # noqa: PTH113


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _module_files() -> Iterator[tuple[str, str]]:
    """Name and file of every loaded module that has a file."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            # vars() and not getattr(): a module may have a __getattr__ that imports on demand.
            file = vars(module).get("__file__")
            if isinstance(file, str):
                yield name, os.path.abspath(file)  # noqa: PTH100


def prove(prepare: Prepare, proved: set[str]) -> None:
    """Check that the side's modules came from its own checkout. Raises WorkerError, ``foreign-code``.

    Two rules. A module below the main repository, and neither in this checkout nor in an installed
    package, is foreign. So is a module of a name that the checkout itself tracks but that was loaded from
    anywhere else: an installed copy or an editable install of another checkout would be the same on both
    sides, and the gate would be green for ever. Other people's packages may come from anywhere.

    ``proved`` holds names that need no second look, and grows.
    """
    checkout = os.path.realpath(prepare.checkout)
    repository = os.path.realpath(prepare.repository)
    for name, file in _module_files():
        if name in proved:
            continue
        proved.add(name)
        real = os.path.realpath(file)
        if name == "__main__" or _below(real, checkout) or _below(real, _SHIM):
            continue
        expected = _expected(name, prepare, checkout)
        elsewhere = _below(real, repository) and not _installed(real)
        if expected or elsewhere:
            _foreign(prepare, name, real, expected)


def prove_file(prepare: Prepare, path: str, key: str) -> None:
    """Check that a model's file is the checkout's own, not one behind a link. Raises WorkerError, ``foreign-code``.

    ``path`` is absolute; ``key`` names the place of the configuration that asks for it.
    """
    checkout = os.path.realpath(prepare.checkout)
    real = os.path.realpath(path)
    if not _below(real, checkout):
        message = (
            f"{prepare.side}: {key}: {os.path.relpath(path, prepare.checkout)} is a link to {real}, outside of its "
            "checkout, so base and head would measure one file: commit the file itself (Git LFS will do), or let setup "
            "put it into each checkout"
        )
        refuse("foreign-code", "import", message)


def _installed(path: str) -> bool:
    if any(_below(path, prefix) for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}):
        return True
    return bool({"site-packages", "dist-packages"}.intersection(path.split("/")))


def _expected(name: str, prepare: Prepare, checkout: str) -> str:
    """The checkout's own file for module ``name``, empty if it has none (then it is somebody else's)."""
    top, _, rest = name.partition(".")
    tracked = prepare.tracked.get(top)
    if top in sys.stdlib_module_names or (tracked is None and name not in prepare.tracked):
        return ""
    if tracked is None or name in prepare.tracked:
        return prepare.tracked[name]
    stem = Path(tracked).parent if tracked.endswith("__init__.py") else Path(tracked)
    stem = stem.joinpath(*rest.split("."))
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if Path(checkout, candidate).is_file():
            return candidate.as_posix()
    return ""


def _foreign(prepare: Prepare, name: str, found: str, expected: str) -> NoReturn:
    own = f"its own file is {expected}" if expected else "its own checkout has no such file"
    message = (
        f"{prepare.side}: module {name} was loaded from {found}, but {own}: set pythonpath or setup in perfgate.toml "
        "so that each side imports its own checkout"
    )
    refuse("foreign-code", "import", message)
