"""All tables of the estimator benchmarks, one after the other; a table whose packages or data are missing says so.

Exit status 1 where one of them is above a limit that was set for it, or found something wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.estimator import allocation, end_to_end, new_hardware, operators, siblings, timm_models

TABLES = {
    "timm_models": timm_models.main,
    "siblings": siblings.main,
    "new_hardware": new_hardware.main,
    "operators": operators.main,
    "end_to_end": end_to_end.main,
    "allocation": allocation.main,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a little of each table")
    parser.add_argument("--skip", action="append", default=[], choices=TABLES, help="leave out; may be repeated")
    arguments = parser.parse_args(argv)
    code = 0
    for name, table in TABLES.items():
        if name in arguments.skip:
            continue
        begun = time.monotonic()
        print(f"\n## {name}\n", flush=True)
        code = max(code, table(["--quick"] if arguments.quick else []))
        print(f"\n({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
