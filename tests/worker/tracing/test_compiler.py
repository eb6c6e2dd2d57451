"""Tracing imports torch's compiler for those only who compile."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def run(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_deferred__a_trace_does_without_the_compiler():
    assert run(
        """
        import sys, torch
        from torch import nn
        from perfgate.worker.tracing import trace_callable
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GELU()).eval()
        trace = trace_callable(model, (torch.ones(2, 4),))
        print(trace.source, len(trace.calls), "torch._dynamo" in sys.modules)
        # And it is there as ever afterwards.
        compiled = torch.compile(model, backend="eager")
        print(compiled(torch.ones(2, 4)).shape[0], torch._dynamo.utils.counters["stats"]["unique_graphs"])
        """
    ) == ["meta", "4", "False", "2", "1"]


def test_deferred__whoever_wants_the_compiler_gets_it():
    assert run(
        """
        import sys, torch
        from torch import nn
        from perfgate.worker.tracing import trace_callable
        model = nn.Linear(4, 4)

        def work(x):
            from torch._dynamo.utils import counters
            import torch._dynamo.config
            return model(x)

        trace = trace_callable(work, (torch.ones(2, 4),))
        import torch._dynamo, torch._dynamo.utils
        names = ("torch._dynamo", "torch._dynamo.utils")
        same = (torch._dynamo, torch._dynamo.utils) == tuple(map(sys.modules.get, names))
        print(trace.source, len(trace.calls), same, bool(torch._dynamo.__file__))
        """
    ) == ["meta", "1", "True", "True"]


def test_deferred__who_looks_through_all_modules_does_not_import_it():
    # As `inspect` does for the source of any function, also in the middle of an import.
    assert run(
        """
        import inspect, sys
        from perfgate.worker.tracing import compiler
        with compiler.deferred():
            found = [hasattr(module, "__file__") for module in list(sys.modules.values())]
            inspect.getmodule(found)
            print(type(sys.modules["torch._dynamo"]).__name__)
        """
    ) == ["_Placeholder"]


def test_deferred__a_model_can_be_recorded_while_it_is_built():
    assert run(
        """
        import warnings
        import torch
        from torch import nn
        from perfgate.worker.tracing import building
        warnings.simplefilter("ignore")
        with building.without_weights():
            model = torch.jit.trace(nn.Linear(4, 4), torch.ones(2, 4))
        print(type(model).__name__)
        """
    ) == ["TopLevelTracedModule"]
