"""The table of the catalogue: exit status, and that it says what is wrong."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cost import catalogue
from tests.hardware.known_errors import KNOWN_ERRORS


def test_main__all_right_today(capsys) -> None:
    assert catalogue.main([]) == 0
    shown = capsys.readouterr().out
    assert "the validator finds 0 problems in all" in shown
    assert f"{len(KNOWN_ERRORS)} of {len(KNOWN_ERRORS)} rows right" in shown


def test_main__a_missed_error_and_a_wrong_name_fail(capsys, monkeypatch) -> None:
    first = KNOWN_ERRORS[0]
    monkeypatch.setattr(catalogue, "KNOWN_ERRORS", (replace(first, wrong=first.wrong | {"memory": "die"}),))
    monkeypatch.setattr(catalogue, "NAMES", {"NVIDIA L4": "l40"})
    assert catalogue.main([]) == 1
    shown = capsys.readouterr().out
    assert "0 of 1 rows right" in shown
    assert "'NVIDIA L4' -> l4, not l40" in shown
