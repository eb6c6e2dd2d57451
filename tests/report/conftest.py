"""The golden-file check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """``golden(name, text)``: what the file says, and that is ``text``; ``--update-golden`` writes it first."""

    def check(name: str, text: str) -> str:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.is_file(), f"{path} is missing: run pytest --update-golden and review it"
        kept = path.read_text(encoding="utf-8")
        assert text == kept
        return kept

    return check
