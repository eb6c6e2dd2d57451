"""Numbers for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [(13_923_000, "13.9 ms"), (999_960, "1.00 ms"), (1.2e9, "1.20 s"), (950, "950 ns"), (0, "0 ns"), (None, "n/a")],
)
def test_duration__three_digits_and_a_unit(ns: float | None, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.079, "+7.9 %"), (-0.112, "−11.2 %"), (0.0, "0.0 %"), (-0.0001, "0.0 %"), (1.0, "+100.0 %"), (None, "n/a")],
)
def test_percent__one_decimal_with_a_real_minus(share: float | None, text: str) -> None:
    assert units.percent(share, sign=True) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (11.4 * 2**30, "byte", "11.4 GiB"),
        (8_178_368_512, "flop", "8.18 GFLOP (4.09 GMAC)"),
        (25_557_032, "count", "25\u202f557\u202f032"),
        (0.0, "byte", "0 B"),
        (1.25, "joule", "1.25 J"),
        (321.0, "item/s", "321 items/s"),
    ],
)
def test_quantity__by_unit(value: float, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("text", "ns"), [("20ms", 2e7), ("1.5 s", 1.5e9), ("10min", 6e11), ("5 μs", 5e3), ("5 µs", 5e3)]
)
def test_parse_duration_ns__accepts_what_people_write(text: str, ns: float) -> None:
    assert units.parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["20", "ms", "20 sec", "-1ms", "nan ms", "1e999s s", ""])
def test_parse_duration_ns__names_the_accepted_units(text: str) -> None:
    with pytest.raises(ValueError, match="20ms"):
        units.parse_duration_ns(text)


@pytest.mark.parametrize("text", ["3 percent", "-3%", "nan", "inf", ""])
def test_parse_fraction__refuses(text: str) -> None:
    with pytest.raises(ValueError, match="3%"):
        units.parse_fraction(text)


@given(st.floats(min_value=1e-3, max_value=1e18))
def test_significant__stays_within_half_a_digit(value: float) -> None:
    shown = float(units.significant(value).replace("\u202f", ""))
    assert abs(shown - value) <= 0.0051 * value


@given(st.floats(min_value=1e-9, max_value=1e4), st.sampled_from(["duration", "size"]))
def test_scaled_quantities__never_show_a_thousand_of_a_unit_that_has_a_larger_one(value: float, kind: str) -> None:
    text = units.duration(value * 1e9) if kind == "duration" else units.size(value * 1e6)
    number = float(text.split(" ")[0].replace("\u202f", ""))
    assert number < (1024 if kind == "size" else 10_001 if text.endswith(" s") else 1000)


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0.00412, "$0.00412"), (0.004, "$0.004"), (0.0041249, "$0.00412"), (0.44, "$0.44"), (0.4, "$0.40"),
        (0.5265, "$0.526"), (0.9996, "$1.00"), (1, "$1.00"), (2.1, "$2.10"), (98.324, "$98.32"), (999.99, "$999.99"),
        (999.999, "$1\u202f000"), (1180, "$1\u202f180"), (12_300.4, "$12\u202f300"), (1.5e6, "$1\u202f500\u202f000"),
        (0, "$0"), (-1180, "\u2212$1\u202f180"), (-0.004, "\u2212$0.004"), (None, "n/a"), (float("nan"), "n/a"),
    ],
)  # fmt: skip
def test_money__cents_or_three_digits(usd: float | None, text: str) -> None:
    assert units.money(usd) == text
    assert units.quantity(usd, "usd") == text


def test_money__a_difference_has_its_sign() -> None:
    assert units.money(1180, sign=True) == "+$1\u202f180"
    assert units.money(-3, sign=True) == "\u2212$3.00"
    assert units.money(0, sign=True) == "$0"


@given(st.floats(min_value=1e-12, max_value=1e9))
def test_money__is_never_zero_for_a_price(usd: float) -> None:
    digits = units.money(usd).lstrip("$").replace("\u202f", "")
    assert float(digits) == pytest.approx(usd, rel=0.0051)


@pytest.mark.parametrize(
    ("items_per_s", "text"),
    [
        (None, "n/a"),
        (0, "0 items/s"),
        (0.25, "0.250 items/s"),
        (78.04, "78.0 items/s"),
        (3341.7, "3\u202f340 items/s"),
        (999_999, "1.00 M items/s"),
        (2.5e9, "2.50 G items/s"),
    ],
)
def test_rate__three_digits_and_no_prefix_that_joins_the_word(items_per_s, text):
    assert units.rate(items_per_s) == text


_FORMS = (
    units.duration, units.size, units.rate, units.flop, units.energy, units.money, units.percent,
    lambda value: units.decimal(value, "FLOP/s"), lambda value: units.quantity(value, "count"),
    lambda value: units.quantity(value, "dB"), units.significant,
)  # fmt: skip


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_forms__what_is_no_number_is_not_available(form, value):
    assert form(value) == "n/a"


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("value", [1e308, -1e308, 1e-300, 5e-324])
def test_forms__no_number_is_a_row_of_zeros(form, value):
    assert len(form(value)) <= 40


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e308, "1.00e+308"), (-2.346e18, "-2.35e+18"), (9.9996e-16, "1.00e-15"), (1e-15, f"0.{14 * '0'}100")],
)
def test_significant__far_from_1_is_a_power_of_ten(value, text):
    assert units.significant(value) == text


def test_money__far_from_1_is_a_power_of_ten():
    assert units.money(1e308) == "$1.00e+308"
    assert units.money(-1e-20) == "\u2212$1.00e-20"
    assert units.percent(1e307) == "n/a"
