"""Floor 2, hardware. The text of a platform table in, entries out; every mistake in one error.

In: TOML as ``perfgate/hardware/platforms.toml`` explains it. Out: ``Table``. Units of the keys (TFLOPS, GB/s, GiB, GHz,
MT/s) become FLOP/s, byte/s and bytes here and nowhere else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfgate.errors import PerfgateError
from perfgate.hardware.entries import BANDWIDTH, LINK, MATRIX, MEASURED, MEMORY, POWER, Entry, Family, near, values
from perfgate.records.hardware import ACCELERATOR, CPU, DTYPES, GPU, TPU, Platform

TERA = 1e12
GIGA = 1e9
GIB = 2**30

ARCHITECTURE = "architecture"
PCIE = "pcie"
VENDOR = "vendor"
_PCIE_RATES = (15.75, 31.5, 63.0)
_BYTES_PER_TRANSFER = 8  # of one memory channel of 64 bits
_SCALE = {BANDWIDTH: GIGA, LINK: GIGA, MEMORY: GIB, POWER: 1.0, MEASURED + BANDWIDTH: GIGA}

_FAMILY_KEYS = {
    "vendor": str,
    "kind": str,
    "base": str,
    "ratio": dict,
    "fitted": bool,
    "sparse": bool,
    "link_gb_s": float,
    "vector_half": float,
    "vector_share": dict,
    "half_accumulate": bool,
    "flop_per_cycle": dict,
    "efficiency_flop_per_cycle": dict,
    "note": str,
}
_PLATFORM_KEYS = {
    "label": str,
    "family": str,
    "tflops": dict,
    "bandwidth_gb_s": float,
    "memory_gib": float,
    "power_w": float,
    "link_gb_s": float,
    "measured_tflops": dict,
    "measured_bandwidth_gb_s": float,
    "bus_bits": int,
    "memory_type": str,
    "unlike_family": list,
    "cores": int,
    "ghz": float,
    "efficiency_cores": int,
    "efficiency_ghz": float,
    "channels": int,
    "mt_s": float,
    "sources": dict,
    "names": list,
    "note": str,
}
_NEEDED = {GPU: ("label", "tflops", "bandwidth_gb_s", "memory_gib"), CPU: ("label", "cores", "ghz", "channels", "mt_s")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a file says: whole platforms, and the raw tables of slices."""

    entries: tuple[Entry, ...]
    slices: tuple[Mapping[str, Any], ...]


class Problems:
    """Collects what is wrong with ``file`` so that a reader sees all of it at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: list[str] = []

    def add(self, place: str, text: str) -> None:
        """Note one mistake at the table or key ``place``."""
        self.lines.append(f"{self.file}: {place}: {text}")

    def stop_if_any(self) -> None:
        """Raises PerfgateError with every line so far."""
        if self.lines:
            raise PerfgateError("\n".join(self.lines))

    def number(self, place: str, value: object) -> None:
        """Note the value at ``place`` unless it is a number above 0."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            self.add(place, f"{value!r} must be a number above 0")

    def keys(self, place: str, table: Mapping[str, Any], known: Mapping[str, type]) -> bool:
        """Whether all keys of ``table`` are known and of the right type; notes those that are not."""
        before = len(self.lines)
        for key, value in table.items():
            kind = known.get(key)
            if kind is None:
                self.add(f"{place} {key}", f"unknown key; known are {', '.join(known)}")
            elif kind in (float, int):
                self.number(f"{place} {key}", value)
            elif not isinstance(value, kind):
                self.add(f"{place} {key}", f"{value!r} must be a {kind.__name__}")
        return len(self.lines) == before


def read(text: str, file: str) -> Table:
    """The table that ``text`` is.

    Raises:
        PerfgateError: No TOML, unknown keys, wrong types, missing fields, unknown families, sources or fields; all
            that was found, one line each, beginning with ``file``.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{file}: not valid TOML: {error}"
        raise PerfgateError(message) from None
    problems = Problems(file)
    sources = raw.pop("sources", {})
    slices = tuple(raw.pop("slices", ()))
    families = {name: _family(name, table, problems) for name, table in raw.pop("family", {}).items()}
    problems.stop_if_any()
    entries = [_entry(name, table, families, sources, problems) for name, table in raw.items()]
    problems.stop_if_any()
    return Table(entries=tuple(entry for entry in entries if entry is not None), slices=slices)


def _family(name: str, table: Any, problems: Problems) -> Family:
    place = f"[family.{name}]"
    if not isinstance(table, dict) or not problems.keys(place, table, _FAMILY_KEYS):
        problems.add(place, "left out")
        return Family(name=name, vendor="", kind="")
    if table.get("kind") not in (GPU, TPU, ACCELERATOR, CPU) or not table.get("vendor"):
        problems.add(place, "needs vendor, and kind = gpu, tpu, accelerator or cpu")
    for key in ("ratio", "vector_share", "flop_per_cycle", "efficiency_flop_per_cycle"):
        _rates(f"{place} {key}", table.get(key, {}), problems)
    link = table.get("link_gb_s")
    return Family(
        name=name,
        vendor=table.get("vendor", ""),
        kind=table.get("kind", ""),
        base=table.get("base", "float32"),
        ratio=table.get("ratio", {}),
        fitted=table.get("fitted", False),
        sparse=table.get("sparse", False),
        vector_half=table.get("vector_half", 0.0),
        vector_share=table.get("vector_share", {}),
        half_accumulate=table.get("half_accumulate", False),
        cycle=table.get("flop_per_cycle", {}),
        efficiency_cycle=table.get("efficiency_flop_per_cycle", {}),
        link=None if link is None else link * GIGA,
        note=table.get("note", ""),
    )


def _rates(place: str, table: Mapping[str, Any], problems: Problems) -> None:
    for dtype, rate in table.items():
        if dtype not in DTYPES:
            problems.add(f"{place}.{dtype}", f"unknown dtype; known are {', '.join(DTYPES)}")
        else:
            problems.number(f"{place}.{dtype}", rate)


def _entry(
    name: str, table: Any, families: Mapping[str, Family], sources: Mapping[str, str], problems: Problems
) -> Entry | None:
    place = f"[{name}]"
    if not isinstance(table, dict):
        problems.add(place, "must be a table")
        return None
    if not problems.keys(place, table, _PLATFORM_KEYS):
        return None
    family = families.get(table.get("family", ""))
    if family is None:
        problems.add(f"{place} family", f"{table.get('family')!r} is not one of the [family.NAME] tables")
        return None
    missing = [key for key in _NEEDED[CPU if family.kind == CPU else GPU] if key not in table]
    if missing:
        problems.add(place, f"misses {', '.join(missing)}")
        return None
    before = len(problems.lines)
    for key in ("tflops", "measured_tflops"):
        _rates(f"{place} {key}", table.get(key, {}), problems)
    platform = _platform(name, table, family) if len(problems.lines) == before else None
    if platform is None:
        return None
    claims = _claims(place, table.get("sources", {}), values(platform), sources, problems)
    _derived_claims(claims, platform, family)
    return Entry(
        platform=_with_sources(platform, claims),
        family=family,
        claims=claims,
        unlike_family=tuple(table.get("unlike_family", ())),
        bus_bits=int(table.get("bus_bits", 0)),
        memory_type=table.get("memory_type", ""),
    )


def _platform(name: str, table: Mapping[str, Any], family: Family) -> Platform:
    cpu = family.kind == CPU
    peaks = _cpu_peaks(table, family) if cpu else {dtype: rate * TERA for dtype, rate in table["tflops"].items()}
    bandwidth = table["channels"] * table["mt_s"] * 1e6 * _BYTES_PER_TRANSFER if cpu else table["bandwidth_gb_s"] * GIGA
    link = table.get("link_gb_s")
    measured = table.get("measured_bandwidth_gb_s")
    return Platform(
        name=name,
        label=table["label"],
        vendor=family.vendor,
        kind=family.kind,
        peak_flop_per_s=peaks,
        bandwidth_bytes_per_s=bandwidth,
        memory_bytes=None if cpu else round(table["memory_gib"] * GIB),
        power_w=table.get("power_w"),
        link_bytes_per_s=family.link if link is None else link * GIGA,
        measured_flop_per_s={dtype: rate * TERA for dtype, rate in table.get("measured_tflops", {}).items()},
        measured_bandwidth_bytes_per_s=None if measured is None else measured * GIGA,
        cores=table["cores"] + table.get("efficiency_cores", 0) if cpu else None,
        note=" ".join(part for part in (table.get("note", ""), family.note) if part),
        names=tuple(table.get("names", ())),
    )


def _cpu_peaks(table: Mapping[str, Any], family: Family) -> dict[str, float]:
    """Cores x clock x operations a cycle, of both kinds of cores."""
    small = table.get("efficiency_cores", 0) * table.get("efficiency_ghz", 0.0)
    return {
        dtype: (table["cores"] * table["ghz"] * rate + small * family.efficiency_cycle.get(dtype, 0.0)) * GIGA
        for dtype, rate in family.cycle.items()
    }


def _claims(
    place: str, table: Mapping[str, Any], stated: Mapping[str, float], sources: Mapping[str, str], problems: Problems
) -> dict[str, dict[str, float]]:
    """Field -> source -> value, from ``{source = "field field:value"}``."""
    claims: dict[str, dict[str, float]] = {name: {} for name in stated}
    for source, text in table.items():
        where = f"{place} sources.{source}"
        if source not in sources:
            problems.add(where, "not explained in [sources]")
            continue
        if not isinstance(text, str):
            problems.add(where, f"{text!r} must be a text of fields")
            continue
        for word in text.split():
            for name, value in _words(word, stated, where, problems):
                claims.setdefault(name, {})[source] = value
    return claims


def _words(word: str, stated: Mapping[str, float], where: str, problems: Problems) -> list[tuple[str, float]]:
    name, _, other = word.partition(":")
    if name == "tensor":
        return [(dtype, stated[dtype]) for dtype in MATRIX if dtype in stated]
    if other:
        scale = _SCALE.get(name, TERA if name.removeprefix(MEASURED) in DTYPES else None)
        try:
            return [(name, float(other) * (scale or 1.0))] if scale else _unknown(name, stated, where, problems)
        except ValueError:
            problems.add(where, f"{other!r} in {word!r} is no number")
            return []
    return [(name, stated[name])] if name in stated else _unknown(name, stated, where, problems)


def _unknown(name: str, stated: Mapping[str, float], where: str, problems: Problems) -> list[tuple[str, float]]:
    problems.add(where, f"{name!r} is no field that this platform states; it states {', '.join(stated)}")
    return []


def _derived_claims(claims: dict[str, dict[str, float]], platform: Platform, family: Family) -> None:
    """What follows from units and clocks, from PCIe, and from the family's link."""
    peaks = platform.peak_flop_per_s
    if family.kind == CPU:
        for name in (*peaks, BANDWIDTH):
            claims[name][ARCHITECTURE] = values(platform)[name]
    elif family.base == "float32" and not family.fitted and "float32" in peaks:
        for dtype, ratio in family.ratio.items():
            if dtype in peaks and near(peaks[dtype], ratio * peaks["float32"]):
                claims[dtype][ARCHITECTURE] = ratio * peaks["float32"]
    link = platform.link_bytes_per_s
    if link is not None and link / GIGA in _PCIE_RATES:
        claims[LINK][PCIE] = link
    elif link is not None and link == family.link:
        claims[LINK].setdefault(VENDOR, link)


def _with_sources(platform: Platform, claims: Mapping[str, Mapping[str, float]]) -> Platform:
    """``platform`` with the sources that agree with it, and which fields fewer than two agree on."""
    stated = values(platform)
    agreeing = {
        name: tuple(source for source, value in claims[name].items() if near(value, stated[name])) for name in stated
    }
    single = tuple(name for name, who in agreeing.items() if len(who) < 2)
    return replace(platform, sources=agreeing, single_source=single)
