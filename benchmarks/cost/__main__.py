"""All tables of the cost benchmarks, one after the other; a table whose packages or data are missing says so.

Exit status 1 where one of them found something wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.cost import calibration, catalogue, fleets, pareto_sets, ranking, scale

# The last ones take longest.
TABLES = {
    "catalogue": catalogue.main,
    "scale": scale.main,
    "fleets": fleets.main,
    "pareto_sets": pareto_sets.main,
    "calibration": calibration.main,
    "ranking": ranking.main,
}
# Fits are all or nothing.
NOT_QUICK = ("calibration",)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a little of each table")
    parser.add_argument("--skip", action="append", default=[], choices=TABLES, help="leave out; may be repeated")
    arguments = parser.parse_args(argv)
    code = 0
    for name, table in TABLES.items():
        if name in arguments.skip or (arguments.quick and name in NOT_QUICK):
            continue
        begun = time.monotonic()
        print(f"\n## {name}\n", flush=True)
        code = max(code, table(["--quick"] if arguments.quick else []))
        print(f"\n({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
