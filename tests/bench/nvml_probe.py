"""Run in a process that loads the fake library: prints what :mod:`perfgate.bench.nvml` finds, as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from perfgate.bench import machine, nvml
from perfgate.bench.telemetry import Watch
from perfgate.records.evidence import Block

gpus = nvml.connect()
found = {
    "why": getattr(gpus, "why", ""),
    "driver": gpus.driver,
    "all": [dataclasses.asdict(gpu) for gpu in gpus.all()],
    "each": {
        gpu.uuid: {
            "clock": gpus.sm_clock_mhz(gpu.uuid),
            "throttle": gpus.throttle(gpu.uuid),
            "energy": gpus.energy_j(gpu.uuid),
            "processes": gpus.processes(gpu.uuid),
            "used": gpus.used_bytes(gpu.uuid),
        }
        for gpu in gpus.all()
    },
}
watch = Watch(gpus, os.environ)
watch.hold_clocks(sys.argv[1:])
watch.use(sys.argv[1:])
found["locked"] = watch.locked
block = Block(samples_ns=(1,), wall_ns=2_000_000_000)
found["block"] = dataclasses.asdict(watch.complete(block, watch.mark(), 2_000_000_000))
watch.release()
found["environment"] = dataclasses.asdict(machine.environment(gpus=gpus))
found["check"] = machine.check(gpus=gpus)
gpus.close()
sys.stdout.write(json.dumps(found))
