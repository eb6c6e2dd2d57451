"""The whole gate: measure, record, judge, write. Report first, fail last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from perfgate import wire
from perfgate.errors import MeasuringError, PerfgateError, StoreError, UsageError
from perfgate.gate.judge import judge
from perfgate.pipeline.cost import costs, runner_price
from perfgate.pipeline.measure import measure, start
from perfgate.pipeline.request import MeasureRequest, Ports
from perfgate.pipeline.working_tree import default_store
from perfgate.records.cost import Prices
from perfgate.records.evidence import FORMAT, Measurements, RunError
from perfgate.records.policy import Acceptance, Policy
from perfgate.records.report import Report
from perfgate.report.write import Links, write, write_file
from perfgate.store.from_evidence import records_of
from perfgate.store.open import open_store

MEASUREMENTS_FILE = "measurements.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run ends with; ``directory`` holds the outputs, as far as ``problem`` did not keep them from it."""

    report: Report
    measurements: Measurements
    directory: Path
    problem: PerfgateError | None = None

    @property
    def exit_code(self) -> int:
        """The verdict's, unless an output is missing: that is never a verdict."""
        return self.report.exit_code if self.problem is None else self.problem.exit_code


def run(
    request: MeasureRequest, ports: Ports, *, out: Path, store_url: str = "", template: str | None = None
) -> Result:
    """Measure, record, judge and write all outputs into ``out``.

    ``store_url`` empty: the configuration's database, else ``.perfgate/baselines.sqlite``. An expected fault is in the
    report (verdict ``error``) with its exit code; an output that cannot be written is ``Result.problem``, and the
    verdict is there all the same. ``template`` is the text of a user's comment template.
    """
    draft = start(request)

    def check_store(configured: str) -> None:
        open_store(store_url or configured or default_store(draft.root or request.root)).close()

    measurements = measure(draft, request, replace(ports, check_store=check_store))
    problem = None
    try:
        save(measurements, out)
    except PerfgateError as error:
        problem = error
    root = draft.root or request.root
    measurements = record(measurements, store_url or draft.store_url, root=root)
    measurements = estimate(measurements, store_url or draft.store_url, root=root)
    if measurements.estimator is not None and problem is None:
        save(measurements, out)
    result = derive(measurements, measurements.policy, out=out, template=template)
    return replace(result, problem=problem or result.problem)


def save(measurements: Measurements, out: Path) -> Path:
    """Write measurements.json; it exists before anything is decided. Raises PerfgateError."""
    path = out / MEASUREMENTS_FILE
    if problem := write_file(path, wire.dumps(measurements, indent=1) + "\n"):
        raise PerfgateError(problem)
    return path


def load(path: Path) -> Measurements:
    """A measurements.json of one's own. Raises UsageError (no such file) and MeasuringError (not such a file)."""
    try:
        text = path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); name a measurements.json or the folder that holds it"
        raise UsageError(msg) from None
    try:
        measurements = wire.loads(Measurements, text)
    except wire.WireError as error:
        msg = f"{path}: {error}; write it again with this version of perfgate"
        raise MeasuringError(msg) from None
    if measurements.format != FORMAT:
        msg = f"{path}: format {measurements.format} is not {FORMAT}; use the version of perfgate that wrote it"
        raise MeasuringError(msg)
    return measurements


def record(
    measurements: Measurements, store_url: str, *, root: Path, default_branch: str = "", private: Prices | None = None
) -> Measurements:
    """Write both sides into the database before the verdict; a fault there makes the run "not judged".

    With each result stands what the runner cost that day, as far as that is known.
    """
    records = records_of(measurements, default_branch=default_branch)
    if not records or measurements.error is not None:
        return measurements
    price = runner_price(measurements, measurements.policy, private)
    if price is not None:
        usd, date = price
        records = tuple(replace(one, price_usd_per_hour=usd, price_date=date) for one in records)
    try:
        with open_store(store_url or default_store(root)) as store:
            store.record(records)
    except StoreError as error:
        return replace(measurements, error=RunError(exit_code=error.exit_code, message=str(error)))
    return measurements


def estimate(measurements: Measurements, store_url: str, *, root: Path) -> Measurements:
    """``measurements`` with what the estimator, fitted again on the database, says of them; shown and never judged."""
    if measurements.error is not None or not measurements.workloads:
        return measurements
    # scikit-learn takes seconds and memory to import, which a run should not have while it measures.
    from perfgate.pipeline.estimator_report import estimated

    try:
        with open_store(store_url or default_store(root)) as store:
            return estimated(measurements, store, root)
    except StoreError as error:
        note = f"The estimator could not read the database: {error}"
        return replace(measurements, notes=(*measurements.notes, note))


def derive(
    measurements: Measurements,
    policy: Policy,
    *,
    out: Path,
    accepted: tuple[Acceptance, ...] = (),
    links: Links | None = None,
    template: str | None = None,
    private: Prices | None = None,
) -> Result:
    """Judge and render: everything below comes from ``measurements`` and ``policy`` by pure code.

    ``private``: prices that no measuring job may see.
    """
    cost = costs(measurements, policy, private)
    report = judge(measurements, policy, (*measurements.accepted, *accepted), cost)
    problem = None
    try:
        write(report, measurements, out, links=links or Links(), user_template=template)
    except PerfgateError as error:
        problem = error
    return Result(report=report, measurements=measurements, directory=out, problem=problem)
