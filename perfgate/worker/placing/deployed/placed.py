"""Floor 3, worker. Runs a model in pieces, each in its own library: the entry of a deployed folder. No perfgate.

``load(folder) -> callable`` with the model's own arguments and results; its ``stream`` answers many requests, each
device at work on another one. ``python placed.py --check`` runs the stored inputs, compares with the stored reference
and prints the time of a call.

In: ``plan.json`` (the pieces in order), ``interface.json`` (arguments, results, loaders), ``pieces/``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

_CALLS = 10


class PlacedError(RuntimeError):
    """The folder or the arguments do not fit; the message says what to do."""


class Placed:
    """The pieces in order. Tensors stay where a piece left them until another one asks for them elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = _json(folder / "plan.json")
        self.interface = _json(folder / "interface.json")
        package = _package(folder)
        self.runners = [self._runner(number, package) for number in range(len(self.plan["pieces"]))]
        self._framework = self.interface["framework"]
        self._steps = steps(self.plan["inputs"], self.plan["pieces"], self.plan["outputs"])
        self._guarded = any(runner.reuses for runner in self.runners)
        self._home = self._make_home(package)
        self._arguments = importlib.import_module(f"{package}.arguments")
        self._pipeline = importlib.import_module(f"{package}.pipeline")
        self._workers: dict[str, Any] = {}
        self._workers_of = 0
        self._streaming = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's results. Raises PlacedError where arguments are not those that the plan was made for."""
        found = self.flat(self._flattened(list(args), kwargs))
        return self._arguments.unflatten(self.interface["results"], found)

    def stream(self, requests: Iterable[Any], ahead: int = 0, **kwargs: Any) -> Generator[Any, None, None]:
        """Results of many requests in their order, each device at work on another one of them.

        A request is the model's only positional argument, or a tuple of them; ``kwargs`` are those of all. ``ahead``:
        how many are on their way at most; 0: twice as many as there are devices. Until it ends or is closed the model
        takes nothing else. Raises PlacedError as a call does.
        """

        def flattened() -> Iterator[list[Any]]:
            for request in requests:
                args = list(request) if isinstance(request, tuple) else [request]
                yield self._flattened(args, kwargs)

        for found in self.flat_stream(flattened(), ahead):
            yield self._arguments.unflatten(self.interface["results"], found)

    def flat_stream(self, requests: Iterable[Sequence[Any]], ahead: int = 0) -> Iterator[list[Any]]:
        """The same from flat lists of tensors to flat lists."""
        self._check_free()
        self._streaming = True
        try:
            workers = self._threads()
            yield from self._pipeline.stream(self, workers, requests, ahead or 2 * len(workers))
        finally:
            self._streaming = False

    def flat(self, given: Sequence[Any]) -> list[Any]:
        """The results of a call, from a flat list of tensors to a flat list."""
        self._check_free()
        course = self.begin(given)
        for place in range(len(self.runners)):
            self.advance(course, place)
        return self.finish(course)

    def begin(self, given: Sequence[Any], *, keeps: bool = False) -> Course:
        """A request before its first piece. ``keeps``: another one may be on its way before this one ends."""
        course = Course(self._steps.slots, keeps=keeps)
        for slot, value in zip(self._steps.inputs, given, strict=True):
            # Whoever makes requests may use the same memory for the next one.
            course.slots[slot] = {"": _own(value) if keeps else value}
        return course

    def advance(self, course: Course, place: int) -> None:
        """Run the piece with this number."""
        reads, makes, last = self._steps.pieces[place]
        runner = self.runners[place]
        made = runner.run([_placed(course.slots[slot], runner) for slot in reads])
        if self._guarded and runner.reuses:
            if course.keeps:
                made = [_own(value) for value in made]
            else:
                course.reused.update(map(_address, made))
        for slot, value in zip(makes, made, strict=True):
            course.slots[slot] = {runner.memory: value}
        for slot in last:
            course.slots[slot] = None

    def finish(self, course: Course) -> list[Any]:
        """The results, after the last piece."""
        results = [self._home(course.slots[slot]) for slot in self._steps.outputs]
        return [_own(value) if self._guarded and _address(value) in course.reused else value for value in results]

    def _threads(self) -> dict[str, Any]:
        """One for each device. A process that was forked from another one has none of its threads."""
        if self._workers_of != os.getpid():
            self._workers = self._pipeline.threads(piece["device"] for piece in self.plan["pieces"])
            self._workers_of = os.getpid()
        return self._workers

    def _check_free(self) -> None:
        if self._streaming:
            message = "a stream of this model is on its way; finish or close it first, or load the folder once more"
            raise PlacedError(message)

    def _runner(self, number: int, package: str) -> Any:
        piece = self.plan["pieces"][number]
        extra = self.interface["pieces"][number]
        where = str(self.interface["loaders"][piece["library"]])
        if ":" in where:
            module, _, name = where.partition(":")
            load = getattr(importlib.import_module(module), name)
        else:
            load = importlib.import_module(f"{package}.{where}").load
        try:
            return load(
                self.folder / piece["file"], device=piece["device"], threads=piece["threads"], options=extra["options"]
            )
        except Exception as error:
            message = f"piece {number} ({piece['file']}) does not load in {piece['library']}: {error}"
            raise PlacedError(message) from error

    def _make_home(self, package: str) -> Callable[[dict[str, Any]], Any]:
        host = importlib.import_module(f"{package}.host")
        if self._framework != "torch":
            return lambda forms: host.to_numpy(next(iter(forms.values())))
        import torch

        device = torch.device(self.interface["device"])
        return lambda forms: host.to_torch(next(iter(forms.values())), device)

    def _flattened(self, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        try:
            given: list[Any] = self._arguments.flatten(self.interface["arguments"], {"args": args, "kwargs": kwargs})
        except ValueError as error:
            raise PlacedError(str(error)) from None
        self._check(given)
        return given

    def _check(self, given: Sequence[Any]) -> None:
        for value, wanted in zip(given, self.interface["inputs"], strict=True):
            shape = list(getattr(value, "shape", ()))
            dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            if shape != wanted["shape"] or dtype != wanted["dtype"]:
                message = (
                    f"{wanted['path']} is {dtype}{shape}, and this plan was made for "
                    f"{wanted['dtype']}{wanted['shape']}: make another plan for that"
                )
                raise PlacedError(message)


class Course:
    """One request on its way: values by slot, in each memory where they are; addresses that the next call reuses."""

    def __init__(self, slots: int, *, keeps: bool) -> None:
        self.slots: list[Any] = [None] * slots
        self.keeps = keeps
        self.reused: set[int] = set()


class Steps:
    """Numbers of slots instead of names: ``pieces`` holds (slots read, slots made, slots not needed afterwards)."""

    def __init__(self) -> None:
        self.slots = 0
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.pieces: list[tuple[list[int], list[int], list[int]]] = []


def steps(inputs: Sequence[str], pieces: Sequence[dict[str, Any]], outputs: Sequence[str]) -> Steps:
    """Raises PlacedError where a piece reads what nothing before it makes."""
    made = Steps()
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    made.inputs = [number(name) for name in inputs]
    for place, piece in enumerate(pieces):
        lost = [name for name in piece["inputs"] if name not in numbers]
        if lost:
            message = (
                f"piece {place} ({piece['file']}) reads {', '.join(lost)} before it is made: plan.json is out of order"
            )
            raise PlacedError(message)
        made.pieces.append(([number(n) for n in piece["inputs"]], [number(n) for n in piece["outputs"]], []))
    made.outputs = [number(name) for name in outputs]
    made.slots = len(numbers)
    last: dict[int, int] = {}
    for place, (reads, makes, _) in enumerate(made.pieces):
        last.update(dict.fromkeys([*reads, *makes], place))
    for slot, place in last.items():
        if slot not in made.outputs:
            made.pieces[place][2].append(slot)
    return made


def _placed(forms: dict[str, Any], runner: Any) -> Any:
    """A value as ``runner`` wants it; transferred once for all runners of one memory."""
    value = forms.get(runner.memory)
    if value is None:
        value = forms[runner.memory] = runner.place(next(iter(forms.values())))
    return value


def _address(value: Any) -> int:
    storage = getattr(value, "untyped_storage", None)
    if storage is not None:
        return int(storage().data_ptr())
    interface = getattr(value, "__array_interface__", None)
    return int(interface["data"][0]) if interface is not None else id(value)


def _own(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read ({error}); deploy the plan again"
        raise PlacedError(message) from None


def _package(folder: Path) -> str:
    """The folder's own loaders under a name of their own, so that two folders do not get in each other's way."""
    name = f"placed_loaders_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        inner = folder / "loaders"
        spec = importlib.util.spec_from_file_location(
            name, inner / "__init__.py", submodule_search_locations=[str(inner)]
        )
        if spec is None or spec.loader is None:
            message = f"{inner}: the loaders are missing; deploy the plan again"
            raise PlacedError(message)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return name


def load(folder: str | Path | None = None) -> Placed:
    """The model of ``folder`` (default: where this file lies), with its own arguments and results."""
    return Placed(Path(folder).resolve() if folder is not None else Path(__file__).resolve().parent)


def difference(got: Any, wanted: Any) -> float:
    """Largest absolute difference over the largest finite value of ``wanted``; infinite where shapes, dtypes, or places
    of values that are not finite differ."""
    torch = sys.modules.get("torch")
    if torch is not None and (isinstance(got, torch.Tensor) or isinstance(wanted, torch.Tensor)):
        got, wanted = (_wide_torch(torch, value) for value in (got, wanted))
        engine: Any = torch
    else:
        engine = importlib.import_module("numpy")
        got, wanted = (_wide_numpy(engine, value) for value in (got, wanted))
    if tuple(got.shape) != tuple(wanted.shape):
        return float("inf")
    finite = engine.isfinite(wanted)
    if not bool((finite == engine.isfinite(got)).all()):
        return float("inf")
    got, wanted = got[finite], wanted[finite]
    if not len(wanted):
        return 0.0
    scale = float(abs(wanted).max())
    return float(abs(got - wanted).max()) / (scale or 1.0)


def _wide_torch(torch: Any, value: Any) -> Any:
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def _wide_numpy(numpy: Any, value: Any) -> Any:
    array = numpy.asarray(value)
    return array.view(array.real.dtype).astype("f8") if array.dtype.kind == "c" else array.astype("f8")


def stored(folder: Path, framework: str) -> tuple[list[Any], list[Any]]:
    """The inputs and the reference outputs that the plan was checked with, flat."""
    if framework == "torch":
        import torch

        kept = torch.load(folder / "inputs.pt", weights_only=True)
        return list(kept["inputs"]), list(kept["outputs"])
    import numpy as np

    with np.load(folder / "inputs.npz", allow_pickle=False) as kept:
        inputs = [kept[f"input_{n}"] for n in range(sum(name.startswith("input_") for name in kept.files))]
        outputs = [kept[f"output_{n}"] for n in range(sum(name.startswith("output_") for name in kept.files))]
    return inputs, outputs


def check(folder: Path, calls: int = _CALLS) -> int:
    """Print the difference from the reference and the median time of a call; 1 where it is beyond the tolerance."""
    model = load(folder)
    inputs, wanted = stored(folder, model.interface["framework"])
    got = model.flat(inputs)
    worst = max((difference(one, other) for one, other in zip(got, wanted, strict=True)), default=0.0)
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        model.flat(inputs)
        for runner in model.runners:
            runner.wait()
        times.append(time.perf_counter() - begun)
    tolerance = model.plan["tolerance"]
    good = worst <= tolerance
    sign = "within" if good else "BEYOND"
    count = f"{len(model.runners)} piece{'s' * (len(model.runners) != 1)}"
    print(f"{count}: {', '.join(piece['target'] for piece in model.plan['pieces'])}")  # noqa: T201
    print(f"largest relative difference {worst:.2e}, {sign} the tolerance of {tolerance:g}")  # noqa: T201
    print(f"median of {calls} calls: {statistics.median(times) * 1e3:.3f} ms")  # noqa: T201
    return 0 if good else 1


def main() -> int:
    """``python placed.py --check``."""
    parser = argparse.ArgumentParser(description="A model that runs in pieces, each in its own compute library.")
    parser.add_argument("--check", action="store_true", help="run the stored inputs and compare with the reference")
    arguments = parser.parse_args()
    if not arguments.check:
        parser.print_help()
        return 2
    return check(Path(__file__).resolve().parent)


if __name__ == "__main__":
    sys.exit(main())
