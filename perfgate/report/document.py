"""``Report`` -> the text of report.json."""

from __future__ import annotations

from perfgate import wire
from perfgate.records.report import Report


def report_json(report: Report) -> str:
    """report.json as indented UTF-8 text. Every number is finite or null: raises ValueError otherwise.

    Lone surrogates, which UTF-8 cannot hold, are written as JSON's own ``\\udXXX`` escapes.
    """
    text = wire.dumps(report, indent=2) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
