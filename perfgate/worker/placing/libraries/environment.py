"""Floor 3, worker. Installed packages that get in each other's way.

In: the interpreter's distributions. Out: one sentence with the remedy, or nothing.
"""

from __future__ import annotations

import importlib.metadata

_NAME = "onnxruntime"


def conflict() -> str:
    """Several distributions that hold the one module ``onnxruntime``: the last one installed wins, and execution
    providers of the others vanish with no more than a warning. Empty where there is one.
    """
    owners = sorted(set(_owners()))
    if len(owners) < 2:
        return ""
    keep = next((name for name in owners if name != _NAME), owners[0])
    return (
        f"{len(owners)} distributions of onnxruntime are installed ({', '.join(owners)}), and the last one hides the "
        f"others' execution providers: pip uninstall {' '.join(owners)}, then install the one that is wanted ({keep})"
    )


def _owners() -> list[str]:
    """Distributions called onnxruntime or onnxruntime-SOMETHING that bring the module itself (some bring plugins)."""
    found = []
    for one in importlib.metadata.distributions():
        name = str(one.metadata["Name"] or "").lower().replace("_", "-")
        ours = name == _NAME or name.startswith(f"{_NAME}-")
        if ours and any(str(file) == f"{_NAME}/__init__.py" for file in one.files or ()):
            found.append(name)
    return found
