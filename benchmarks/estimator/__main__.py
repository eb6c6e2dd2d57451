"""All tables of the estimator benchmarks, one after the other; a table whose packages or data are missing says so.

Exit status 1 where one of them is above a limit that was set for it, or found something wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.estimator import (
    allocation,
    end_to_end,
    from_nothing,
    new_hardware,
    operators,
    siblings,
    speed,
    timm_models,
)
from benchmarks.runner import run

TABLES = {
    "timm_models": timm_models.main,
    "siblings": siblings.main,
    "new_hardware": new_hardware.main,
    "operators": operators.main,
    "end_to_end": end_to_end.main,
    "allocation": allocation.main,
    "from_nothing": from_nothing.main,
    "speed": speed.main,
}


def main(argv: Sequence[str] | None = None) -> int:
    return run(TABLES, argv, description=__doc__)


if __name__ == "__main__":
    raise SystemExit(main())
