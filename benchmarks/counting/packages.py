"""Packages of others that a table needs: which are missing, and the command that brings them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys


def missing(*names: str) -> tuple[str, ...]:
    """Those of the importable ``names`` that are not installed; none is imported."""
    return tuple(name for name in names if importlib.util.find_spec(name) is None)


def how_to_get(names: tuple[str, ...], what: str) -> str:
    """One line for the reader: what is left out, and the command that mends it."""
    return f"{what}: {', '.join(names)} not installed; {sys.executable} -m pip install {' '.join(names)}"


def version(name: str) -> str:
    """The installed version of a distribution."""
    return importlib.metadata.version(name)
