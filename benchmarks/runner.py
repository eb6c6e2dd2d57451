"""All tables of one package of benchmarks, one after the other, as its ``__main__`` runs them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Mapping, Sequence

# A table's ``main``: takes arguments, prints, and returns an exit status.
Table = Callable[[Sequence[str]], int]


def run(
    tables: Mapping[str, Table], argv: Sequence[str] | None, *, description: str | None, not_quick: Collection[str] = ()
) -> int:
    """Runs the tables in order, with ``--quick`` and ``--skip``; returns the greatest exit status of them.

    ``not_quick``: tables that ``--quick`` leaves out, because nothing of them is quick.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a little of each table")
    parser.add_argument("--skip", action="append", default=[], choices=tables, help="leave out; may be repeated")
    arguments = parser.parse_args(argv)
    code = 0
    for name, table in tables.items():
        if name in arguments.skip or (arguments.quick and name in not_quick):
            continue
        begun = time.monotonic()
        print(f"\n## {name}\n", flush=True)
        code = max(code, table(["--quick"] if arguments.quick else []))
        print(f"\n({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return code
