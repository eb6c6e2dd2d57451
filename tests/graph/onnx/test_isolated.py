"""Reading in a process of its own: whatever happens there is one error here."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from perfgate.errors import MeasuringError, UsageError
from perfgate.graph.onnx import isolated, read
from tests.graph.onnx.models import model, node, save, untyped, value, weight


@pytest.fixture
def linear(tmp_path):
    return save(
        model([node("MatMul", "x w", "y")], [value("x", ["n", 4])], [untyped("y")], [weight("w", [4, 8])]), tmp_path
    )


def interpreter(folder, body):
    """A stand-in for the interpreter that does ``body`` instead of reading."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_isolated__gives_what_reading_gives(linear):
    inputs = {"x": "float32[batch,4]"}

    assert isolated.trace(linear, inputs, batch=3) == read.trace(linear, inputs, batch=3)


def test_isolated__relative_path_starts_at_the_root(linear):
    found = isolated.trace(Path("m.onnx"), ["float32[batch,4]"], batch=3, root=linear.parent)

    assert found.calls


def test_isolated__errors_of_the_file_and_inputs_arrive_as_they_are(linear, tmp_path):
    with pytest.raises(UsageError) as here:
        read.trace(linear)
    with pytest.raises(UsageError) as there:
        isolated.trace(linear)
    assert str(there.value) == str(here.value)
    with pytest.raises(UsageError, match="there is no such file"):
        isolated.trace(tmp_path / "nothing.onnx")


def test_isolated__modules_in_the_working_directory_are_not_imported(linear, tmp_path, monkeypatch):
    (tmp_path / "onnx.py").write_text("raise SystemExit('stolen')", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('stolen')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert isolated.trace(linear, ["float32[3,4]"]).calls


ENDINGS = {
    "a crash": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
    "an exit": (
        "import sys; sys.stderr.write('a\\nb: out of luck\\n'); sys.exit(7)",
        r"exit code 7 \(b: out of luck\)",
    ),
    "silence": ("", "gave no answer that can be understood"),
    "garbage": ("print('{\"trace\": 7}')", "gave no answer that can be understood"),
    "nothing": ("print('{}')", "reading it gave nothing"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_isolated__other_endings_are_one_error(linear, tmp_path, monkeypatch, name):
    body, message = ENDINGS[name]
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, body))

    with pytest.raises(MeasuringError, match=rf"m\.onnx: .*{message}.*; check the file with onnx\.checker"):
        isolated.trace(linear)


def test_isolated__endless_reading_is_ended(linear, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "import time; time.sleep(600)"))

    with pytest.raises(MeasuringError, match=r"m\.onnx: reading it took longer than 0\.5 s"):
        isolated.trace(linear, timeout_s=0.5)


def test_isolated__interpreter_that_does_not_start(linear, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))

    with pytest.raises(MeasuringError, match="does not start: No such file"):
        isolated.trace(linear)


def test_isolated__secrets_stay_here(linear, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    body = "import os, sys; sys.stderr.write(','.join(sorted(os.environ))); sys.exit(1)"
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, body))

    with pytest.raises(MeasuringError) as caught:
        isolated.trace(linear)

    assert "PATH" in str(caught.value)
    assert "GITHUB_TOKEN" not in str(caught.value)
    assert os.environ["GITHUB_TOKEN"] == "secret"
