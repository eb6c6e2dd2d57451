from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfgate.records import report as verdicts
from perfgate.report.counts import CONVENTION, intensity, lines, rows
from tests.report.builders import model, noisy, not_counted, report, totals


def texts(base, head) -> dict[str, tuple[str, ...]]:
    return {
        line.label: tuple(text.replace("\u00a0", " ") for text in (line.base, line.head, line.change))
        for line in lines(base, head)
    }


def test_lines__a_side_that_was_not_counted_leaves_the_other():
    assert lines(None, None) == ()
    assert texts(totals(), None) == texts(None, totals()) == texts(totals(), totals())
    assert all(line.same for line in lines(totals(), None))


def test_lines__published_figures_of_resnet50():
    """F 8.178 GFLOP (4.089 GMAC), I 19.1 (eager) and 79.4 (least traffic) FLOP per byte."""
    found = texts(totals(), totals())
    assert found["F"][0] == "8.18 GFLOP (4.09 GMAC)"
    assert found["Parameters"][0] == "25\u202f557\u202f032"
    assert (found["I eager"][0], found["I max"][0]) == ("19.1 FLOP/B", "79.4 FLOP/B")
    assert found["Fingerprint"][0] == "3f2a91c07d5e"
    assert found["Traced"][0] == "without contents, torch 2.14.1"


def test_lines__sides_side_by_side_with_the_change():
    found = texts(totals(kernels=174), totals(kernels=186, peak_activation_bytes=None, batch=0))
    assert found["Kernels"] == ("174", "186", "+6.9 %")
    assert found["Peak activation"] == ("9.19 MiB", "n/a", "")
    assert found["Batch"] == ("1", "0", "−100.0 %")
    assert found["F"] == ("8.18 GFLOP (4.09 GMAC)", "", "")


def test_lines__a_change_too_small_for_a_percentage_is_shown():
    found = texts(totals(), totals(params=25_557_033))
    assert found["Parameters"] == ("25\u202f557\u202f032", "25\u202f557\u202f033", "+1")


def test_lines__from_nothing():
    assert texts(totals(flop=0), totals())["F"][2] == "from 0"
    assert texts(totals(flop=0), totals())["I eager"] == ("0 FLOP/B", "19.1 FLOP/B", "from 0")


def test_lines__what_nobody_counted_is_named():
    found = texts(totals(), totals(not_counted=(not_counted("a", 1), replace(not_counted("b", 2), first=""))))
    assert found["Not in F"] == ("nothing", "a (1 call, first at blocks.0.mlp); b (2 calls)", "")
    many = totals(not_counted=tuple(not_counted(f"op{n}") for n in range(23)))
    assert texts(many, many)["Not in F"][0].endswith("op19 (12 calls, first at blocks.0.mlp) and 3 more")


def test_lines__unknown_facts_are_not_available():
    found = texts(None, totals(fingerprint="", software="", source="hearsay"))
    assert (found["Fingerprint"][0], found["Traced"][0]) == ("n/a", "hearsay")


@pytest.mark.parametrize(("flop", "traffic", "expected"), [(8, 4, 2.0), (0, 4, 0.0), (8, 0, None)])
def test_intensity__flop_per_byte(flop, traffic, expected):
    assert intensity(flop, traffic) == expected


def test_rows__worst_first_without_a_second_look():
    counted: dict[str, Any] = {"base_totals": totals(), "head_totals": totals(kernels=2)}
    judged = report(
        model("fine", noisy(), **counted),
        model("plain", noisy()),
        model("bad", noisy("latency", 0.1, verdicts.REGRESSION), **counted),
        model("bad", noisy(), **counted, informative=True),
    )
    assert [(row.model, row.kernels) for row in rows(judged)] == [("bad", "174 → 2"), ("fine", "174 → 2")]


def test_convention__names_the_factor_and_what_m_is():
    assert "1 MAC = 2 FLOP" in CONVENTION
    assert "matrix products only" in CONVENTION
    assert "no measurement" in CONVENTION
