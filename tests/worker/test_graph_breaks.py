"""Places and causes of graph breaks, by real compilations that only listen."""

# mypy: allow-subclassing-any
from __future__ import annotations

import importlib
import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from perfgate.worker import graph_breaks, loading, stepping, timing  # noqa: E402
from perfgate.worker.device import CpuDevice, Devices  # noqa: E402
from perfgate.worker.graph_breaks import Break, Breaks, sentence  # noqa: E402
from perfgate.worker.inputs import Arguments  # noqa: E402
from tests.worker.helpers import make_open, write_files  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

FILES = {
    "zoo/net.py": """
        import torch
        from torch import nn
        from zoo.helpers import loud

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                return self.two(self.middle(self.one(x)))

            def middle(self, x):
                return x

        class Prints(Net):
            def middle(self, x):
                print("a", x.shape)
                return x

        class First(Net):
            def forward(self, x):
                print("before everything")
                return self.one(x)

        class Item(Net):
            def middle(self, x):
                return x * x.sum().item()

        class Branch(Net):
            def middle(self, x):
                if x.sum() > 0:
                    x = x + 1
                return x

        class Loop(Net):
            def middle(self, x):
                for _ in range(3):
                    print("again")
                    x = x + 1
                return x

        class Elsewhere(Net):
            def middle(self, x):
                return loud(x)

        class Many(Net):
            def middle(self, x):
                LINES
                return x

        class Twice(Net):
            def middle(self, x):
                print("a", x.shape)
                if x.sum() > 0:
                    x = x + 1
                return x
    """.replace("LINES", "\n                ".join(f"print({i})" for i in range(12))),
    "zoo/helpers.py": """
        def loud(x):
            print("helper")
            return x + 1
    """,
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("breaks") / "co", FILES)


@pytest.fixture
def zoo(checkout, monkeypatch):
    monkeypatch.syspath_prepend(str(checkout))
    for name in ("zoo", "zoo.net", "zoo.helpers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("zoo.net")


def found_in(checkout, model, *, compile_="default", mode="infer", notes=None):
    request = make_open("zoo.net:Net", mode=mode, compile_=compile_)
    side: Any = SimpleNamespace(request=SimpleNamespace(checkout=str(checkout)))
    loaded = loading.Loaded(model=model, plain=model, module=model)
    arguments = Arguments(args=(torch.ones(2, 4),), kwargs={})
    step = stepping.make_step(request, side, loaded, arguments)
    notes = [] if notes is None else notes
    torch._dynamo.utils.counters.clear()
    return graph_breaks.find(request, side, loaded, arguments, step, Devices([CpuDevice("cpu")]), notes)


def line_of(checkout, text, file="zoo/net.py"):
    lines = (checkout / file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("name", "file", "code", "cause"),
    [
        ("Prints", "zoo/net.py", 'print("a", x.shape)', "call of print()"),
        ("First", "zoo/net.py", 'print("before everything")', "call of print()"),
        ("Item", "zoo/net.py", "return x * x.sum().item()", "call of Tensor.item()"),
        ("Branch", "zoo/net.py", "if x.sum() > 0:", "branch on the values of a tensor"),
        ("Loop", "zoo/net.py", 'print("again")', "call of print()"),
        ("Elsewhere", "zoo/helpers.py", 'print("helper")', "call of print()"),
    ],
)
def test_find__names_place_and_cause(checkout, zoo, capsys, name, file, code, cause):
    found = found_in(checkout, getattr(zoo, name)())

    assert found.sentences == (f"{file}:{line_of(checkout, code, file)}: {cause}: {code}",)
    assert found.count is not None
    assert found.count >= 1
    assert str(checkout) not in found.sentences[0]


def test_find__several_in_order_of_appearance(checkout, zoo, capsys):
    found = found_in(checkout, zoo.Twice(), mode="train")

    assert [text.split(": ")[1] for text in found.sentences] == ["call of print()", "branch on the values of a tensor"]
    # The counters of torch leave the branch out. Some releases see the print twice: in the caller's and its own graph.
    counted = timing.graph_breaks()
    assert counted in (1, 2)
    assert found.count == counted + 1


def test_find__names_ten_and_counts_all(checkout, zoo, capsys):
    found = found_in(checkout, zoo.Many())

    assert len(found.sentences) == 10
    assert found.count in (12, 13)


def test_find__nothing_without_breaks_or_without_compilation(checkout, zoo, capsys):
    assert found_in(checkout, zoo.Net()) == Breaks(count=0)
    assert found_in(checkout, zoo.Prints(), compile_="eager") == Breaks()
    assert capsys.readouterr().out == ""


def test_find__leaves_loggers_and_compiler_as_they_were(checkout, zoo, capsys):
    loggers = [logging.getLogger(name) for name in graph_breaks._LOGGERS]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    model = zoo.Prints()
    compiled: list[object] = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    user = torch.compile(lambda x: x + 1, backend=backend)
    user(torch.ones(3))
    found_in(checkout, model)
    user(torch.ones(3))

    assert [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers] == before
    # Forgotten, not broken.
    assert len(compiled) == 2
    assert type(model) is zoo.Prints


def test_find__a_step_that_fails_leaves_the_count_and_a_note(checkout, zoo, capsys):
    class Fails(zoo.Net):  # type: ignore[name-defined]
        def middle(self, x):
            raise ValueError("now")

    notes: list[str] = []

    found = found_in(checkout, Fails(), notes=notes)

    assert found == Breaks(count=0)
    assert notes == ["places of graph breaks are not known: ValueError when the step was compiled again"]
    assert not any(
        isinstance(handler, graph_breaks.Listener)
        for name in graph_breaks._LOGGERS
        for handler in logging.getLogger(name).handlers
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("builtin: print [<class 'torch._dynamo.variables.tensor.TensorVariable'>] False", "call of print()"),
        (("Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `open`"
          " with argument types ['str']\n  Hint: `print`"), "call of open()"),
        ("Graph break due to unsupported builtin time.sleep. This function is either a Python builtin",
         "call of time.sleep()"),
        (("Attempted to call function marked as skipped\n  Explanation: Dynamo does not know how to trace the builtin "
          "`time.sleep.` This function is either"), "call of time.sleep()"),
        (("Attempted to call function marked as skipped\n  Explanation: Dynamo does not know how to trace the Python "
          "builtin `_warnings.warn`.\n  Hint: no"), "call of _warnings.warn()"),
        ("Tensor.item", "call of Tensor.item()"),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False\n  Explanation: Dynamo does not",
         "call of Tensor.item()"),
        ("Input tensor for tolist must be an integer tensor", "call of Tensor.tolist()"),
        ("generic_jump TensorVariable()", "branch on the values of a tensor"),
        ("Data-dependent branching\n  Explanation: Detected data-dependent branching (e.g. `if x.sum() > 0:`).",
         "branch on the values of a tensor"),
        ("dynamic shape operator: aten.nonzero.default; to enable, set x",
         "the shape of the result of aten.nonzero depends on values"),
        ("Dynamic shape operator\n  Explanation: Operator `aten.nonzero.default`'s output shape depends on input",
         "the shape of the result of aten.nonzero depends on values"),
        ("'skip function graph_break in file /venv/lib/python3.11/site-packages/torch/_dynamo/decorators.py'",
         "call of torch._dynamo.graph_break()"),
        ("Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: None",
         "call of torch._dynamo.graph_break()"),
        ("'skip function getLogger in file /usr/lib/python3.11/logging/__init__.py'", "call of getLogger()"),
        ("call torch._dynamo.disable() wrapped function <function slow at 0x7fbbc31413a0>",
         "call of slow(), which is kept from being compiled"),
        ("Something new with <Thing object at 0x7fbbc31413a0> in /somewhere/else/net.py\n  Explanation: so",
         "Something new with <Thing object> in net.py"),
        ("", "no reason is given"),
        ("x" * 500, "x" * 117 + "..."),
    ],
)  # fmt: skip
def test_sentence__calls_a_cause_the_same_in_all_releases(text, cause):
    assert sentence(Break((), text), "/co") == cause


def test_sentence__names_the_checkouts_own_innermost_line():
    frames = (
        ("/co/train.py", 3, "model(x)"),
        ("/co/pkg/net.py", 31, "  y = library.call(x,\n   1)"),
        ("/co/.venv/lib/python3.11/site-packages/library/core.py", 7, "print(x)"),
    )

    assert sentence(Break(frames, "builtin: print"), "/co") == (
        "pkg/net.py:31: call of print(): y = library.call(x, 1)"
    )
    assert sentence(Break(frames[2:], "builtin: print"), "/co") == "library/core.py:7: call of print(): print(x)"
    assert sentence(Break((("/home/me/x.py", 2, ""),), "builtin: print"), "/co") == "x.py:2: call of print()"


def test_sentence__cuts_long_lines():
    text = sentence(Break((("/co/net.py", 1, "f(" + "x, " * 100 + ")"),), "builtin: print"), "/co")

    assert text.endswith("...")
    assert len(text) < 130


def test_listener__does_not_break_a_compilation():
    class Odd:
        def forward(self, *_):
            return ()

    listener = graph_breaks.Listener()
    record = logging.LogRecord("x", logging.DEBUG, "f", 1, "%d", ("no number",), None)

    listener.emit(record)
    run = listener.compile(Odd(), [])

    assert run() == ()
    assert listener.breaks == []
