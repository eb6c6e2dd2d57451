from __future__ import annotations

from typing import Any

import pytest

from perfgate.bench import placing
from perfgate.bench.placing import Placer
from perfgate.bench.workers import WorkerFailed
from perfgate.records.placing import Advanced, Profiled, ProfileNodes, Wanted

REQUEST = ProfileNodes(targets=(), budget_s=1.0)
DONE = Profiled(targets=(), times=(), wholes=(), borders=(), supports=())


class Child:
    """Answers in turn, the last answer again and again."""

    side = "head"

    def __init__(self, *replies: object) -> None:
        self.replies = list(replies)
        self.asked: list[object] = []

    def place(self, request: object, limit_s: float, *, phase: str) -> object:
        self.asked.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def placer(child: Child, cut: Any = None) -> Placer:
    return Placer(child, cut or (lambda _: None), 60.0)  # type: ignore[arg-type]


def test_profile__is_asked_for_again_until_it_is_done_and_shown_meanwhile():
    child = Child(Advanced(done=1, total=3), Wanted(source="x"), Advanced(done=2, total=3), DONE)
    seen: list[int] = []
    cut: list[Wanted] = []
    found = placer(child, cut.append).profile(REQUEST, lambda far: seen.append(far.done))
    assert found is DONE
    assert seen == [1, 2]
    assert cut == [Wanted(source="x")]
    assert child.asked == [REQUEST] * 4


@pytest.mark.parametrize("reply", [Wanted(source="x"), Advanced(done=0, total=9), "something else"])
def test_profile__a_worker_that_never_gets_there_is_given_up(monkeypatch, reply):
    monkeypatch.setattr(placing, "_OVERTIME_S", -0.9)
    with pytest.raises(WorkerFailed, match="did not answer ProfileNodes with Profiled"):
        placer(Child(reply)).profile(REQUEST)
