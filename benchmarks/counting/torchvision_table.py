"""Every figure that torchvision publishes of its weights against perfgate's count.

F/2/1e9 rounded to the three digits of `_ops` has to be equal, and so have the parameters; each exception is named and
its own arithmetic has to come out. Exit status 1 where a difference stays unexplained.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.counting import ours
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.counting.torchvision_exceptions import Example, explain, helpers, int8, is_as_published, wanted
from benchmarks.counting.torchvision_published import QUANTIZED, Published, published
from benchmarks.tables import print_table

QUICK = ("squeezenet1_1", "mobilenet_v3_small", "resnet18", "quantized_mobilenet_v2")
HEADER = ("model", "weights", "input", "params", "GMAC published", "F/2 (GMAC)", "kernels", "M eager (MB)",
          "M min (MB)", "I eager", "I max", "result")  # fmt: skip

EQUAL = "equal"
EXPLAINED = "explained"
DIFFERS = "DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure and what became of it; ``text`` says why it may differ, or how it does."""

    entry: Published
    label: str
    result: str
    text: str
    count: Count


def judge(example: Example, label: str) -> Row:
    """Equal, explained by arithmetic that comes out, or not. What is equal for one build only is explained too."""
    entry, count = example.entry, example.count
    if count.graph is None:
        return Row(entry=entry, label=label, result=DIFFERS, text=count.reason, count=count)
    text = explain(example)
    if text:
        return Row(entry=entry, label=label, result=EXPLAINED, text=text, count=count)
    if is_as_published(entry, count.graph) and not example.int8:
        return Row(entry=entry, label=label, result=EQUAL, text="", count=count)
    totals = count.graph.totals
    told = f"F/2 {totals.flop / 2e9:.3f} GMAC for {entry.gmac}, params {totals.params} for {entry.params}"
    return Row(entry=entry, label=label, result=DIFFERS, text=told, count=count)


def rows(entries: Sequence[Published]) -> Iterable[Row]:
    """A row for each entry; a quantizable model has a second one for its int8 form."""
    models = {item.name: item for entry in entries for item in _all_wanted(entry)}
    found = {count.name: count for count in ours.counts(list(models.values()), timeout_s=900)}
    for entry in entries:
        main = found[wanted(entry).name]
        others = {main.name: main, **{item.name: found[item.name] for item in helpers(entry)}}
        further = {name: count for name, count in others.items() if name != main.name}
        yield judge(Example(entry=entry, count=main, others=further), entry.model)
        if entry.task == QUANTIZED:
            packed = found[int8(entry).name]
            yield judge(Example(entry=entry, count=packed, others=others, int8=True), f"{entry.model} (int8)")


def _all_wanted(entry: Published) -> list[Wanted]:
    return [wanted(entry), *([int8(entry)] if entry.task == QUANTIZED else []), *helpers(entry)]


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    entry, graph = row.entry, row.count.graph
    start = (row.label, str(len(entry.weights)), entry.size)
    if graph is None:
        return (*start, "", f"{entry.gmac:.3f}", *[""] * 6, row.result)
    totals, traffic = graph.totals, graph.totals.traffic
    return (
        *start,
        f"{totals.params}",
        f"{entry.gmac:.3f}",
        f"{totals.flop / 2e9:.3f}",
        str(totals.kernels),
        f"{traffic.eager / 1e6:.1f}",
        f"{traffic.min / 1e6:.1f}",
        f"{totals.flop / traffic.eager:.1f}",
        f"{totals.flop / traffic.min:.1f}",
        row.result,
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four models")
    parser.add_argument("--only", action="append", default=[], metavar="MODEL", help="this model; may be repeated")
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "torchvision")
    if lacking:
        print(how_to_get(lacking, "torchvision's published figures"))
        return 0
    chosen = arguments.only or (QUICK if arguments.quick else ())
    entries = [entry for entry in published() if not chosen or entry.model in chosen]
    if not entries:
        print(f"torchvision publishes no figures of {', '.join(chosen)}", file=sys.stderr)
        return 2
    judged = list(rows(entries))
    print(f"torchvision {version('torchvision')}, torch {version('torch')}, batch 1, float32, inference\n")
    print_table(HEADER, [cells(row) for row in judged])
    print()
    for row in judged:
        if row.text:
            print(f"* {row.label} ({row.result}): {row.text}")
    tally = Counter(row.result for row in judged)
    weights = sum(len(row.entry.weights) for row in judged if not row.label.endswith("(int8)"))
    print(
        f"\n{len(judged)} rows for {weights} published weights: {tally[EQUAL]} equal, {tally[EXPLAINED]} explained, "
        f"{tally[DIFFERS]} unexplained differences"
    )
    return 1 if tally[DIFFERS] else 0


if __name__ == "__main__":
    raise SystemExit(main())
