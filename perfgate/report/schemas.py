"""The JSON Schemas of report.json and measurements.json: ``python -m perfgate.report.schemas`` writes them anew.

They are made from the records, so that they cannot say anything else than the codec accepts.
"""

from __future__ import annotations

import json
from pathlib import Path

from perfgate import wire
from perfgate.records.evidence import Measurements
from perfgate.records.report import Report

FOLDER = Path(__file__).parents[1] / "schemas"


def texts() -> dict[str, str]:
    """File name -> text of each schema."""
    wanted: dict[str, tuple[type, str]] = {
        "report.schema.json": (Report, "perfgate report.json, format 1"),
        "measurements.schema.json": (Measurements, "perfgate measurements.json, format 1"),
    }
    return {
        name: json.dumps(wire.schema(cls, title=title), indent=2, ensure_ascii=False) + "\n"
        for name, (cls, title) in wanted.items()
    }


def write() -> None:
    """Write all schemas into the package's folder."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
