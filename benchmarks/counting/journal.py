"""A file of JSON lines that an interrupted sweep goes on from: one line a model, the last one counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """``key`` (versions) is written into each line; lines with another one are of another sweep and are left alone."""

    def __init__(self, path: Path, key: dict[str, str], *, resume: bool) -> None:
        self.path = path
        self._key = key
        self.entries: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        kept: list[dict[str, Any]] = []
        for entry in _lines(path):
            if entry.get("key") != key:
                kept.append(entry)
            elif resume:
                self.entries[entry["model"]] = entry
        if not resume:
            # What this sweep found before is to be found again; other versions' lines stay.
            path.write_text("".join(f"{json.dumps(entry)}\n" for entry in kept), encoding="utf-8")

    def add(self, model: str, facts: dict[str, Any]) -> None:
        """Write one model's line at once."""
        entry = {"model": model, "key": self._key, **facts}
        self.entries[model] = entry
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(entry)}\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the line that was being written when the sweep was interrupted
        if isinstance(entry, dict) and "model" in entry:
            found.append(entry)
    return found
