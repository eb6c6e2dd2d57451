"""One other counter on one case, in a process of its own: ``python -m benchmarks.counting.counters COUNTER CASE``.

Prints one JSON object: ``mac`` (halved where the tool says FLOP = 2 x MAC), ``params`` where the tool tells them,
``keys`` (names that it added to the state_dict), or ``error``. With ``--after N`` the same is counted after N models
that raised.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.counting.apart import one_line

# What a counter tells of a model: MAC, and parameters or None.
Told = tuple[float, float | None]


def flop_counter(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """torch.utils.flop_counter.FlopCounterMode; counts 2 x MAC."""
    import torch

    mode = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with mode, contextlib.nullcontext() if train else torch.no_grad():
        out = model(*inputs)
        if train:
            out.square().mean().backward()
    return mode.get_total_flops() / 2, None


def fvcore(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """fvcore.nn.FlopCountAnalysis; its flop is a MAC."""
    _only_forward(train=train)
    module = importlib.import_module("fvcore.nn")
    analysis = module.FlopCountAnalysis(model, inputs)
    analysis.unsupported_ops_warnings(enabled=False)
    return analysis.total(), module.parameter_count(model)[""]


def thop(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """thop.profile; MAC."""
    _only_forward(train=train)
    macs, params = importlib.import_module("thop").profile(model, inputs=inputs, verbose=False)
    return macs, params


def ptflops(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """ptflops with its aten backend; MAC."""
    _only_forward(train=train)
    (x,) = inputs
    macs, params = importlib.import_module("ptflops").get_model_complexity_info(
        model,
        tuple(x.shape[1:]) or (1,),
        as_strings=False,
        print_per_layer_stat=False,
        backend="aten",
        input_constructor=lambda _: x,
    )
    if macs is None:
        msg = "ptflops gave no figure"
        raise RuntimeError(msg)
    return macs, params


def calflops(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """calflops.calculate_flops; its MACs."""
    _only_forward(train=train)
    _, macs, params = importlib.import_module("calflops").calculate_flops(
        model=model, args=list(inputs), output_as_string=False, print_results=False, print_detailed=False
    )
    return macs, params


def torchinfo(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """torchinfo.summary; mult-adds."""
    _only_forward(train=train)
    found = importlib.import_module("torchinfo").summary(model, input_data=list(inputs), verbose=0)
    return found.total_mult_adds, found.total_params


def perfgate(model: Any, inputs: tuple[Any, ...], *, train: bool) -> Told:
    """perfgate's tracer and counter in this process, to see what they leave behind."""
    trace = importlib.import_module("perfgate.worker.tracing").trace_callable(model, inputs, {}, train=train)
    totals = importlib.import_module("perfgate.graph.build").build(trace, {}).totals
    return totals.flop / 2, totals.params


COUNTERS: dict[str, Callable[..., Told]] = {
    "FlopCounterMode": flop_counter,
    "fvcore": fvcore,
    "thop": thop,
    "ptflops": ptflops,
    "calflops": calflops,
    "torchinfo": torchinfo,
    "perfgate": perfgate,
}


class OnlyForwardError(Exception):
    """The tool has no notion of a backward pass."""


def _only_forward(*, train: bool) -> None:
    if train:
        msg = "forward only"
        raise OnlyForwardError(msg)


def told(counter: str, case_name: str, after: int) -> dict[str, Any]:
    """What ``counter`` says of the case, after ``after`` models that raised."""
    cases = importlib.import_module("benchmarks.counting.zoo.cases")
    tensors = importlib.import_module("benchmarks.counting.zoo.tensors")
    case = cases.CASES[case_name]
    count = COUNTERS[counter]
    for _ in range(after):
        with contextlib.suppress(Exception):
            count(cases.Raises().eval(), tuple(tensors.tree(case.inputs)), train=False)
    model = case.build()
    model.train(case.train)
    before = list(model.state_dict())
    try:
        mac, params = count(model, tuple(tensors.tree(case.inputs)), train=case.train)
    except OnlyForwardError:
        return {"error": "forward only"}
    except Exception as error:  # noqa: BLE001 - a crash is this counter's answer
        return {"error": one_line(error)}
    added = len(set(model.state_dict()) - set(before))
    return {"mac": float(mac), "params": None if params is None else float(params), "keys": added}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counter", choices=sorted(COUNTERS))
    parser.add_argument("case")
    parser.add_argument("--after", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        answer = told(arguments.counter, arguments.case, arguments.after)
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
