"""F, M and I of one model: what ``perfgate count`` does. Nothing is timed and nothing is recorded."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.bench.session import HEAD
from perfgate.config import inputs as specifications
from perfgate.config.load import Config
from perfgate.errors import MeasuringError, UsageError
from perfgate.graph.build import build
from perfgate.graph.onnx import isolated
from perfgate.pipeline.request import CONFIG_FILE, Ports
from perfgate.pipeline.working_tree import configuration, opened
from perfgate.records.graph import Graph, Trace
from perfgate.records.protocol import Failed
from perfgate.records.workload import ModelSpec, SideConfig, Workload

_REFERENCE = re.compile(r"[\w.]+:[\w.]+")
_LEADING_ONE = re.compile(r"(\[\s*)1(\s*[,\]])")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """``entry``: ``module:callable``, the path of an ``.onnx`` file, or the name of a model in the configuration.

    ``inputs``: specifications, each perhaps as ``name=...``; empty: the configuration's. ``batch`` None: the
    configuration's first, else 1; ``mode`` and ``dtype`` empty: likewise (``infer``, ``float32``).
    ``fallback_python``: the interpreter where neither the request nor the configuration names one.
    """

    root: Path
    entry: str
    inputs: tuple[str, ...] = ()
    mode: str = ""
    batch: int | None = None
    dtype: str = ""
    python: str = ""
    fallback_python: str = ""
    config_file: str = CONFIG_FILE
    timeout_s: float = 600.0


def count(request: CountRequest, ports: Ports) -> Graph:
    """The counted graph of one step. Raises UsageError, ConfigError and MeasuringError."""
    config = configuration(request.root, request.config_file)
    spec = specification(request, config)
    return next(_graphs(request, spec, spec.workloads[:1], config, ports))


def count_grid(
    request: CountRequest, ports: Ports, *, batches: tuple[int, ...], dtypes: tuple[str, ...]
) -> tuple[tuple[Workload, Graph], ...]:
    """The counted graph of every batch size in every dtype; an empty tuple: those of the configuration.

    Raises as :func:`count` does.
    """
    config = configuration(request.root, request.config_file)
    # The largest batch size decides whether the inputs must say where it goes.
    spec = specification(replace(request, batch=max(batches) if batches else request.batch), config)
    known = _known(request, config)
    batches = batches or ((request.batch,) if request.batch else known.batch)
    dtypes = dtypes or ((request.dtype,) if request.dtype else known.dtype)
    workloads = replace(spec, batch=batches, dtype=dtypes).workloads
    return tuple(zip(workloads, _graphs(request, spec, workloads, config, ports), strict=True))


def _graphs(
    request: CountRequest, spec: ModelSpec, workloads: Sequence[Workload], config: Config | None, ports: Ports
) -> Iterator[Graph]:
    side = config.side if config is not None else SideConfig(source="command line")
    if not spec.is_onnx:
        traces = _of_modules(request, spec, workloads, side, ports)
    else:
        ports.progress.step(f"Counting {spec.name}", 0, 0, None)
        traces = (_of_file(request, spec, workload) for workload in workloads)
    for trace in traces:
        yield build(trace, side.operators)


def _of_file(request: CountRequest, spec: ModelSpec, workload: Workload) -> Trace:
    if workload.mode != "infer" or workload.dtype != "float32":
        msg = f"{spec.entry}: an ONNX file is counted as it stands, so --mode and --dtype do not apply; leave them out"
        raise UsageError(msg)
    path = Path(spec.entry)
    return isolated.trace(
        path if path.is_absolute() else request.root / path,
        spec.inputs or None,
        batch=workload.batch,
        timeout_s=spec.timeout_s,
    )


def _of_modules(
    request: CountRequest, spec: ModelSpec, workloads: Sequence[Workload], side: SideConfig, ports: Ports
) -> Iterator[Trace]:
    """Traces of the workloads, each from a process of its own."""
    python = request.python or side.python or request.fallback_python
    with opened(request.root, side, ports, python=python) as session:
        for number, workload in enumerate(workloads):
            label = f"Counting {spec.name} (batch {workload.batch}, {workload.dtype})"
            ports.progress.step(label if len(workloads) > 1 else f"Counting {spec.name}", number, len(workloads), None)
            counted = session.count(HEAD, replace(spec, batch=(workload.batch,), dtype=(workload.dtype,)), workload)
            if isinstance(counted, Failed):
                # Where the entry comes from the command line, no file holds the key.
                key = f"models.{spec.name}.entry = {request.entry!r} in perfgate.toml"
                said = counted.message.replace(key, request.entry)
                msg = f"{spec.name} could not be counted ({counted.phase}): {said}"
                raise MeasuringError(msg)
            notes = dict.fromkeys((*counted.trace.notes, *counted.notes))
            yield replace(counted.trace, notes=tuple(notes))


def specification(request: CountRequest, config: Config | None) -> ModelSpec:
    """The one workload that a request means. Raises UsageError."""
    spec = _known(request, config)
    tree = _inputs(request.inputs) if request.inputs else spec.inputs
    if request.inputs:
        _check_inputs(tree)
    if request.batch is not None and request.batch > 1 and not specifications.uses_batch(tree) and not spec.make_inputs:
        tree = _batched(tree)
    if not tree and not spec.make_inputs and not spec.is_onnx and not spec.step:
        msg = f"{request.entry}: --inputs is missing; write it as in --inputs 'float32[1,3,224,224]'"
        raise UsageError(msg)
    modes = (request.mode,) if request.mode else spec.modes
    return replace(
        spec,
        inputs=tree,
        make_inputs="" if request.inputs else spec.make_inputs,
        modes=modes[:1],
        batch=(request.batch or spec.batch[0],),
        dtype=(request.dtype or spec.dtype[0],),
        device=spec.device[:1],
        compile=("eager",),
        timeout_s=max(spec.timeout_s, request.timeout_s),
    )


def _known(request: CountRequest, config: Config | None) -> ModelSpec:
    models = config.side.models if config is not None else {}
    if request.entry in models:
        return models[request.entry]
    if request.entry.endswith(".onnx"):
        return ModelSpec(name=Path(request.entry).stem, entry=request.entry)
    if _REFERENCE.fullmatch(request.entry):
        return ModelSpec(name=request.entry.partition(":")[2], entry=request.entry)
    near = difflib.get_close_matches(request.entry, models, 1)
    known = f"did you mean {near[0]}?" if near else f"models of {request.config_file}: {', '.join(models) or 'none'}"
    msg = f"{request.entry!r} is neither 'module:callable', nor an .onnx file, nor a configured model; {known}"
    raise UsageError(msg)


def _inputs(texts: tuple[str, ...]) -> object:
    """A list, or a table where the texts are ``name=specification``."""
    named = [re.fullmatch(r"\s*([A-Za-z_][\w.:/-]*)\s*=\s*(.+)", text) for text in texts]
    if all(named):
        return {match[1]: _leaf(match[2]) for match in named if match}
    if any(named):
        msg = "--inputs: either all inputs have a name (name=float32[...]), or none has"
        raise UsageError(msg)
    return tuple(map(_leaf, texts))


def _leaf(text: str) -> object:
    """A specification, or the number or boolean that the same text is in perfgate.toml."""
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


def _check_inputs(tree: object) -> None:
    """Raise UsageError for every input that the configuration would refuse."""
    wrong = [reason for _, reason in specifications.problems(tree)]
    if wrong:
        msg = "\n".join(f"--inputs: {reason}" for reason in wrong)
        raise UsageError(msg)


def _batched(tree: object) -> object:
    """The same inputs with ``batch`` in place of a leading size of 1. Raises UsageError where there is none."""
    changed = _with_batch(tree)
    if changed == tree:
        msg = "--batch: no input has a dimension 'batch' or a leading 1; write it as in 'float32[batch,3,224,224]'"
        raise UsageError(msg)
    return changed


def _with_batch(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _with_batch(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_with_batch(item) for item in tree)
    return _LEADING_ONE.sub(r"\1batch\2", tree, count=1) if isinstance(tree, str) else tree
