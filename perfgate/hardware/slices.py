"""Floor 2, hardware. Whole devices and rules of slicing in; slices as platforms of their own out.

In: the ``[[slices]]`` tables of the catalogue's file. Out: entries of MIG instances, rented fractions and single dies.
A slice has its share of the compute, and of memory and bandwidth together; its power is its share of the compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfgate.hardware.entries import LINK, Entry, values
from perfgate.hardware.reading import GIGA, Problems
from perfgate.records.hardware import Platform

_KEYS: dict[str, type] = {
    "of": list,
    "name": str,
    "compute_parts": int,
    "memory_parts": int,
    "profiles": dict,
    "link_gb_s": float,
    "link_source": str,
    "names": dict,
    "note": str,
}
_NEEDED = ("of", "name", "compute_parts", "memory_parts", "profiles")


def expand(entries: Sequence[Entry], tables: Sequence[Mapping[str, Any]], problems: Problems) -> tuple[Entry, ...]:
    """The entries of all slices, in the order of ``tables``; mistakes go to ``problems``."""
    wholes = {entry.platform.name: entry for entry in entries}
    found: list[Entry] = []
    for index, table in enumerate(tables):
        place = f"[[slices]] {index + 1}"
        if not problems.keys(place, table, _KEYS):
            continue
        missing = [key for key in _NEEDED if key not in table]
        unknown = [name for name in table.get("of", ()) if name not in wholes]
        if missing or unknown:
            problems.add(place, f"misses {', '.join(missing)}" if missing else f"unknown platform {', '.join(unknown)}")
            continue
        for name in table["of"]:
            found += _slices(wholes[name], table, place, problems)
    return tuple(found)


def _slices(whole: Entry, table: Mapping[str, Any], place: str, problems: Problems) -> list[Entry]:
    found = []
    for profile, parts in table["profiles"].items():
        if not _are_parts(parts, table):
            problems.add(f"{place} profiles.{profile}", f"{parts!r} must be [parts of compute, parts of memory]")
            continue
        suffix = table["name"].format(profile)
        platform = _slice(
            whole.platform, suffix, parts[0] / table["compute_parts"], parts[1] / table["memory_parts"], table
        )
        found.append(replace(whole, platform=platform, claims={}, bus_bits=0, memory_type=""))
    return found


def _are_parts(parts: object, table: Mapping[str, Any]) -> bool:
    return (
        isinstance(parts, list)
        and len(parts) == 2
        and all(isinstance(part, int) and part > 0 for part in parts)
        and parts[0] <= table["compute_parts"]
        and parts[1] <= table["memory_parts"]
    )


def _slice(whole: Platform, suffix: str, compute: float, memory: float, table: Mapping[str, Any]) -> Platform:
    name = f"{whole.name}-{suffix}"
    link = table.get("link_gb_s")
    measured = whole.measured_bandwidth_bytes_per_s
    sliced = replace(
        whole,
        name=name,
        label=_label(whole.label, suffix),
        peak_flop_per_s={dtype: rate * compute for dtype, rate in whole.peak_flop_per_s.items()},
        bandwidth_bytes_per_s=whole.bandwidth_bytes_per_s * memory,
        memory_bytes=None if whole.memory_bytes is None else round(whole.memory_bytes * memory),
        power_w=None if whole.power_w is None else whole.power_w * compute,
        link_bytes_per_s=None if link is None else link * GIGA,
        measured_flop_per_s={dtype: rate * compute for dtype, rate in whole.measured_flop_per_s.items()},
        measured_bandwidth_bytes_per_s=None if measured is None else measured * memory,
        part_of=whole.name,
        share=compute,
        note=table.get("note", ""),
        names=tuple(table.get("names", {}).get(name, ())),
    )
    stated = values(sliced)
    sources = {name: who for name, who in whole.sources.items() if name in stated}
    if LINK in stated:
        sources[LINK] = (table.get("link_source", ""),)
    return replace(sliced, sources=sources, single_source=tuple(stated))


def _label(whole: str, suffix: str) -> str:
    if suffix.startswith("mig-"):
        return f"{whole} MIG {suffix.removeprefix('mig-')}"
    if "of" in suffix:
        return f"{whole}, {suffix.replace('of', '/')}"
    return f"{whole.split(' (', maxsplit=1)[0]} (one {suffix.upper()})"
