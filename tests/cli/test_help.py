"""The command line starts light."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from perfgate.cli.app import COMMANDS, app, run

HEAVY = ("numpy", "scipy", "pandas", "sklearn", "sqlalchemy", "jinja2", "github", "torch", "pydantic", "psutil")


def test_help__imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom perfgate.cli.app import run\n"
        "assert run(['--help']) == 0\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported: {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "calibrate" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command__has_a_help_page_that_names_its_exit_code_or_outputs(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert "--out" in result.output


def test_run__without_base_outside_ci_is_a_usage_error(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert run(["run"]) == 2
    assert "--base" in capsys.readouterr().err


def test_run__fault_of_its_own_is_no_verdict(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    def fail(**_options: object) -> None:
        msg = "two\nlines"
        raise KeyError(msg)

    monkeypatch.setattr("perfgate.cli.options.measure_request", fail)
    assert run(["run", "--base", "main"]) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "KeyError" in line
    assert "PERFGATE_TRACEBACK" in line


def test_run__unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--bsae", "main"]) == 2
    assert "--base" in capsys.readouterr().err
