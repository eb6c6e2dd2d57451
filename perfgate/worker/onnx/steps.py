"""Floor 3, worker. One inference of a session as a step to time.

In: a session, its inputs, the device. Out: a :class:`timing.Step`. On the GPU the inputs lie there before the first
call, outputs stay there, and each call waits for them: what is timed is the model, not the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from perfgate.worker.onnx import faults
from perfgate.worker.onnx.inputs import Feeds

_NO_SPANS: tuple[str, ...] = ()


class OnnxStep:
    """``fetch`` gives the outputs of the latest call as values on the host, in the model's order."""

    def __init__(
        self, run: Callable[[], object], fetch: Callable[[object], list[Any]], *, items: int, checkout: str
    ) -> None:
        self.items = items
        self.fetch = fetch

        def call() -> object:
            try:
                return run()
            except Exception as error:
                raise faults.in_a_step(error, checkout) from None

        self.call: Callable[[], object] = call

    @contextmanager
    def context(self) -> Iterator[None]:
        """Nothing to set: a session has no modes."""
        yield

    @property
    def spans(self) -> tuple[str, ...]:
        """An inference has no spans."""
        return _NO_SPANS

    def take_spans(self) -> dict[str, int]:
        """An inference has no spans."""
        return {}


def make(runtime: Any, session: Any, feeds: Feeds, ordinal: int | None, *, items: int, checkout: str) -> OnnxStep:
    """A step on the host (``ordinal`` None) or on that CUDA device, where it copies the inputs at once."""
    if ordinal is None:
        names = [output.name for output in session.get_outputs()]
        arrays = feeds.arrays
        return OnnxStep(lambda: session.run(names, arrays), _as_list, items=items, checkout=checkout)
    binding = session.io_binding()
    for name, array in feeds.arrays.items():
        binding.bind_ortvalue_input(name, runtime.OrtValue.ortvalue_from_numpy(array, "cuda", ordinal))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda", ordinal)
    binding.synchronize_inputs()

    def run() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return OnnxStep(run, lambda _: list(binding.copy_outputs_to_cpu()), items=items, checkout=checkout)


def _as_list(result: object) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]
