from __future__ import annotations

import subprocess
import sys

import pytest

from perfgate.bench.shim import allowed, worker_environment, write_shim


def test_write_shim__runs_without_anything_else_of_perfgate(tmp_path):
    shim = write_shim(tmp_path)
    packages = {path.name for path in (shim / "perfgate").iterdir() if path.is_dir()}
    assert packages == {"records", "worker"}
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(shim), "--help"],
        capture_output=True, cwd=tmp_path, check=True, encoding="utf-8",
    )  # fmt: skip
    assert "--socket" in done.stdout


def test_write_shim__twice_is_fine(tmp_path):
    assert write_shim(tmp_path) == write_shim(tmp_path)


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("PATH", True),
        ("HOME", True),
        ("LC_ALL", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("HF_HOME", True),
        ("OMP_NUM_THREADS", True),
        ("LD_LIBRARY_PATH", True),
        ("GITHUB_TOKEN", False),
        ("GITHUB_WORKSPACE", False),
        ("ACTIONS_RUNTIME_TOKEN", False),
        ("INPUT_TOKEN", False),
        ("HF_TOKEN", False),
        ("HUGGINGFACE_HUB_TOKEN", False),
        ("TRANSFORMERS_API_KEY", False),
        ("NVIDIA_API_KEY", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("PYTHONPATH", False),
        ("PYTHONSTARTUP", False),
        ("http_proxy", False),
    ],
)
def test_allowed__what_a_worker_may_see(name, passes):
    assert (name in allowed({name: "x"})) is passes


def test_worker_environment__setup_may_add_but_not_the_import_path(tmp_path):
    made = worker_environment({"PATH": "/bin"}, {"MY_DATA": "1", "PYTHONPATH": "/x", "PATH": "/venv/bin"}, tmp_path)
    assert made["MY_DATA"] == "1"
    assert made["PATH"] == "/venv/bin"
    assert "PYTHONPATH" not in made
    assert made["PYTHONHASHSEED"] == "0"
    assert made["TORCHINDUCTOR_CACHE_DIR"].startswith(str(tmp_path))


def test_worker_environment__onnxruntime_reports_nothing_unless_the_user_wants_it(tmp_path):
    assert worker_environment({}, {}, tmp_path)["ORT_DISABLE_TELEMETRY"] == "1"
    assert worker_environment({"ORT_DISABLE_TELEMETRY": "0"}, {}, tmp_path)["ORT_DISABLE_TELEMETRY"] == "0"
