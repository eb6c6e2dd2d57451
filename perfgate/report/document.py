"""``Report`` -> the text of report.json."""

from __future__ import annotations

from perfgate import wire
from perfgate.records.report import Report


def report_json(report: Report) -> str:
    """report.json as indented UTF-8 text. Every number is finite or null: raises ValueError otherwise."""
    return wire.dumps(report, indent=2) + "\n"
