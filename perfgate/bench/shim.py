"""Floor 3, bench. What a worker sees of perfgate, and of this process's environment: as little as it needs.

Out: a folder to run (``python FOLDER --socket FD ROLE``) that holds perfgate's standard-library-only files, and an
allow-listed environment, equal on both sides but for what a side's own ``setup`` asks for.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import perfgate

_FILES = ("__init__.py", "errors.py", "onnx_names.py", "protobuf.py", "specification.py", "units.py", "wire.py")
_ROOMS = ("records", "worker")
_MAIN = """from perfgate.worker.__main__ import main

if __name__ == "__main__":
    main()
"""

_NAMES = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD XDG_CACHE_HOME XDG_DATA_HOME
    MALLOC_ARENA_MAX MALLOC_CONF VIRTUAL_ENV CONDA_PREFIX SSL_CERT_FILE SSL_CERT_DIR
"""
_PREFIXES = """
    LC_ CUDA_ CUBLAS_ CUDNN_ NVIDIA_ NCCL_ HF_ HUGGINGFACE_ TRANSFORMERS_ DIFFUSERS_ TORCH PYTORCH_ OMP_ MKL_ KMP_
    GOMP_ OPENBLAS_ NUMEXPR_ DNNL_ ONEDNN_ ORT_ OPENVINO_ TRITON_ ROCM_ HIP_ HSA_
"""
# HF_TOKEN and its kind begin like a harmless variable.
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(API_?)?KEY($|_)")


def write_shim(run_dir: Path) -> Path:
    """Write the worker's folder below ``run_dir`` and return it. Raises OSError."""
    shim = run_dir / "shim"
    source = Path(perfgate.__file__).parent
    target = shim / "perfgate"
    target.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copyfile(source / name, target / name)
    for room in _ROOMS:
        for file in sorted((source / room).rglob("*.py")):
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    (shim / "__main__.py").write_text(_MAIN, encoding="utf-8")
    return shim


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of ``environ`` that a worker may see: no tokens, no inputs of the action, no ``PYTHON*``."""
    names, prefixes = frozenset(_NAMES.split()), tuple(_PREFIXES.split())
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith(prefixes)) and not _SECRET.search(name)
    }


def worker_environment(environ: Mapping[str, str], extra: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Environment of a side's workers. ``cache`` keeps that side's compiled kernels, apart from the other's."""
    return {
        # Releases of onnxruntime that report their use begin with it, and write below the home folder, when imported.
        "ORT_DISABLE_TELEMETRY": "1",
        **allowed(environ),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        **{name: value for name, value in extra.items() if name != "PYTHONPATH"},
    }
