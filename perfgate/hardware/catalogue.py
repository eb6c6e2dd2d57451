"""Floor 2, hardware. The platforms that perfgate knows.

In: ``platforms.toml`` beside this file, our own table of facts. Out: ``platforms()``, ``find(name)``, and ``entries()``
with families and what sources say, for the checks and the documentation. docs/hardware.md says how the table is kept.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

from perfgate.errors import UsageError
from perfgate.hardware.entries import Entry
from perfgate.hardware.reading import Problems, read
from perfgate.hardware.slices import expand
from perfgate.records.hardware import Platform

FILE = "perfgate/hardware/platforms.toml"
_SUGGESTIONS = 5


def parse(text: str, file: str) -> tuple[Entry, ...]:
    """The entries of the table that ``text`` is, with their slices; the whole devices first.

    Raises:
        PerfgateError: With every mistake, one line each, beginning with ``file``.
    """
    table = read(text, file)
    problems = Problems(file)
    slices = expand(table.entries, table.slices, problems)
    everything = (*table.entries, *slices)
    seen: set[str] = set()
    for entry in everything:
        name = entry.platform.name
        if name in seen or name != name.lower():
            problems.add(f"[{name}]", "named twice" if name in seen else "must be lower case")
        seen.add(name)
    problems.stop_if_any()
    return everything


@functools.cache
def entries() -> Mapping[str, Entry]:
    """Name -> entry of every platform, whole devices first, then their slices."""
    text = resources.files("perfgate.hardware").joinpath("platforms.toml").read_text(encoding="utf-8")
    return MappingProxyType({entry.platform.name: entry for entry in parse(text, FILE)})


@functools.cache
def platforms() -> Mapping[str, Platform]:
    """Name -> platform, in the order of :func:`entries`. Read once.

    Raises:
        PerfgateError: The shipped file is damaged; names the line and the key.
    """
    return MappingProxyType({name: entry.platform for name, entry in entries().items()})


def find(name: str) -> Platform:
    """The platform called ``name`` (case does not count).

    Raises:
        UsageError: There is none; lists close matches.
    """
    known = platforms()
    wanted = name.strip().lower()
    if wanted in known:
        return known[wanted]
    message = f"unknown platform {name!r}: {remedy(name)}"
    raise UsageError(message)


def remedy(name: str) -> str:
    """What to write in place of ``name``, which is no platform."""
    close = _close_matches(name.strip().lower())
    return f"did you mean {', '.join(close)}?" if close else "docs/hardware.md lists the names"


def _close_matches(name: str) -> tuple[str, ...]:
    """Names of the catalogue that ``name`` may have meant, the likeliest first; whole devices before slices."""
    known = platforms()
    wholes = [key for key, platform in known.items() if not platform.part_of]
    begin = [key for key in wholes if key.startswith(name + "-") or key.replace("-", "") == name.replace("-", "")]
    if begin:
        return tuple(begin[:_SUGGESTIONS])
    alike = difflib.get_close_matches(name, wholes, n=_SUGGESTIONS, cutoff=0.6)
    slices = difflib.get_close_matches(name, [key for key in known if key not in wholes], n=2, cutoff=0.8)
    return tuple(dict.fromkeys([*alike, *slices]))[:_SUGGESTIONS]
