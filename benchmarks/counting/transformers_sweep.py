"""Architectures of Hugging Face transformers with small random configurations, and a Llama of 70 billion parameters.

Each is counted in a child process of its own, or the reason is told. Parameters are compared with those of a model that
another process builds, F with torch's FlopCounterMode on that model with eager attention and real tensors.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.counting import ours
from benchmarks.counting.apart import Outcome, apart, one_line
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.counting.zoo.transformers_configs import ARCHITECTURES, LLAMA_70B, LLAMA_TOKENS, Architecture
from benchmarks.tables import print_table

QUICK = ("bert", "llama", "swin")
TIMEOUT_S = 120.0
GIB = 2**30
LLAMA_LIMIT_BYTES = 3 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The model that transformers builds itself: parameters (tied once), and FLOP by torch's counter."""

    params: int
    flop: int | None
    why_no_flop: str = ""


def build_own(name: str) -> Own:
    """Eager attention, so that torch's counter sees plain matrix products."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from benchmarks.counting.zoo import tensors, transformers_models

    model = transformers_models.create(name)
    params = sum(p.numel() for p in model.parameters())
    try:
        plain = transformers_models.create(name, attn_implementation="eager").eval()
    except Exception:  # noqa: BLE001 - an architecture without a choice of attention
        plain = model.eval()
    positional, keywords = tensors.arguments(ARCHITECTURES[name].inputs)
    torch.set_num_threads(1)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            plain(*positional, **keywords)
    except Exception as error:  # noqa: BLE001 - the other counter's fault; its parameters stand
        return Own(params=params, flop=None, why_no_flop=one_line(error))
    return Own(params=params, flop=int(counter.get_total_flops()))


def wanted(name: str, architecture: Architecture) -> Wanted:
    """The architecture as ``zoo.transformers_models`` builds it."""
    return Wanted(name=name, entry=f"transformers_models:{name}", inputs=architecture.inputs)


def row(name: str, count: Count, own: Outcome) -> tuple[str, ...]:
    """One architecture: what was counted, and whether others agree."""
    if count.graph is None:
        return (name, "failed", "", "", "", "", "", f"{count.seconds:.1f}")
    totals = count.graph.totals
    params, flop = "-", "-"
    if not own.reason:
        params = "equal" if own.value.params == totals.params else f"own {own.value.params}"
        flop = "equal" if own.value.flop == totals.flop else str(own.value.flop or "-")
    return (
        name,
        totals.source,
        str(totals.params),
        params,
        str(totals.flop),
        flop,
        str(totals.kernels),
        f"{count.seconds:.1f}",
    )


def small(names: Sequence[str]) -> int:
    """The table of small configurations; exit status 1 where parameters differ."""
    # Imported before anything is forked: thousands of files, once.
    importlib.import_module("benchmarks.counting.zoo.transformers_models")
    owns = {name: apart(build_own, name, timeout_s=TIMEOUT_S) for name in names}
    models = [wanted(name, ARCHITECTURES[name]) for name in names]
    found = list(ours.counts(models, timeout_s=TIMEOUT_S))
    header = ("architecture", "traced on", "params", "own params", "F (FLOP)", "FlopCounterMode, eager", "kernels", "s")
    print_table(header, [row(count.name, count, owns[count.name]) for count in found])
    print()
    for count in found:
        if count.graph is None:
            print(f"* {count.name}: {count.reason}")
        elif count.graph.totals.not_counted:
            open_ops = ", ".join(item.op for item in count.graph.totals.not_counted)
            print(f"* {count.name}: not counted: {open_ops}")
    for name, own in owns.items():
        if own.reason:
            print(f"* {name}: no reference: {own.reason}")
        elif own.value.why_no_flop:
            print(f"* {name}: FlopCounterMode: {own.value.why_no_flop}")
    counted = [count for count in found if count.graph is not None]
    wrong = [
        count.name
        for count in counted
        if count.graph is not None
        and not owns[count.name].reason
        and owns[count.name].value.params != count.graph.totals.params
    ]
    print(f"\n{len(counted)} of {len(found)} architectures counted; parameters differ: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def llama_params() -> int:
    """Parameters of :data:`LLAMA_70B` by hand: embedding and head, attention, gated feed-forward, RMS norms."""
    size = LLAMA_70B.config
    hidden, layers, inner = size["hidden_size"], size["num_hidden_layers"], size["intermediate_size"]
    narrow = hidden // size["num_attention_heads"] * size["num_key_value_heads"]
    layer = 2 * hidden * hidden + 2 * hidden * narrow + 3 * hidden * inner + 2 * hidden
    return int(2 * size["vocab_size"] * hidden + layers * layer + hidden)


def llama_flop(tokens: int) -> int:
    """F by hand: a MAC for each weight of a matrix and token; QK^T and PV in full, whatever the mask."""
    size = LLAMA_70B.config
    hidden, layers, vocabulary = size["hidden_size"], size["num_hidden_layers"], size["vocab_size"]
    vectors = (2 * layers + 1) * hidden + vocabulary * hidden
    matrices = tokens * (llama_params() - vectors)
    attention = layers * 2 * tokens * tokens * hidden
    return int(2 * (matrices + attention))


def llama() -> int:
    """The large model on tensors without contents; exit status 1 where a figure or the memory is wrong."""
    found = ours.count(wanted("llama_70b", LLAMA_70B), timeout_s=600)
    if found.graph is None:
        print(f"Llama 70B: {found.reason}")
        return 1
    totals, peak = found.graph.totals, found.peak_rss_bytes or 0
    params, flop = llama_params(), llama_flop(LLAMA_TOKENS)
    rows = [
        ("parameters", f"{totals.params}", f"{params}", "equal" if totals.params == params else "DIFFERS"),
        (f"F of {LLAMA_TOKENS} tokens (FLOP)", f"{totals.flop}", f"{flop}",
         "equal" if totals.flop == flop else "DIFFERS"),
        ("operators", f"{totals.kernels}", "", ""),
        ("M min (GB)", f"{totals.traffic.min / 1e9:.1f}", "", ""),
        ("traced on", totals.source, "meta", "equal" if totals.source == "meta" else "DIFFERS"),
        ("peak resident set (GiB)", f"{peak / GIB:.2f}", "under 3",
         "holds" if 0 < peak < LLAMA_LIMIT_BYTES else "DIFFERS"),
        ("seconds", f"{found.seconds:.1f}", "", ""),
    ]  # fmt: skip
    print_table(("Llama of 70 B parameters, float32", "counted", "by hand", ""), rows)
    return 1 if any(line[-1] == "DIFFERS" for line in rows) else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three small architectures, and the large one")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", choices=[*ARCHITECTURES, "llama_70b"])
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "transformers")
    if lacking:
        print(how_to_get(lacking, "transformers sweep"))
        return 0
    # Configurations are enough: nothing is looked up, and nothing is said about token numbers of other vocabularies.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    print(f"transformers {version('transformers')}, torch {version('torch')}\n")
    names = [name for name in arguments.only if name != "llama_70b"] or list(
        QUICK if arguments.quick else ARCHITECTURES
    )
    code = 0
    if arguments.only != ["llama_70b"]:
        code = small(names)
        print()
    if not arguments.only or "llama_70b" in arguments.only:
        code = max(code, llama())
    return code


if __name__ == "__main__":
    raise SystemExit(main())
