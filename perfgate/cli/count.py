"""``perfgate count``: F, M and I of one model, operator by operator; nothing is timed."""

from __future__ import annotations

import json
import os

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import plain, say
from perfgate.errors import EXIT_PASS
from perfgate.records.graph import Graph, Operator
from perfgate.report import counts


@click.command("count")
@click.argument("entry", metavar="ENTRY")
@click.option(
    "--inputs",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help="Input, as 'float32[1,3,224,224]'; repeat for several, NAME=SPEC for keywords.",
)
@click.option(
    "--mode", type=click.Choice(["infer", "train", "step"]), default=None, help="What one step is.  [default: infer]"
)
@click.option(
    "--batch", type=click.IntRange(1), default=None, help="Batch size, for the word batch in the inputs or a leading 1."
)
@click.option("--dtype", default="", metavar="DTYPE", help="float32, bfloat16, ... or amp-bfloat16 for autocast.")
@click.option("--python", default="", metavar="PATH", help="Interpreter that builds the model.")
@options.WORKING_CONFIG
@click.option("--top", type=click.IntRange(0), default=15, show_default=True, help="Operators to list.")
@options.JSON
@options.QUIET
def command(
    entry: str,
    inputs: tuple[str, ...],
    mode: str | None,
    batch: int | None,
    dtype: str,
    python: str,
    config_file: str,
    top: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Count F (FLOP and MAC), M (bytes) and I = F/M of one step of ENTRY.

    ENTRY is module:callable (torchvision.models:resnet50), the path of an .onnx file, or a model of perfgate.toml. The
    model is built without weights where it can be, in a process of its own. The result goes to standard output (no
    --out); exit code 2: wrong entry, inputs or configuration, 3: the model cannot be built or run.
    """
    from perfgate.graph import summary
    from perfgate.pipeline.count import CountRequest, count
    from perfgate.pipeline.request import Ports

    request = CountRequest(
        root=options.here(),
        entry=entry,
        inputs=inputs,
        mode=mode or "",
        batch=batch,
        dtype=options.read_dtype(dtype),
        python=python,
        fallback_python=options.own_python(os.environ),
        config_file=config_file,
    )
    with shown(Console(stderr=True), quiet=quiet) as progress:
        graph = count(request, Ports(progress=progress, environ=os.environ))
    if as_json:
        click.echo(json.dumps(summary.tree(graph)))
    else:
        _show(entry, graph, top)
    return EXIT_PASS


def _show(entry: str, graph: Graph, top: int) -> None:
    totals = graph.totals
    console = verdict.console()
    say(console, f"{entry}: F = {units.flop(totals.flop)}")
    console.print(_totals(graph))
    if top and graph.operators:
        console.print(_operators(graph, top))
    for item in totals.not_counted:
        calls = f"{item.calls} call{'' if item.calls == 1 else 's'}"
        say(console, f"Not counted: {item.op} ({calls}, first in {item.first}): {item.reason}")
    for note in totals.notes:
        say(console, f"Note: {note}")
    console.print(counts.CONVENTION, style="dim", highlight=False)


def _totals(graph: Graph) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for line in counts.lines(None, graph.totals):
        # The headline says F; what is not in it is listed below with its reasons.
        if line.label not in ("F", "Not in F"):
            table.add_row(line.label, Text(plain(line.base)))
    return table


def _operators(graph: Graph, top: int) -> Table:
    table = Table(box=None, pad_edge=False, title="Operators with most work", title_justify="left")
    table.add_column("operator", overflow="fold")
    table.add_column("kind")
    for name in ("F", "M", "I"):
        table.add_column(name, justify="right")
    table.add_column("output", overflow="fold")
    for operator in sorted(graph.operators, key=_work, reverse=True)[:top]:
        moved = (operator.read_bytes + operator.written_bytes) * operator.repeat
        flop = None if operator.flop is None else operator.flop * operator.repeat
        table.add_row(
            Text(plain(operator.name)),
            operator.kind,
            units.decimal(flop, "FLOP"),
            units.size(moved),
            units.significant(flop / moved) if flop and moved else "",
            Text(plain(", ".join(operator.outputs[:2]))),
        )
    return table


def _work(operator: Operator) -> tuple[int, int]:
    return (operator.flop or 0) * operator.repeat, (operator.read_bytes + operator.written_bytes) * operator.repeat
