"""All tables of the counting benchmarks, one after the other; a table whose packages are missing says so.

Exit status 1 where one of them found something wrong.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.counting import (
    detection,
    onnx_table,
    other_counters,
    speed,
    timm_sweep,
    torchvision_table,
    transformers_sweep,
)

# The last ones take longest.
TABLES = {
    "torchvision_table": torchvision_table.main,
    "other_counters": other_counters.main,
    "speed": speed.main,
    "transformers_sweep": transformers_sweep.main,
    "onnx_table": onnx_table.main,
    "detection": detection.main,
    "timm_sweep": timm_sweep.main,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few models of each table")
    parser.add_argument("--resume", action="store_true", help="keep what the sweep of timm has found so far")
    parser.add_argument("--skip", action="append", default=[], choices=TABLES, help="leave out; may be repeated")
    arguments = parser.parse_args()
    code = 0
    for name, table in TABLES.items():
        if name in arguments.skip:
            continue
        options = ["--quick"] if arguments.quick else []
        if name == "timm_sweep" and arguments.resume:
            options.append("--resume")
        begun = time.monotonic()
        print(f"\n## {name}\n", flush=True)
        code = max(code, table(options))
        print(f"\n({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
