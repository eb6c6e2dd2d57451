"""The validator: finds every known published mistake with its cause, and nothing in the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.hardware import catalogue, check
from perfgate.hardware.rows import (
    ACCUMULATION,
    BOARD,
    COLUMN,
    HALF,
    IMPLAUSIBLE,
    NUMBER,
    RATIO,
    SLICE,
    SOURCE,
    SPARSE,
    UNIT,
    UNSUPPORTED,
    VECTOR,
    row,
)
from tests.hardware.known_errors import KNOWN_ERRORS, KnownError

TABLE = """
[sources]
sheet = "a data sheet"
lightning = "a table"

[family.f]
vendor = "nvidia"
kind = "gpu"
ratio = { float16 = 4 }

[one]
label = "One"
family = "f"
tflops = { float32 = 10, float16 = 40 }
bandwidth_gb_s = 300
memory_gib = 24
sources = { sheet = "float32 float16 bandwidth memory", lightning = "float16:20" }
"""


def changed(name: str, **peaks: float):
    """The platform ``name`` with some peaks set to other TFLOPS."""
    platform = catalogue.find(name)
    rates = platform.peak_flop_per_s | {dtype: rate * 1e12 for dtype, rate in peaks.items()}
    return replace(platform, peak_flop_per_s=rates)


def found(*platforms) -> dict[str, str]:
    return {problem.field: problem.what for problem in check.problems(platforms)}


@pytest.mark.parametrize("error", KNOWN_ERRORS, ids=lambda error: f"{error.source}: {error.row.name}")
def test_compare__every_known_error_with_its_cause(error: KnownError) -> None:
    # E17 https://github.com/pytorch/pytorch/pull/182023 and E19 https://github.com/Lightning-AI/pytorch-lightning/issues/21677
    # are two of the tables.
    problems = check.compare([error.row])
    assert {problem.field: problem.what for problem in problems} == error.wrong
    assert all(problem.platform == error.row.name and problem.text for problem in problems)


def test_catalogue__passes_its_own_validator() -> None:
    # E17: two sources within 5 % or noted; ratios of matrix to vector rates; nothing beyond what chips can do.
    assert check.table_problems(catalogue.entries().values()) == ()


def test_catalogue__rows_are_right_against_themselves() -> None:
    rows = [
        replace(error.row, values=catalogue.entries()[error.row.platform].values())
        for error in KNOWN_ERRORS
        if error.row.platform
    ]
    assert check.compare(rows) == ()


def test_compare__text_has_value_cause_and_reference() -> None:
    (problem,) = check.compare([row("NVIDIA H100", "h100-sxm", float16=1979)])
    assert str(problem) == (
        "NVIDIA H100: float16: 1979 TFLOPS: twice the dense rate: with structured sparsity (catalogue: 989.5 TFLOPS)"
    )


def test_compare__a_row_is_known_by_its_real_name() -> None:
    (problem,) = check.compare([row("NVIDIA A100-SXM4-80GB", bfloat16=624)])
    assert (problem.field, problem.what) == ("bfloat16", SPARSE)
    assert check.compare([row("NVIDIA GB300", bfloat16=0.644)]) == ()  # E18: nothing is known, nothing is said


def test_compare__within_tolerance_is_right() -> None:
    assert check.compare([row("x", "h100-sxm", bandwidth_gb_s=3430, float32=66.9)]) == ()
    (problem,) = check.compare([row("x", "h100-sxm", bandwidth_gb_s=3430)], tolerance=0.02)
    assert problem.field == "bandwidth"


@pytest.mark.parametrize(
    ("item", "what"),
    [
        (row("x", "a100-sxm-80gb", int8=312), HALF),  # MAC for FLOP; also bfloat16's rate
        (row("x", "mi210", bfloat16=90.5), HALF),
        (row("x", "rtx-2080-ti", float16=107.6), ACCUMULATION),
        (row("x", "rtx-4090", float16=330.3), SPARSE),
        (row("x", "k80", float32=8.226), BOARD),
        (row("x", "v100-sxm-16gb", bfloat16=125), UNSUPPORTED),
        (row("x", "l4", float16=0.121), UNIT),
        (row("x", "a100-pcie-40gb", float16=78), VECTOR),  # vector units' float16
        # CDNA's matrix units multiply float32 at twice the vector units' rate, those of CDNA 2 float64 as well.
        (row("x", "mi210", float32=22.6), VECTOR),
        (row("x", "mi250x", float64=47.9), VECTOR),
        (row("x", "mi250-gcd", float16=22.6), VECTOR),
        (row("x", "mi100", float32=23.1), VECTOR),
        (row("x", "mi100", float64=5.75), HALF),
        (row("x", "a100-sxm-80gb", float64=9.7), VECTOR),
        (row("x", "h100-sxm", float64=34), VECTOR),
    ],
)
def test_compare__other_mistakes(item, what: str) -> None:
    (problem,) = check.compare([item])
    assert problem.what == what


def test_compare__swapped_columns() -> None:
    problems = check.compare([row("x", "a100-sxm-40gb", memory_gib=1555, bandwidth_gb_s=40)])
    assert {problem.field: problem.what for problem in problems} == {"memory": COLUMN, "bandwidth": COLUMN}
    # Also of a device that nobody knows.
    problems = check.compare([row("unknown thing", memory_gib=900, bandwidth_gb_s=24)])
    assert {problem.what for problem in problems} == {COLUMN}


def test_problems__ratios_inside_a_row() -> None:
    assert found(catalogue.find("h100-sxm")) == {}
    assert found(changed("h100-sxm", bfloat16=1979)) == {"bfloat16": SPARSE}
    assert found(changed("a100-sxm-40gb", int8=1248)) == {"int8": SPARSE}
    assert found(changed("h100-sxm", fp8=989.5)) == {"fp8": HALF}
    assert found(changed("rtx-3090", float16=35.6)) == {"float16": VECTOR}
    assert found(changed("rtx-2080-ti", float16=107.6)) == {"float16": ACCUMULATION}
    assert found(changed("quadro-p6000", float16=197.4)) == {"float16": UNIT}
    assert found(changed("v100-sxm-32gb", bfloat16=125)) == {"bfloat16": UNSUPPORTED}
    assert found(changed("a40", float16=100)) == {"float16": RATIO}


def test_problems__impossible_memory_power_and_measurements() -> None:
    l4 = catalogue.find("l4")
    assert found(replace(l4, bandwidth_bytes_per_s=3350e9)) == {"bandwidth": IMPLAUSIBLE}
    assert found(replace(l4, memory_bytes=28 * 2**30)) == {"memory": IMPLAUSIBLE}
    assert found(replace(l4, power_w=7.2))["float32"] == IMPLAUSIBLE
    h100 = catalogue.find("h100-sxm")
    assert found(replace(h100, measured_flop_per_s={"bfloat16": 1200e12})) == {"measured_bfloat16": IMPLAUSIBLE}


def test_problems__no_number_and_no_source() -> None:
    l4 = catalogue.find("l4")
    assert found(replace(l4, power_w=float("nan"))) == {"power": NUMBER}
    assert found(replace(l4, sources=l4.sources | {"power": ()})) == {"power": SOURCE}


def test_problems__a_slice_is_no_more_than_its_share() -> None:
    part = catalogue.find("l4-1of8")
    assert found(part) == {}
    whole = catalogue.find("l4")
    assert found(replace(part, peak_flop_per_s=whole.peak_flop_per_s))["bfloat16"] == SLICE
    assert found(replace(part, part_of="l5")) == {"part_of": SLICE}


def test_table_problems__a_disagreement_needs_a_note_that_names_the_source() -> None:
    silent = catalogue.parse(TABLE, "t.toml")
    (problem,) = check.table_problems(silent)
    assert (problem.field, problem.what) == ("float16", SOURCE)
    assert "lightning says 20 TFLOPS, the table 40 TFLOPS" in problem.text
    noted = catalogue.parse(TABLE + 'note = "Lightning has half."\n', "t.toml")
    assert check.table_problems(noted) == ()
