"""Pi and beta of this runner: probed once by ``perfgate doctor --roofline``, kept beside the database for gates."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from perfgate import wire
from perfgate.bench import machine
from perfgate.bench.session import HEAD
from perfgate.errors import MeasuringError
from perfgate.pipeline.request import CONFIG_FILE, Ports
from perfgate.pipeline.working_tree import FOLDER, configuration, opened, own_folder
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.protocol import Failed
from perfgate.records.workload import SideConfig
from perfgate.report.write import write_file
from perfgate.roofline.probes import possible

FORMAT = 1
# A probe has some hundred bytes.
_MOST_BYTES = 4 * 2**20
FILE = FOLDER / "roofline.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineFile:
    """What is kept: probes by the runner's ``hardware_id``, since a checkout may be shared by several machines."""

    format: int
    rooflines: dict[str, tuple[MeasuredRoofline, ...]] = field(default_factory=dict)


def probe(
    root: Path, ports: Ports, devices: tuple[str, ...], *, python: str = "", fallback_python: str = "",
    config_file: str = CONFIG_FILE,
) -> tuple[MeasuredRoofline, ...]:  # fmt: skip
    """Measure every device now and keep the result. Raises MeasuringError, and UsageError for a wrong configuration."""
    config = configuration(root, config_file)
    side = config.side if config is not None else SideConfig(source="defaults")
    # Before a minute of measuring and not after it.
    _make_folder(root)
    found = []
    with opened(root, side, ports, python=python or side.python or fallback_python) as session:
        for number, device in enumerate(devices):
            ports.progress.step(f"Probing {device}", number, len(devices), None)
            measured = session.saturate(HEAD, device)
            if isinstance(measured, Failed):
                msg = f"{device} could not be probed ({measured.phase}): {measured.message}"
                raise MeasuringError(msg)
            found.append(measured)
    keep(root, machine.environment(ports.environ).hardware_id, tuple(found))
    return tuple(found)


def keep(root: Path, hardware_id: str, measured: tuple[MeasuredRoofline, ...]) -> None:
    """Add probes of this machine to the file; those of the same device are replaced. Raises MeasuringError."""
    kept = _read(root)
    others = {one.device: one for one in kept.rooflines.get(hardware_id, ())}
    others |= {one.device: one for one in measured}
    file = RooflineFile(format=FORMAT, rooflines={**kept.rooflines, hardware_id: tuple(others.values())})
    _make_folder(root)
    problem = write_file(root / FILE, wire.dumps(file, indent=1) + "\n")
    if problem:
        # The remedy of the outputs (--out) is none here.
        msg = f"{problem.partition(';')[0]}; remove what is there, or free the space"
        raise MeasuringError(msg)


def known(root: Path, hardware_id: str) -> tuple[MeasuredRoofline, ...]:
    """Probes that were made on this hardware before; () where there are none. What cannot be true is none."""
    return tuple(one for one in _read(root).rooflines.get(hardware_id, ()) if possible(one))


def _make_folder(root: Path) -> None:
    try:
        own_folder(root)
    except OSError as error:
        msg = f"{root / FILE}: cannot be written ({error.strerror}); free the space or the folder's rights"
        raise MeasuringError(msg) from None


def _read(root: Path) -> RooflineFile:
    try:
        kept = wire.loads(RooflineFile, _content(root / FILE))
    except (OSError, wire.WireError):
        # Lost or of another version: it is measured again when somebody asks.
        return RooflineFile(format=FORMAT)
    return kept if kept.format == FORMAT else RooflineFile(format=FORMAT)


def _content(path: Path) -> bytes:
    """The beginning of a regular file. Whoever wrote the checkout may have put a pipe or a device there."""
    # Without O_NONBLOCK a pipe would be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return file.read(_MOST_BYTES)
