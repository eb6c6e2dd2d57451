"""The command lines of benchmarks on public data: where it lies, a little of it, and single tables.

In: arguments. Out: the exit status; 0, and a line on how to get the data, where it is not there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks.cost import public

T = TypeVar("T")


class Run(Protocol):
    """What a benchmark does with the data's folder; its exit status."""

    def __call__(self, data: Path, /, *, quick: bool) -> int: ...


def on_data(argv: Sequence[str] | None, run: Run, *, name: str, text: str | None, quick: str) -> int:
    """``run`` on the folder of the data. ``quick``: the help of ``--quick``."""
    return _run(_parser(text, quick).parse_args(argv), name, run)


def on_tables(
    argv: Sequence[str] | None,
    run: Callable[..., int],
    tables: Mapping[str, T],
    *,
    name: str,
    text: str | None,
    quick: str,
) -> int:
    """``run`` on the folder and those of ``tables`` that were chosen: by default all, the first one if quick."""
    parser = _parser(text, quick)
    parser.add_argument("--table", action="append", default=[], choices=tables, help="only this one; may be repeated")
    arguments = parser.parse_args(argv)
    names = arguments.table or list(tables)[: 1 if arguments.quick else None]
    return _run(arguments, name, partial(run, tables={one: tables[one] for one in names}))


def _parser(text: str | None, quick: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def _run(arguments: argparse.Namespace, name: str, run: Run) -> int:
    data = public.folder(arguments.data)
    if data is None:
        print(public.how_to_get(name))
        return 0
    return run(data, quick=arguments.quick)
