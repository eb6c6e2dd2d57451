"""A profile that is told of in between, and goes on where it was."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfgate.records.placement import Target
from perfgate.records.placing import Advanced, Profiled, ProfileNodes
from perfgate.worker.placing import answering
from perfgate.worker.placing.libraries.registry import Registry

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


def test_answer__a_long_profile_tells_how_far_it_is_and_goes_on(lowered, monkeypatch):
    monkeypatch.setattr(answering, "_TOLD_EVERY_S", -1.0)
    model = lowered("Chain")
    placing = answering.Placing(None)  # type: ignore[arg-type]
    request = ProfileNodes(
        targets=(Target(name="host", library="torch-onednn", device="cpu", threads=1),), budget_s=20.0
    )
    registry = Registry(torch_model=True)
    seen = []
    while isinstance(reply := placing._profiled(model, registry, request), Advanced):
        seen.append((reply.done, reply.total))
    distinct = len(model.representatives())
    assert seen == [(done, distinct + 1) for done in range(1, distinct + 2)]
    assert isinstance(reply, Profiled)
    assert reply.measured == distinct
    # Asked again, it begins anew.
    assert placing._profiled(model, registry, request) == Advanced(done=1, total=distinct + 1)
