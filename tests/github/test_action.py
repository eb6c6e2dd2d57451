"""The launcher that action.yml starts, as a program."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.github import action

LAUNCHER = Path(action.__file__)

# A package that is built without any download: its build backend lies in its own folder.
BACKEND = """
import zipfile, pathlib
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "perfgate-0-py3-none-any.whl"
    info = "perfgate-0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as wheel:
        for path in pathlib.Path("perfgate").glob("*.py"):
            wheel.write(path)
        facts = ("Metadata-Version: 2.1", "Name: perfgate", "Version: 0", "Provides-Extra: nvml", "")
        wheel.writestr(info + "METADATA", "\\n".join(facts))
        facts = ("Wheel-Version: 1.0", "Generator: t", "Root-Is-Purelib: true", "Tag: py3-none-any", "")
        wheel.writestr(info + "WHEEL", "\\n".join(facts))
        wheel.writestr(info + "RECORD", "")
    return name
"""
MAIN = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "prefix": sys.prefix, "isolated": sys.flags.isolated, "path": sys.path}))
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path):
    """A copy of the action: a package named perfgate that says how it was started."""
    path = tmp_path / "the action"
    (path / "perfgate").mkdir(parents=True)
    (path / "perfgate/__main__.py").write_text(MAIN, encoding="utf-8")
    (path / "backend.py").write_text(BACKEND, encoding="utf-8")
    (path / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n', encoding="utf-8"
    )
    return path


def environ(folder, tmp_path, **more):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GITHUB_ACTION_PATH": str(folder),
        "RUNNER_TEMP": str(tmp_path / "runner temp"),
        "PIP_NO_INDEX": "1",
        "INPUT_COMMAND": "run",
        **more,
    }


def start(environment, cwd):
    return subprocess.Popen(
        [sys.executable, "-I", str(LAUNCHER)],
        env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip


def launch(environment, cwd):
    process = start(environment, cwd)
    text, _ = process.communicate(timeout=100)
    return process.returncode, text


def test_launcher__builds_once_for_two_jobs_at_once_and_then_reuses(folder, tmp_path):
    hostile = tmp_path / "workspace"
    hostile.mkdir()
    (hostile / "perfgate.py").write_text("raise SystemExit('the workspace was imported')", encoding="utf-8")
    environment = environ(folder, tmp_path, PYTHONPATH=str(hostile), INPUT_EXTRAS="nvml", INPUT_BASE="-x; $(id)")
    first, second = start(environment, hostile), start(environment, hostile)
    for process in (first, second):
        text, _ = process.communicate(timeout=100)
        assert process.returncode == 7, text
        assert '"isolated": 1' in text
        assert '["run", "--out=perfgate-out", "--base=-x; $(id)"]' in text
    (core,) = (tmp_path / "runner temp").iterdir()
    code, text = launch(environment, hostile)
    assert code == 7
    assert f'"prefix": "{core}"' in text
    assert "::group::" not in text
    (folder / "perfgate/__main__.py").write_text(MAIN + "# changed", encoding="utf-8")
    assert action.source_key(folder, "nvml") not in core.name


def test_launcher__a_failed_build_leaves_nothing_and_says_so(folder, tmp_path):
    (folder / "backend.py").write_text("raise RuntimeError('no')", encoding="utf-8")
    code, text = launch(environ(folder, tmp_path), tmp_path)
    assert code == 2
    assert text.splitlines()[-1].startswith("::error title=perfgate::")
    assert "check the package index" in text.splitlines()[-1]
    assert list((tmp_path / "runner temp").iterdir()) == []


def test_launcher__unknown_command_is_one_line(folder, tmp_path):
    code, text = launch(environ(folder, tmp_path, INPUT_COMMAND="rm\n::set-output"), tmp_path)
    assert code == 2
    assert text == "::error title=perfgate::input command: 'rm\\n::set-output' is none of measure, publish, run\n"


def test_launcher__uses_an_environment_that_is_there_already(folder, tmp_path):
    code, text = launch(
        environ(folder, tmp_path, PERFGATE_CORE_PYTHON=sys.executable, INPUT_COMMAND="measure", INPUT_OUT="--help"),
        tmp_path,
    )
    assert code == 2
    assert "perfgate" in text
    code, text = launch(environ(folder, tmp_path, PERFGATE_CORE_PYTHON="/nowhere/python"), tmp_path)
    assert (code, "/nowhere/python is no program" in text) == (2, True)


def test_launcher__parses_on_old_pythons_so_that_they_can_say_what_is_missing():
    parsed = ast.parse(LAUNCHER.read_text(encoding="utf-8"), feature_version=(3, 7))
    assert isinstance(parsed, ast.Module)
    assert parsed.body


VALUES = ['a"; touch pwned; #', "$(id)", "with spaces", "two\nlines", "C:\\models\\x", "--out=/etc", "ünïcode"]


@pytest.mark.parametrize("value", VALUES)
def test_command_line__values_stay_one_word(value):
    line = action.command_line({"INPUT_COMMAND": "run", "INPUT_BASE": value, "INPUT_PYTHON": value, "INPUT_HEAD": ""})
    assert line == ["run", "--out=perfgate-out", f"--base={value}", f"--python={value}"]


def test_command_line__publish():
    inputs = {"INPUT_COMMAND": "publish", "INPUT_OUT": "o", "INPUT_BASE": "x", "INPUT_MEASURE_RESULT": "failure"}
    assert action.command_line(inputs) == [
        "publish", "--out=o", "--measurements=o/measurements.json", "--measure-result=failure",
    ]  # fmt: skip
    inputs |= {"INPUT_MEASUREMENTS": "m.json", "INPUT_COMMENT_MODE": "notify", "INPUT_CONFIG": "p.toml"}
    assert action.command_line(inputs)[2:] == [
        "--measurements=m.json", "--measure-result=failure", "--comment-mode=notify", "--config=p.toml",
    ]  # fmt: skip


def test_cache_root__outlives_the_job_only_where_the_machine_does_not(tmp_path):
    base = {"RUNNER_TEMP": str(tmp_path / "t"), "RUNNER_TOOL_CACHE": str(tmp_path / "c")}
    assert action.cache_root({**base, "RUNNER_ENVIRONMENT": "self-hosted"}) == tmp_path / "t"
    assert action.cache_root({**base, "RUNNER_ENVIRONMENT": "github-hosted"}) == tmp_path / "c"
    assert action.cache_root({**base, "PERFGATE_CORE_CACHE": str(tmp_path / "own")}) == tmp_path / "own"
    with pytest.raises(action.LauncherError, match="RUNNER_TEMP"):
        action.cache_root({})


def test_find_python__names_setup_python_when_all_are_too_old(tmp_path, monkeypatch):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3 9\n", encoding="utf-8")
    old.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(old))
    with pytest.raises(action.LauncherError, match=r"found .*python3 \(3\.9\)\. Put actions/setup-python"):
        action.find_python({"PATH": str(tmp_path)})


def test_find_python__looks_into_the_tool_cache(tmp_path, monkeypatch):
    cached = tmp_path / "Python/3.12.1/x64/bin/python3"
    cached.parent.mkdir(parents=True)
    cached.write_text("#!/bin/sh\necho 3 12\n", encoding="utf-8")
    cached.chmod(0o755)
    monkeypatch.setattr(sys, "executable", "")
    found = action.find_python({"PATH": str(tmp_path), "RUNNER_TOOL_CACHE": str(tmp_path)})
    assert found == (str(cached), (3, 12))


def test_core_python__extras_are_names(tmp_path):
    with pytest.raises(action.LauncherError, match="extras"):
        action.core_python({"INPUT_EXTRAS": "nvml] @ http://evil", "RUNNER_TEMP": str(tmp_path)}, tmp_path)
