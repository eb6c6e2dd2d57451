from __future__ import annotations

import socket
import urllib.error

import pytest

from perfgate.records.protocol import Failed
from perfgate.worker.failures import MAX_MESSAGE, MAX_TRACE, WorkerError, describe, phase, refuse


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - any
        return caught


def test_describe__names_type_and_text_on_one_line():
    failed = describe(raised(ValueError("two\n  lines\tof text")), "build", "/checkout")

    assert failed.kind == "raised"
    assert failed.phase == "build"
    assert failed.message == "ValueError: two lines of text"


def test_describe__long_text_is_cut():
    failed = describe(raised(ValueError("x" * 100_000)), "build", "/checkout")

    assert len(failed.message) == MAX_MESSAGE
    assert len(failed.trace) <= MAX_TRACE


def test_describe__deep_recursion_keeps_the_last_lines_only():
    def down(n):
        return down(n + 1) + n

    with pytest.raises(RecursionError) as caught:
        down(0)

    failed = describe(caught.value, "first-step", "/checkout")

    assert len(failed.trace.splitlines()) <= 20
    assert failed.trace.splitlines()[-1].startswith("RecursionError")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "oom"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte"),
            "oom",
        ),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory."), "oom"),
        (RuntimeError("shapes do not match"), "raised"),
        (SystemExit(3), "exited"),
        (KeyboardInterrupt(), "raised"),
    ],
)
def test_describe__kinds(error, kind):
    assert describe(raised(error), "warm-up", "/checkout").kind == kind


def test_describe__text_that_raises_does_not_hide_the_error():
    class BrokenError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    failed = describe(raised(BrokenError()), "build", "/checkout")

    assert "BrokenError" in failed.message


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("name resolution failed"),
        socket.gaierror(-3, "Temporary failure in name resolution"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_describe__a_tried_download_is_named_as_such(error):
    wrapper = RuntimeError("weights could not be loaded")
    wrapper.__cause__ = error

    message = describe(raised(wrapper), "build", "/checkout").message

    assert "downloads are not allowed while measuring" in message
    assert "weights=None" in message


def test_describe__a_missing_file_is_no_download():
    message = describe(raised(FileNotFoundError(2, "No such file", "weights.pt")), "build", "/checkout").message

    assert "downloads" not in message


def test_describe__batch_norm_with_one_value_is_explained():
    error = ValueError("Expected more than 1 value per channel when training, got input size torch.Size([1, 8])")

    assert "use a larger batch" in describe(raised(error), "first-step", "/c").message


def test_describe__paths_are_relative_to_the_checkout(tmp_path):
    module = tmp_path / "net.py"
    module.write_text("def go():\n    raise ValueError('no')\n", encoding="utf-8")
    space: dict = {}
    exec(compile(module.read_text(encoding="utf-8"), str(module), "exec"), space)
    with pytest.raises(ValueError, match="no") as caught:
        space["go"]()

    trace = describe(caught.value, "build", str(tmp_path)).trace

    assert 'File "net.py", line 2' in trace
    assert str(tmp_path) not in trace


def test_phase__turns_any_exception_into_a_failure_of_that_phase():
    with pytest.raises(WorkerError) as caught, phase("inputs", "/checkout"):
        raise SystemExit(1)

    assert caught.value.failed.phase == "inputs"
    assert caught.value.failed.kind == "exited"


def test_phase__lets_a_failure_found_inside_pass_unchanged():
    with pytest.raises(WorkerError) as caught, phase("inputs", "/checkout"):
        refuse("unsupported", "build", "no such device; choose another")

    assert caught.value.failed == Failed(kind="unsupported", phase="build", message="no such device; choose another")
