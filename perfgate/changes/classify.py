"""Floor 3, changes. One path in, what kind of file it is for the question "can it change a model?" out.

``environment``: what is installed, and how. ``documentation``: read by people. ``python``: touches the models
that load it. ``other``: everything else, native sources, YAML and data among it, which may touch any model.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from perfgate.changes.changed import ChangedFile

ENVIRONMENT = "environment"
DOCUMENTATION = "documentation"
PYTHON = "python"
OTHER = "other"

_ENVIRONMENT = re.compile(
    r"""
    requirements.*\.(txt|in|lock) | requirements | constraints.*\.(txt|in|lock)
    | .+\.lock | .*-lock\.(json|ya?ml) | .*\.lock\.ya?ml | pylock(\..+)?\.toml
    | pyproject\.toml | setup\.(py|cfg) | pipfile | manifest\.in
    | (.+[-_.])?environment([-_.].*)?\.ya?ml | conda([-_.].*)?\.ya?ml | meta\.ya?ml | pixi\.toml
    | (.+[-_.])?(dockerfile|containerfile)([-_.].+)? | (docker-)?compose.*\.ya?ml
    | \.python-version | \.tool-versions | mise\.toml | runtime\.txt | apt\.txt | flake\.nix | shell\.nix | default\.nix
    | sitecustomize\.py | usercustomize\.py | .+\.pth
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"(licen[cs]e|copying|notice|authors|contributors|contributing|changelog|changes|history|readme|news|"
    r"code_of_conduct|security|governance|maintainers)(\.(txt|md|rst|html))?|citation\.cff|codeowners",
    re.IGNORECASE,
)
_TEXT = frozenset({".md", ".rst", ".markdown", ".adoc"})
_PICTURE = frozenset({".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".bmp"})
_CODE = frozenset({".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".so"})
_DOC_FOLDERS = frozenset({"doc", "docs"})


def kind(file: ChangedFile) -> str:
    """The most consequential kind among a change's paths; links and submodules are ``other``."""
    kinds = {_kind(path) for path in file.paths}
    if file.kind != "file" and ENVIRONMENT not in kinds:
        return OTHER
    return next(name for name in (ENVIRONMENT, OTHER, PYTHON, DOCUMENTATION) if name in kinds)


def is_environment(path: str) -> bool:
    """Whether ``path`` says what is installed, and how: lock files, requirements, packaging, images."""
    file = PurePosixPath(path)
    if _ENVIRONMENT.fullmatch(file.name):
        return True
    # requirements/ often holds one file for each purpose.
    return file.parent.name.lower() == "requirements" and file.suffix.lower() in {".txt", ".in"}


def _kind(path: str) -> str:
    file = PurePosixPath(path)
    suffix = file.suffix.lower()
    if is_environment(path):
        return ENVIRONMENT
    if suffix in {".py", ".pyi"}:
        return PYTHON
    if suffix in _CODE:
        return OTHER
    below_docs = _DOC_FOLDERS.intersection(part.lower() for part in file.parts[:-1])
    if below_docs or suffix in _TEXT or suffix in _PICTURE or _PEOPLE.fullmatch(file.name):
        return DOCUMENTATION
    return OTHER
