"""Whose module is it: the import graph that keeps models of one process apart."""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path

import pytest

from perfgate.worker.imports import ImportGraph

FILES = {
    "left/__init__.py": "from . import deep\n",
    "left/deep.py": "import shared_part\n",
    "right.py": (
        "import importlib\n\nplugin = importlib.import_module('plug_in')\n\ndef late():\n    import shared_part\n"
    ),
    "plug_in.py": "",
    "shared_part.py": "",
    "unseen.py": "",
}
NAMES = ("left", "left.deep", "right", "plug_in", "shared_part", "unseen")


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """left and right imported in one process, as a factory does."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    graph = ImportGraph()
    graph.install()
    try:
        for name in ("left", "right"):
            importlib.import_module(name)
    finally:
        graph.remove()
    yield graph
    for name in NAMES:
        sys.modules.pop(name, None)


def test_belongs__follows_statements_relative_imports_and_import_module(graph: ImportGraph) -> None:
    graph.settle(("left", "right"))
    mine = {
        root: {name for name in NAMES if name in sys.modules and graph.belongs(name, (root,))}
        for root in ("left", "right")
    }
    assert mine["left"] == {"left", "left.deep", "shared_part"}
    assert mine["right"] == {"right", "plug_in"}


def test_belongs__a_late_import_of_a_loaded_module_is_seen_while_recording(graph: ImportGraph) -> None:
    graph.settle(("left", "right"))
    graph.install()
    try:
        sys.modules["right"].late()
    finally:
        graph.remove()
    assert graph.belongs("shared_part", ("right",))


def test_belongs__what_no_edge_reaches_counts_for_every_model(graph: ImportGraph) -> None:
    importlib.import_module("unseen")
    graph.settle(("left", "right"))
    assert graph.belongs("unseen", ("left",))
    assert graph.belongs("unseen", ("right",))


def test_belongs__what_was_loaded_after_the_fork_is_the_model_s_own(graph: ImportGraph) -> None:
    graph.settle(("left", "right"))
    importlib.import_module("unseen")
    assert graph.belongs("unseen", ("left",))


def test_remove__puts_the_plain_functions_back() -> None:
    plain = (builtins.__import__, importlib.import_module)
    graph = ImportGraph()
    graph.install()
    assert importlib.import_module is not plain[1]
    graph.remove()
    assert (builtins.__import__, importlib.import_module) == plain
