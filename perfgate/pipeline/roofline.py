"""Pi and beta of this runner: probed once by ``perfgate doctor --roofline``, kept beside the database for gates."""

from __future__ import annotations

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

FORMAT = 1
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
    try:
        own_folder(root)
        problem = write_file(root / FILE, wire.dumps(file, indent=1) + "\n")
    except OSError as error:
        problem = f"{root / FILE}: cannot be written ({error.strerror}); free the space or the folder's rights"
    if problem:
        raise MeasuringError(problem)


def known(root: Path, hardware_id: str) -> tuple[MeasuredRoofline, ...]:
    """Probes that were made on this hardware before; () where there are none."""
    return _read(root).rooflines.get(hardware_id, ())


def _read(root: Path) -> RooflineFile:
    try:
        kept = wire.loads(RooflineFile, (root / FILE).read_bytes())
    except (OSError, wire.WireError):
        # Lost or of another version: it is measured again when somebody asks.
        return RooflineFile(format=FORMAT)
    return kept if kept.format == FORMAT else RooflineFile(format=FORMAT)
