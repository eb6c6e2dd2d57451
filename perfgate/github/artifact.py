"""Floor 3, github. The measuring job's ``measurements.json`` in, as hostile input; ``Measurements`` out.

The file was written by a job that ran the pull request's code: every byte of it is a claim. Reading is bounded
(regular file, size, strict schema, finite numbers, ranges), nothing is unpacked or executed, and what says which
commit and pull request it belongs to is compared with the event, which GitHub wrote.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from perfgate import wire
from perfgate.errors import MeasuringError
from perfgate.github.events import Event
from perfgate.records.evidence import FORMAT, Block, Measurements, SideSamples

MAX_BYTES = 20 * 2**20
MAX_WORKLOADS = 10_000
MAX_NS = 10**15  # eleven days: longer than any job may run
MAX_ITEMS = 2**31  # of one call, and calls of one sample
_AGAIN = "re-run the measuring job"


def load_measurements(path: Path) -> Measurements:
    """The measurements in ``path``, at most 20 MiB, a regular file and no symbolic link.

    Raises MeasuringError naming the file and the place in it: a result that cannot be read is "not judged",
    never a pass.
    """
    content = _read_regular(path)
    try:
        measurements = wire.loads(Measurements, content)
    except wire.WireError as error:
        msg = f"{path}: {error}; {_AGAIN} with the same version of perfgate"
        raise MeasuringError(msg) from None
    if measurements.format != FORMAT:
        msg = f"{path}: format: {measurements.format} is not {FORMAT}; measure and publish with the same perfgate"
        raise MeasuringError(msg)
    if len(measurements.workloads) > MAX_WORKLOADS:
        msg = f"{path}: workloads: more than {MAX_WORKLOADS}; split the models over several configurations"
        raise MeasuringError(msg)
    for where, block in _blocks(measurements):
        if not all(0 < sample <= MAX_NS for sample in block.samples_ns):
            msg = f"{path}: {where}.samples_ns: a time is not within 1 ns and {MAX_NS} ns; {_AGAIN}"
            raise MeasuringError(msg)
    for where, samples in _sides(measurements):
        for name in ("items", "inner"):
            if not 1 <= getattr(samples, name) <= MAX_ITEMS:
                msg = f"{path}: {where}.{name}: not within 1 and {MAX_ITEMS}; {_AGAIN}"
                raise MeasuringError(msg)
    return measurements


def cross_check(measurements: Measurements, event: Event, *, base: str | None = None) -> None:
    """Make sure that the measurements belong to this event; returns nothing.

    ``base``: the commit that the publishing side itself found to be the base to compare with (for a pull request
    the merge base, from the API); None leaves the base unchecked. Raises MeasuringError naming the field that differs.
    """
    if event.head is None or measurements.head.sha != event.head:
        _refuse("head.sha", measurements.head.sha, event.head)
    if base is not None and measurements.base.sha != base:
        _refuse("base.sha", measurements.base.sha, base)
    ci = measurements.run.ci
    if ci is None:
        return
    expected = event.ci
    for field in ("repository", "run_id", "event"):
        if getattr(ci, field) != getattr(expected, field):
            _refuse(f"run.ci.{field}", getattr(ci, field), getattr(expected, field))
    if ci.pull_request != event.pull_request:
        _refuse("run.ci.pull_request", ci.pull_request, event.pull_request)
    # "Re-run failed jobs" publishes attempt 2 from what attempt 1 measured; the reverse cannot be.
    if ci.attempt > expected.attempt:
        _refuse("run.ci.attempt", ci.attempt, f"at most {expected.attempt}")


def _refuse(field: str, found: object, expected: object) -> None:
    shown = repr(found)[:60]
    msg = f"measurements.json: {field}: {shown} is not this event's ({expected}); nothing is judged, {_AGAIN}"
    raise MeasuringError(msg)


def _read_regular(path: Path) -> bytes:
    # O_NONBLOCK: opening a pipe that somebody put there must not hang.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        msg = f"{path}: not there; the measuring job ended without measurements, read its log and re-run it"
        raise MeasuringError(msg) from None
    except OSError as error:
        msg = f"{path}: cannot be read as a regular file ({error.strerror}); {_AGAIN}"
        raise MeasuringError(msg) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        msg = f"{path}: not a regular file; {_AGAIN}"
        raise MeasuringError(msg)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        msg = f"{path}: larger than {MAX_BYTES // 2**20} MiB; measure fewer workloads in one run"
        raise MeasuringError(msg)
    return content


def _sides(measurements: Measurements) -> Iterator[tuple[str, SideSamples]]:
    for number, workload in enumerate(measurements.workloads):
        for pair in workload.pairs:
            for side, samples in (("base", pair.base), ("head", pair.head)):
                yield f"workloads[{number}].pairs[{pair.index}].{side}", samples


def _blocks(measurements: Measurements) -> Iterator[tuple[str, Block]]:
    for where, samples in _sides(measurements):
        for index, block in enumerate(samples.blocks):
            yield f"{where}.blocks[{index}]", block
