"""The catalogue of platforms: how many, how well sourced; the validator on known errors; device names.

Three tables. ``2 sources``: values on which two sources agree within 5 %; ``one``: marked single-source or derived;
``notes``: claims of other sources that differ by more than 5 %, each named in the platform's note. A known error counts
as caught where the validator names the wrong fields of that row, all of them and no other, with the right mistake.

Exit status 1 where the catalogue fails its own validator, an error is missed, or a name leads elsewhere.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence

from benchmarks.tables import print_table
from perfgate.hardware import catalogue, check, names
from perfgate.hardware.entries import Entry
from tests.hardware.device_names import NAMES, UNKNOWN
from tests.hardware.known_errors import KNOWN_ERRORS


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the same: it takes a second")
    parser.add_argument("--list", action="store_true", help="the list of docs/hardware.md instead")
    if parser.parse_args(argv).list:
        print("\n".join(listing()))
        return 0
    wrong = _platforms()
    print()
    missed = _errors()
    print()
    astray = _names()
    return 1 if wrong or missed or astray else 0


def listing() -> list[str]:
    """The whole devices as the Markdown table of docs/hardware.md."""
    lines = ["| name | float32 | 16 bits | GB/s | GiB | I_max | one source |", "|:--|--:|--:|--:|--:|--:|:--|"]
    for platform in catalogue.platforms().values():
        if platform.part_of:
            continue
        peaks = platform.peak_flop_per_s
        half = peaks.get("bfloat16", peaks.get("float16"))
        best = half or peaks.get("float32")
        memory = platform.memory_bytes
        cells = (
            f"`{platform.name}`",
            _tera(peaks.get("float32")),
            _tera(half),
            f"{platform.bandwidth_bytes_per_s / 1e9:.4g}",
            f"{memory / 2**30:.4g}" if memory else "",
            f"{best / platform.bandwidth_bytes_per_s:.3g}" if best else "",
            ", ".join(platform.single_source),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _tera(rate: float | None) -> str:
    return "" if rate is None else f"{rate / 1e12:.4g}"


def _platforms() -> int:
    """Prints the rows by maker and kind; the number of problems that the validator finds."""
    entries = list(catalogue.entries().values())
    wholes = [entry for entry in entries if not entry.platform.part_of]
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in wholes:
        groups.setdefault((entry.platform.vendor, entry.platform.kind), []).append(entry)
    header = ("platforms", "rows", "values", "2 sources", "one", "nobody", "notes")
    rows = [_row(f"{vendor} {kind}", group) for (vendor, kind), group in groups.items()]
    print_table(header, [*rows, _row("all", wholes)])
    problems = check.table_problems(entries)
    print(f"\n{len(entries) - len(wholes)} slices of these; the validator finds {len(problems)} problems in all")
    for problem in problems:
        print(f"  {problem}")
    return len(problems)


def _row(title: str, entries: Iterable[Entry]) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for entry in entries:
        counts["rows"] += 1
        counts["notes"] += sum(1 for _ in check.conflicts(entry))
        for name in entry.values():
            who = entry.platform.sources.get(name, ())
            counts["values"] += 1
            counts["two" if len(who) > 1 else "one" if who else "nobody"] += 1
    return (title, *(str(counts[key]) for key in ("rows", "values", "two", "one", "nobody", "notes")))


def _errors() -> int:
    """Prints what the validator says of each known error; the number of rows where that is not right."""
    rows = []
    missed = 0
    for error in KNOWN_ERRORS:
        found = {problem.field: problem.what for problem in check.compare([error.row])}
        right = found == error.wrong
        missed += not right
        said = ", ".join(f"{field}: {what}" for field, what in found.items()) or "nothing wrong"
        rows.append((f"{error.source}: {error.row.name}", said, "yes" if right else "NO"))
    print_table(("published row", "diagnosis", "right"), rows)
    wrong = [error for error in KNOWN_ERRORS if error.wrong]
    fields = sum(len(error.wrong) for error in wrong)
    print(
        f"\n{len(KNOWN_ERRORS) - missed} of {len(KNOWN_ERRORS)} rows right; {fields} wrong values in {len(wrong)} rows"
    )
    return missed


def _names() -> int:
    """Prints how many names lead where they should; the number that does not."""
    astray = []
    for text, wanted in NAMES.items():
        found = names.parse(text)
        if found is None or found.name != wanted:
            astray.append(f"{text!r} -> {found.name if found else 'unknown'}, not {wanted}")
    guessed = [text for text in UNKNOWN if names.parse(text) is not None]
    print_table(
        ("device names", "tried", "right"),
        [
            ("mapped to their platform", str(len(NAMES)), str(len(NAMES) - len(astray))),
            ("left unknown", str(len(UNKNOWN)), str(len(UNKNOWN) - len(guessed))),
        ],
    )
    for line in (*astray, *guessed):
        print(f"  {line}")
    return len(astray) + len(guessed)


if __name__ == "__main__":
    raise SystemExit(main())
