"""The working tree as it lies there: its configuration, and workers that run its code outside of a comparison."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from perfgate.bench import machine
from perfgate.bench.session import HEAD, Options, Session, Side
from perfgate.changes import setup
from perfgate.config.load import FILES, Config, load, read_tree
from perfgate.errors import MeasuringError, StoreError, UsageError
from perfgate.pipeline.request import CONFIG_FILE, Ports
from perfgate.records.protocol import Failed
from perfgate.records.workload import SideConfig

# What perfgate keeps below the repository's root; the folder ignores itself, so that `git status` stays clean.
FOLDER = Path(".perfgate")
DEFAULT_STORE = FOLDER / "baselines.sqlite"
ESTIMATOR_FILE = FOLDER / "estimator.json"
PLACEMENTS_FILE = FOLDER / "placements.json"


def own_folder(root: Path) -> Path:
    """The folder in ``root``, made if needed. Raises OSError."""
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def default_store(root: Path) -> str:
    """The database where none is configured. Raises StoreError where its folder cannot be made."""
    path = root / DEFAULT_STORE
    try:
        own_folder(root)
    except OSError as error:
        remedy = "name another database with --store or `store` in perfgate.toml"
        msg = f"{path}: cannot be written ({error.strerror}); {remedy}"
        raise StoreError(msg) from None
    return str(path)


def working_side(root: Path, side: SideConfig, ports: Ports, *, python: str, folder: Path) -> Side:
    """The working tree as a side; ``folder`` takes what preparing it writes. Raises MeasuringError."""
    # `setup` may change what is installed, which a question must not do.
    asked = replace(side, setup="", python=python)
    prepared = setup.prepare_side(
        asked, root, root, name=HEAD, cache_dir=folder, log=folder / "setup.log", environ=ports.environ
    )
    if isinstance(prepared, Failed):
        raise MeasuringError(prepared.message)
    return Side(name=HEAD, checkout=root, repository=root, python=prepared.python, config=asked)


@contextmanager
def opened(root: Path, side: SideConfig, ports: Ports, *, python: str) -> Iterator[Session]:
    """A session whose only side, ``head``, is the working tree. Raises MeasuringError where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
        runner = working_side(root, side, ports, python=python, folder=Path(folder))
        options = Options(threads=side.threads or machine.default_threads(), environ=ports.environ)
        with Session({HEAD: runner}, run_dir=Path(folder) / "run", options=options, progress=ports.progress) as session:
            yield session


def configuration(root: Path, config_file: str) -> Config | None:
    """The configuration in the working tree, committed or not; None where there is none.

    Raises UsageError for a file that was named and is not there, or cannot be read.
    """
    names = FILES if config_file == CONFIG_FILE else (config_file,)

    def read(name: str) -> bytes | None:
        try:
            return (root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"{name}: cannot be read ({error.strerror}); correct it or name another file with --config"
            raise UsageError(msg) from None

    files = read_tree(read, names)
    if config_file != CONFIG_FILE and not files:
        msg = f"--config {config_file}: there is no such file in {root}; correct the name"
        raise UsageError(msg)
    return load(files, where="working tree", sha=None)
