"""Floor 2, hardware. Dated price lists: CSV text in, :class:`Table` out; nothing is judged here.

In: a file of the columns ``COLUMNS``: the package's own (``prices/PROVIDER_DATE.csv``) or a user's. Out: rows with
their units in their names. What does not have the form of the file is one error that names file, line, column and
remedy; what has it and cannot be true (a price of 0, an unknown platform) is for ``offers`` and ``plausible`` to say.
"""

from __future__ import annotations

import csv
import datetime as dt
import difflib
import functools
import io
import math
from dataclasses import dataclass
from pathlib import Path

from perfgate.errors import UsageError
from perfgate.records.hardware import OWN

FOLDER = Path(__file__).parent / "prices"
COLUMNS = ("provider", "region", "instance", "platform", "count", "share", "gpu_mem_gib", "vcpu", "ram_gib",
           "on_demand", "spot", "currency", "fetched_at", "source")  # fmt: skip
REQUIRED = ("provider", "instance", "platform", "fetched_at")
USD = "USD"
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One machine of a price list.

    Attributes:
        provider, region, instance, platform, count, share: As in :class:`perfgate.records.hardware.Offer`.
        device_gib: Memory of one device. ``vcpus``, ``ram_gib``: of the machine. None: not said.
        on_demand, spot: A machine's price an hour in ``currency``; None: an empty cell. May be NaN, 0 or negative.
        date: ``YYYY-MM-DD``. ``source``: who says so. ``line``: of the file.
    """

    provider: str
    region: str
    instance: str
    platform: str
    count: int
    share: float
    device_gib: float | None
    vcpus: float | None
    ram_gib: float | None
    on_demand: float | None
    spot: float | None
    currency: str
    date: str
    source: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """One file. Compared by identity: what is derived from it is kept as long as it lives."""

    name: str
    rows: tuple[Row, ...]


class _CellError(ValueError):
    """A cell that does not have the form of its column; the text ends in the remedy."""


@functools.cache
def shipped() -> tuple[Table, ...]:
    """The package's own tables, by name."""
    return tuple(read(path) for path in sorted(FOLDER.glob("*.csv")))


def read(path: Path) -> Table:
    """A table from a file. Raises UsageError: no such file, not UTF-8, or not of the form (see :func:`parse`)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        msg = f"{path}: is not UTF-8; save it as a CSV file in UTF-8"
        raise UsageError(msg) from None
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror or error}); name a CSV file of prices"
        raise UsageError(msg) from None
    return parse(text, path.name)


def parse(text: str, name: str) -> Table:
    """A table from CSV text whose first line names the columns, in any order.

    Empty lines and lines that begin with ``#`` are skipped. Raises UsageError with the first few problems.
    """
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    wrong: list[str] = []
    header: list[str] | None = None
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if header is None:
                header = _header(cells, name)
            elif len(cells) != len(header):
                wrong.append(f"{name}:{lines.line_num}: {len(cells)} cells for {len(header)} columns; quote commas")
            else:
                try:
                    rows.append(_row(dict(zip(header, cells, strict=True)), lines.line_num))
                except _CellError as error:
                    wrong.append(f"{name}:{lines.line_num}: {error}")
    except csv.Error as error:
        msg = f"{name}:{lines.line_num}: is no CSV ({error}); separate cells by commas and quote those that hold one"
        raise UsageError(msg) from None
    if header is None:
        msg = f"{name}: is empty; its first line names the columns: {','.join(COLUMNS)}"
        raise UsageError(msg)
    if wrong:
        more = [f"{name}: and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise UsageError("\n".join(wrong[:_SHOWN] + more))
    return Table(name=name, rows=tuple(rows))


def _header(cells: list[str], name: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    for column in header:
        if column not in COLUMNS:
            close = difflib.get_close_matches(column, COLUMNS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the columns are {', '.join(COLUMNS)}"
            msg = f"{name}:1: unknown column {column!r}; {hint}"
            raise UsageError(msg)
        if header.count(column) > 1:
            msg = f"{name}:1: column {column!r} is there twice; keep one"
            raise UsageError(msg)
    missing = [column for column in REQUIRED if column not in header]
    if not {"on_demand", "spot"} & set(header):
        missing.append("on_demand")
    if missing:
        msg = f"{name}:1: no column {', '.join(missing)}; add it to the first line and fill it"
        raise UsageError(msg)
    return header


def _row(cells: dict[str, str], line: int) -> Row:
    def text(column: str, default: str = "") -> str:
        return cells.get(column, "").strip() or default

    def required(column: str) -> str:
        found = text(column)
        if not found:
            msg = f"{column} is empty; fill it"
            raise _CellError(msg)
        return found

    def number(column: str) -> float | None:
        return _number(column, text(column))

    def positive(column: str) -> float | None:
        found = number(column)
        if found is not None and not 0 < found < math.inf:
            msg = f"{column} is {text(column)!r}; write a number above 0, or leave it empty"
            raise _CellError(msg)
        return found

    return Row(
        provider=_name("provider", required("provider").lower()),
        region=text("region"),
        instance=_name("instance", required("instance")),
        platform=required("platform").lower(),
        count=_count(text("count", "1")),
        share=positive("share") or 1.0,
        device_gib=positive("gpu_mem_gib"),
        vcpus=positive("vcpu"),
        ram_gib=positive("ram_gib"),
        on_demand=number("on_demand"),
        spot=number("spot"),
        currency=text("currency", USD).upper(),
        date=_date(required("fetched_at")),
        source=text("source"),
        line=line,
    )


def _name(column: str, text: str) -> str:
    # Both make up PROVIDER/INSTANCE, the form of [cost] runner and of price_factor's keys.
    if column == "provider" and text == OWN:
        msg = "provider is 'own', the name of prices in [cost.prices]; write another one"
        raise _CellError(msg)
    if "/" in text or any(character.isspace() for character in text):
        msg = f"{column} is {text!r}; write it without blanks and slashes"
        raise _CellError(msg)
    return text


def _number(column: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        msg = f"{column} is {text!r}, no number; write one with a decimal point, or leave it empty"
        raise _CellError(msg) from None


def _count(text: str) -> int:
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not (count >= 1 and count.is_integer()):
        msg = f"count is {text!r}; write a whole number of devices, and a part of one in the column share"
        raise _CellError(msg)
    return int(count)


@functools.cache
def _date(text: str) -> str:
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError:
        msg = f"fetched_at is {text!r}; write the day as YYYY-MM-DD"
        raise _CellError(msg) from None
