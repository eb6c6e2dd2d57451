"""Floor 3, cost. What is asked for as options of ``sbatch`` and ``srun``. In: an :class:`Ask`. Out: one line."""

from __future__ import annotations

import math

from perfgate.cost.emit_facts import Ask, card, gib


def text(ask: Ask) -> str:
    """Options for ``sbatch $(...)``. The type of a GPU is a part of the name that Slurm's own detection gives it."""
    options = [f"--job-name={ask.name}", "--nodes=1", "--ntasks=1"]
    if ask.cpus:
        options.append(f"--cpus-per-task={ask.cpus}")
    options.append(f"--mem={gib(ask.host_bytes)}G")
    if ask.devices:
        options.append(f"--gres=gpu:{gpu_type(ask)}:{ask.devices}")
    if ask.time_s is not None:
        options.append(f"--time={duration(ask.time_s)}")
    return " ".join(options) + "\n"


def gpu_type(ask: Ask) -> str:
    """``a100``, ``rtx_3090``, of a MIG slice its profile ``1g.5gb``."""
    return ask.mig or card(ask).replace("-", "_")


def duration(seconds: float) -> str:
    """``days-hours:minutes:seconds``, rounded down to whole minutes but never to nothing: Slurm counts in minutes."""
    minutes = max(1, math.floor(seconds / 60))
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:00"
