"""The constants of the calibrated roofline, fitted on public measurements, and how far off it is where it was not.

``python -m benchmarks.cost.calibration``: prints constants, spreads and checks; ``--write`` puts the constants into
``perfgate/roofline/calibration.toml``. Needs the public data and, for whole models, their features.

* ``nvidia-consumer``, ``nvidia-consumer-large-cache`` and ``cpu``: whole models of half of timm's families; checked on
  the other half, and (GPUs) with constants that never saw the device.
* ``nvidia-datacentre`` and ``nvidia-low-power``: NeuSight's operators, one at a time; checked on NeuSight's whole
  models, none of which is in any fit, also with the device's operators left out: of the fit, and of the rates that
  the catalogue has as measured.
* ``amd-gpu``: nothing is fitted; NeuSight's whole models on its devices are a check of published figures.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cost import calibration_file, classes, observations, public
from benchmarks.cost.classes import AMD, CONSUMER, DATACENTRE, LARGE_CACHE, LOW_POWER, PROCESSOR, Plan
from benchmarks.cost.fitting import Fitted, Floats, Model, Spread, changed, fit, spread, value
from benchmarks.cost.observations import Observed
from benchmarks.cost.probes import probed
from benchmarks.tables import print_table
from perfgate.records.hardware import MeasuredRoofline
from perfgate.roofline import calibration as constants
from perfgate.roofline.calibration import Calibration

# What was checked is a few models in float32 on some devices of a class: others of it, and matrix units' dtypes, may
# be further off. Of AMD's devices nothing was fitted at all.
_LEAST_SIGMA = {CONSUMER: 0.1, LARGE_CACHE: 0.1, PROCESSOR: 0.2, DATACENTRE: 0.15, LOW_POWER: 0.15, AMD: 0.2}


def plans(data: Path) -> dict[str, Plan]:
    """Fits of all classes. Those of operators start where that of consumer cards ended."""
    rows = observations.timm(data)
    found = {name: classes.whole_models(name, rows) for name in classes.WHOLE_MODELS}
    consumer = _fit(found[CONSUMER]).calibration
    operators = classes.operators(data)
    return found | {name: classes.single_operators(name, operators, consumer) for name in (DATACENTRE, LOW_POWER)}


def held_out(found: Mapping[str, Plan]) -> dict[str, Calibration]:
    """For each device constants that were fitted without it: of its class, or of the nearest where it is alone in it.

    The one CPU has neither; there it is families that are held out, not the device.
    """
    result: dict[str, Calibration] = {}
    for name, plan in found.items():
        for platform in classes.PLATFORMS[name]:
            left = classes.without(plan, platform)
            instead = left if left.fit else found[classes.NEAREST.get(platform, name)]
            result[platform] = _fit(instead).calibration
    return result


def _fit(plan: Plan) -> Fitted:
    return fit(plan.fit, classes.started(plan, _shipped(plan.name)), plan.varied, overheads=plan.overheads)


def _shipped(name: str) -> Calibration:
    return next(one for one in constants.shipped() if one.name == name)


def _check(
    rows: Sequence[Observed],
    of: Mapping[str, Calibration],
    probes: Mapping[str, MeasuredRoofline] | None = None,
    *,
    published: bool = False,
) -> dict[str, Floats]:
    """Residuals of whole models by platform; with ``probes`` only on the platforms that have one.

    ``published``: by peaks alone, as of a device that nobody measured.
    """
    return {
        platform: Model(mine, probes, published=published).residuals(of[platform])
        for platform, mine in observations.by_platform(rows)
        if platform in of and (probes is None or platform in probes)
    }


def run(data: Path, *, write: bool) -> int:
    """Everything, printed; see the module."""
    found = plans(data)
    results = {name: _fit(plan) for name, plan in found.items()}
    _print_constants(found, results)
    labels = observations.labels(data)
    by_amd = dict.fromkeys(classes.PLATFORMS_OF_AMD, _shipped(AMD))
    seen = {p: results[name].calibration for name, members in classes.PLATFORMS.items() for p in members} | by_amd
    apart = held_out(found) | by_amd
    families = [one for name in classes.WHOLE_MODELS for one in found[name].check]
    probes = probed([one for name in (DATACENTRE, LOW_POWER) for one in found[name].fit])
    checks = {
        "families out": _check(families, seen),
        "families and device out": _check(families, apart, published=True),
        "models out": _check(labels, seen),
        "models and device out": _check(labels, apart, published=True),
        "models out, device probed": _check(labels, seen, probes),
    }
    _print_checks(results, checks)
    sigmas = {name: _sigmas(name, checks) for name in (*found, AMD)}
    texts = [f"{name} {own:.2f} (probed {probe:.2f})" for name, (own, probe) in sigmas.items()]
    print(f"\nsigma as written: {', '.join(texts)}")
    if write:
        today = dt.datetime.now(dt.UTC).date()
        made = {name: (_with(results[name].calibration, sigmas[name]), found[name]) for name in found}
        calibration_file.write(made, _with(_shipped(AMD), sigmas[AMD]), today)
    return 0


def _with(calibration: Calibration, sigmas: tuple[float, float]) -> Calibration:
    return changed(calibration, {"sigma": sigmas[0], "sigma_measured": sigmas[1]})


def _sigmas(name: str, checks: Mapping[str, Mapping[str, Floats]]) -> tuple[float, float]:
    """Spread of whole models on devices that were in no fit, and where the device was probed; not below the least.

    A probe cannot make it worse, and where nothing was checked with one it is what it is without.
    """
    whole = "families and device out" if name in classes.WHOLE_MODELS else "models and device out"
    members = classes.PLATFORMS_OF_AMD if name == AMD else classes.PLATFORMS[name]
    least = _LEAST_SIGMA[name]
    own = max(least, _pooled(checks[whole], members))
    probe = _pooled(checks["models out, device probed"], members)
    return round(own, 2), round(min(own, max(probe, least)) if probe else own, 2)


def _pooled(residuals: Mapping[str, Floats], members: Sequence[str]) -> float:
    found = [residuals[platform] for platform in members if platform in residuals]
    return spread(np.concatenate(found)).sigma if found else 0.0


def _print_constants(found: Mapping[str, Plan], results: Mapping[str, Fitted]) -> None:
    keys = list(dict.fromkeys(each.key for plan in found.values() for each in plan.varied))
    rows = [
        (
            key,
            *(
                f"{value(results[name].calibration, key):.3g}" + ("" if _varies(found[name], key) else " (given)")
                for name in results
            ),
        )
        for key in keys
    ]
    print_table(("constant", *results), [("observations", *(str(one.n) for one in results.values())), *rows])


def _varies(plan: Plan, key: str) -> bool:
    return any(each.key == key for each in plan.varied)


def _print_checks(results: Mapping[str, Fitted], checks: Mapping[str, Mapping[str, Floats]]) -> None:
    rows = [(f"fit: {name}", *_cells(spread(one.residuals))) for name, one in results.items()]
    rows += [
        (f"{what}: {platform}", *_cells(spread(residuals)))
        for what, by_platform in checks.items()
        for platform, residuals in by_platform.items()
    ]
    print()
    print_table(("residuals", "n", "bias", "MdAPE", "MAPE", "<= 20 %", "sigma"), rows)


def _cells(found: Spread) -> tuple[str, ...]:
    return (
        str(found.n),
        f"{found.bias:+.1%}",
        f"{found.median:.1%}",
        f"{found.mean:.1%}",
        f"{found.within_20:.0%}",
        f"{found.sigma:.2f}",
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--write", action="store_true", help="write the constants into perfgate/roofline/")
    arguments = parser.parse_args(argv)
    data = public.folder(arguments.data)
    if data is None:
        print(public.how_to_get("calibration"))
        return 0
    if not observations.timm(data):
        print("calibration: no features; run python -m benchmarks.cost.features first")
        return 0
    return run(data, write=arguments.write)


if __name__ == "__main__":
    raise SystemExit(main())
