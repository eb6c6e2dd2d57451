"""Which constants of which class of machines are fitted, on what, and from where they start.

In: the public data. Out: for each class its observations for fitting and for checking, and the constants that vary.
They are few, positive and within physical bounds: no kernel moves more than the device's bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.cost import observations
from benchmarks.cost.fitting import Varied, changed, value
from benchmarks.cost.observations import Observed
from perfgate.roofline.calibration import Calibration

CONSUMER = "nvidia-consumer"
# GeForce cards since Ada: a last-level cache twelve times as large keeps operands that others read again and again.
LARGE_CACHE = "nvidia-consumer-large-cache"
DATACENTRE = "nvidia-datacentre"
LOW_POWER = "nvidia-low-power"
AMD = "amd-gpu"
PROCESSOR = "cpu"

PLATFORMS = {
    CONSUMER: ("rtx-3090",),
    LARGE_CACHE: ("rtx-4090",),
    DATACENTRE: ("p100-pcie-16gb", "v100-pcie-32gb", "a100-pcie-40gb", "a100-pcie-80gb"),
    LOW_POWER: ("p4", "t4", "l4"),
    PROCESSOR: ("core-i9-10940x",),
}
# Whose constants a device has that is left out of the fit of its own class.
NEAREST = {"rtx-3090": LARGE_CACHE, "rtx-4090": CONSUMER}
WHOLE_MODELS = (CONSUMER, LARGE_CACHE, PROCESSOR)
# Of these nothing is fitted.
PLATFORMS_OF_AMD = ("mi100", "mi210", "mi250-gcd")
# Shorter ones say more of starting a timer than of a device.
_LEAST_S = 1e-4
# Rows of each operator and device.
_TRAIN_ROWS, _TEST_ROWS = 300, 150
# Kinds of kernels whose share of bandwidth is a constant of its own; the others move like element-wise ones.
_MOVING = ("matmul", "convolution", "attention", "normalization", "softmax", "pooling", "reduction", "copy", "cast")
_SPILLED = ("gather", "embedding", "scatter")


# Where fits begin, whatever is shipped, so that the same data give the same constants: large products and streams near
# what vendors' own libraries show, other kinds a little below. A pull of 1 to 3 lets any of it move by a third freely.
_START = {
    "overlap": 2.0,
    "reach_flop.default": 0.8,
    "reach_bandwidth": 0.85,
    "launch_ns": 5e3,
    "flop_efficiency.convolution": 0.8,
    "flop_efficiency.attention": 0.8,
    "byte_efficiency.matmul": 0.65,
    "byte_efficiency.convolution": 0.6,
    "byte_efficiency.attention": 0.7,
    "byte_efficiency.normalization": 0.8,
    "byte_efficiency.softmax": 0.85,
    "byte_efficiency.pooling": 0.8,
    "byte_efficiency.reduction": 0.9,
    "byte_efficiency.copy": 0.9,
    "byte_efficiency.cast": 1.0,
    "byte_efficiency.pointwise": 1.0,
    "byte_efficiency.gather": 1.0,
    "byte_efficiency.embedding": 1.0,
    "byte_efficiency.scatter": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fit of one class. ``overheads``: operators were timed one at a time (see ``fitting.fit``)."""

    name: str
    fit: Sequence[Observed]
    check: Sequence[Observed]
    varied: Sequence[Varied]
    data: str
    overheads: bool = False
    start: dict[str, float] = field(default_factory=dict)


def whole_models(name: str, rows: Sequence[Observed]) -> Plan:
    """Fitted on whole models of half of timm's families, checked on those of the other half."""
    mine = [one for one in rows if one.platform in PLATFORMS[name]]
    fit, check = observations.halves(mine)
    gpu = name != PROCESSOR
    keys = ["reach_flop.default", "reach_bandwidth", "flop_efficiency.convolution", "flop_efficiency.attention"]
    keys += [f"byte_efficiency.{kind}" for kind in _MOVING]
    varied = [Varied(key=key, pull=3.0, high=_highest(key)) for key in keys]
    varied.append(Varied(key="launch_ns", pull=3.0, low=500.0, high=2e5))
    # A CPU's operators cost more to start, and the clock falls with wide vectors.
    start = {} if gpu else {"reach_flop.default": 0.6, "reach_bandwidth": 0.7, "launch_ns": 2e4}
    what = "float16 autocast, eager, batch 1 to 1024" if gpu else "float32, torch.compile, batch 1"
    data = f"timm's tables of torch 2.4, {what}: {', '.join(PLATFORMS[name])}; half of the families"
    return Plan(name=name, fit=fit, check=check, varied=varied, data=data, start=start)


def single_operators(name: str, operators: Sequence[Observed], consumer: Calibration) -> Plan:
    """Fitted on operators of the class's devices; what operators do not show is as on consumer cards."""
    fit = [one for one in operators if one.platform in PLATFORMS[name] and one.seconds > _LEAST_S]
    keys = ["reach_flop.default", "reach_bandwidth"]
    keys += [f"byte_efficiency.{kind}" for kind in ("matmul", "normalization", "softmax")]
    varied = [Varied(key=key, pull=2.0, high=_highest(key)) for key in keys]
    alike = ["flop_efficiency.convolution", "flop_efficiency.attention", "launch_ns"]
    moving = ("convolution", "attention", "pooling", "reduction", "copy", "cast", *_SPILLED)
    alike += [f"byte_efficiency.{kind}" for kind in moving]
    data = f"NeuSight's operators in float32: {', '.join(PLATFORMS[name])}; what they do not show as in {CONSUMER}"
    return Plan(
        name=name,
        fit=fit,
        check=[],
        varied=varied,
        data=data,
        overheads=True,
        start={key: value(consumer, key) for key in alike},
    )


def operators(data: Path) -> list[Observed]:
    """NeuSight's operators but convolutions, which were measured without the TF32 that torch takes for them."""
    return [
        *observations.operators(data, "ops_train", most=_TRAIN_ROWS),
        *observations.operators(data, "ops_test", most=_TEST_ROWS),
    ]


def without(plan: Plan, platform: str) -> Plan:
    """The same fit with a device left out: what is then known of it is its class."""
    return replace(
        plan,
        fit=[one for one in plan.fit if one.platform != platform],
        check=[one for one in plan.check if one.platform == platform],
    )


def started(plan: Plan, shipped: Calibration) -> Calibration:
    """Where the fit begins; what no fit varies (recurrent layers and alike) is as shipped."""
    return changed(shipped, {**_START, **plan.start})


def _highest(key: str) -> float:
    return 0.95 if key == "reach_bandwidth" else 1.0
