"""All tables of the placement benchmarks, one after the other; a table whose data are missing says so.

Exit status 1 where one of them is above a limit that was set for it, or found something wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.place import known_values, published, real, small, speed
from benchmarks.runner import run

TABLES = {
    "known_values": known_values.main,
    "published": published.main,
    "small": small.main,
    "speed": speed.main,
    "real": real.main,
}


def main(argv: Sequence[str] | None = None) -> int:
    return run(TABLES, argv, description=__doc__)


if __name__ == "__main__":
    raise SystemExit(main())
