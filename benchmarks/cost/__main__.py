"""All tables of the cost benchmarks, one after the other; a table whose packages or data are missing says so.

Exit status 1 where one of them found something wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cost import calibration, catalogue, fleets, pareto_sets, ranking, scale
from benchmarks.runner import run

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
    return run(TABLES, argv, description=__doc__, not_quick=NOT_QUICK)


if __name__ == "__main__":
    raise SystemExit(main())
