"""Fitted constants into ``perfgate/roofline/calibration.toml``; other classes and all comments stay as they are."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cost.classes import Plan
from benchmarks.cost.fitting import value
from perfgate.roofline import calibration as constants
from perfgate.roofline.calibration import KINDS, Calibration

PATH = Path(constants.__file__).with_name("calibration.toml")
_BY_KIND = ("flop_efficiency", "byte_efficiency", "half_ns")
_NUMBERS = ("launch_ns", "overlap", "sigma", "sigma_measured", "reach_bandwidth")
_SOURCE = re.compile(r"\[\[class\.source\]\]\n(?:(?!\[\[).*\n?)*")


def write(made: Mapping[str, tuple[Calibration, Plan]], amd: Calibration, day: dt.date) -> None:
    """Replace the classes of ``made`` and AMD's; the result is read back before it is kept."""
    text = PATH.read_text(encoding="utf-8")
    for calibration, plan in made.values():
        text = _replaced(text, calibration, _source(plan, day))
    text = _replaced(text, amd, "")
    constants.read(text)
    PATH.write_text(text, encoding="utf-8")
    constants.shipped.cache_clear()


def _replaced(text: str, calibration: Calibration, source: str) -> str:
    """``source`` takes the place of the class's sources; empty: those stay."""
    head, *blocks = re.split(r"(?=^\[\[class\]\]$)", text, flags=re.MULTILINE)
    wanted = f'name = "{calibration.name}"'
    changed = [_block(block, calibration, source) if wanted in block.splitlines() else block for block in blocks]
    return "".join([head, *changed])


def _block(block: str, calibration: Calibration, source: str) -> str:
    for name in _NUMBERS:
        block = _line(block, name, _text(value(calibration, name)))
    block = _line(block, "reach_flop", _table(dict(calibration.reach_flop)))
    for name in _BY_KIND:
        block = _line(block, name, _table(_compact(calibration, name)))
    if source:
        block = _SOURCE.sub("", block).rstrip("\n") + f"\n{source}\n\n"
    return block


def _line(block: str, key: str, new: str) -> str:
    return re.sub(rf"^{key} = .*$", lambda _: f"{key} = {new}", block, count=1, flags=re.MULTILINE)


def _compact(calibration: Calibration, name: str) -> dict[str, float]:
    """Element-wise kernels' value is everybody's but those that differ."""
    row = dict(zip(KINDS, getattr(calibration, name), strict=True))
    usual = row["pointwise"] if name == "byte_efficiency" else row["matmul"]
    return {"default": usual, **{kind: each for kind, each in row.items() if each != usual}}


def _table(values: Mapping[str, float]) -> str:
    return f"{{ {', '.join(f'{key} = {_text(each)}' for key, each in values.items())} }}"


def _text(number: float) -> str:
    return f"{number:.1f}" if number >= 1000 or number == 0 else f"{float(f'{number:.3g}')}"


def _source(plan: Plan, day: dt.date) -> str:
    names = list(dict.fromkeys(each.key.partition(".")[0] for each in plan.varied))
    quoted = ", ".join(json.dumps(name) for name in [*names, "sigma"])
    return (
        "[[class.source]]\n"
        f"constants = [{quoted}]\n"
        f'data = "{plan.data}"\n'
        f"n = {len(plan.fit)}\n"
        f'date = "{day.isoformat()}"'
    )
