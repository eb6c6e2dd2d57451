from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perfgate.errors import MeasuringError
from tests.bench.helpers import Steps, descendants, plan, session, spec, work


@pytest.fixture(autouse=True)
def nothing_left():
    before = set(descendants())
    yield
    deadline = time.monotonic() + 5
    while set(descendants()) - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert set(descendants()) <= before


def test_probe__two_processes_of_each_side(tmp_path):
    with session(tmp_path) as running:
        facts = running.probe({"base": {"m": spec()}, "head": {"m": spec(step_us=2000)}})
    key = work(spec()).workload.key
    base, head = facts["base"][key], facts["head"][key]
    assert (base.status, head.status) == ("ok", "ok")
    assert len(base.probes) == len(head.probes) == 2
    assert head.probes[0].step_ns == 2_000_000
    assert base.software is not None
    assert base.software.versions == {"python": "fake"}


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        ({"open": "raise"}, "raised", "no such layer"),
        ({"open": "eat"}, "oom", "MemoryError"),
        ({"open": "exit"}, "exited", "building and running once"),
        ({"open": "kill"}, "killed", "SIGKILL"),
        ({"open": "garbage"}, "protocol", "cannot be read"),
        ({"open": "unknown"}, "protocol", "Surprise"),
        ({"open": "huge"}, "protocol", "longer than"),
        ({"open": "wrong"}, "protocol", "Finished where Opened was due"),
    ],
)
def test_probe__one_models_failure_leaves_the_others(tmp_path, script, kind, words):
    models = {"bad": spec("bad", **script), "good": spec("good")}
    with session(tmp_path) as running:
        facts = running.probe({"head": models})["head"]
    bad, good = facts["bad/infer/b1/float32/cpu/eager"], facts["good/infer/b1/float32/cpu/eager"]
    assert good.status == "ok"
    assert len(good.probes) == 2
    assert bad.status == "failed"
    assert bad.failure is not None
    assert bad.failure.kind == kind
    assert words in bad.failure.message


def test_probe__last_words_of_a_process_that_exits(tmp_path):
    with session(tmp_path) as running:
        facts = running.probe({"head": {"m": spec(open="exit")}})["head"]
    failure = next(iter(facts.values())).failure
    assert failure is not None
    assert "the last words" in failure.trace


def test_probe__a_death_that_does_not_repeat_is_no_failure(tmp_path):
    with session(tmp_path) as running:
        facts = running.probe({"head": {"m": spec(open="kill", once=str(tmp_path / "once"))}})["head"]
    assert [(side.status, len(side.probes)) for side in facts.values()] == [("ok", 2)]


def test_probe__hang_ends_at_the_limit_of_the_model(tmp_path):
    begun = time.monotonic()
    with session(tmp_path) as running:
        facts = running.probe({"head": {"slow": spec("slow", open="hang", timeout_s=0.5), "good": spec("good")}})[
            "head"
        ]
    slow, good = facts.values()
    assert slow.failure is not None
    assert slow.failure.kind == "hung"
    assert good.status == "ok"
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("module", ["broken", "exits"])
def test_probe__import_failure_is_charged_to_its_model_alone(tmp_path, module):
    models = {"bad": spec("bad", module=module), "good": spec("good")}
    with session(tmp_path) as running:
        bad, good = running.probe({"head": models})["head"].values()
    assert bad.failure is not None
    assert bad.failure.phase == "import"
    assert good.status == "ok"
    assert len(good.probes) == 2


def test_probe__interpreter_that_does_not_exist(tmp_path):
    running = session(tmp_path)
    running._sides = {name: _with_python(side, "/no/such/python") for name, side in running._sides.items()}
    with running:
        facts = running.probe({"head": {"m": spec()}})["head"]
    failure = next(iter(facts.values())).failure
    assert failure is not None
    assert "/no/such/python" in failure.message
    assert "perfgate.toml" in failure.message


def _with_python(side, python):
    from dataclasses import replace

    return replace(side, python=python)


def test_compare__equal_sides_pass_at_the_first_look(tmp_path):
    progress = Steps()
    with session(tmp_path, progress=progress) as running:
        (evidence,) = running.compare([work(spec())], plan(), 60)
        assert running.partial() == ()
    assert evidence.end == "decided"
    assert len(evidence.pairs) == 5
    assert {pair.void for pair in evidence.pairs} == {""}
    assert len({pair.round for pair in evidence.pairs}) == 5
    assert {pair.order for pair in evidence.pairs} <= {"ABBA", "BAAB"}
    first = evidence.pairs[0]
    assert len(first.base.blocks) == len(first.head.blocks) == 2
    assert first.base.peak_bytes == 100 * 2**20
    assert len(first.base.blocks[0].samples_ns) == 5
    assert progress.seen[-1][3] is not None


def test_compare__short_steps_are_timed_in_groups(tmp_path):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(step_us=2))], plan(), 60)
    assert evidence.pairs[0].head.inner == 500


def test_compare__slower_head_goes_on_to_the_look_that_may_say_so(tmp_path):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(), spec(step_us=1100))], plan(), 60)
    assert evidence.end == "decided"
    assert len(evidence.pairs) in (5, 8)


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"time": "raise"}, "raised"),
        ({"time": "exit"}, "exited"),
        ({"time": "hang"}, "hung"),
        ({"time": "huge"}, "protocol"),
    ],
)
def test_compare__head_that_fails_twice_has_failed(tmp_path, script, kind):
    with session(tmp_path, block_hang_s=0.3) as running:
        bad, good = running.compare([work(spec("bad"), spec("bad", **script)), work(spec("good"))], plan(), 60)
    assert (bad.end, bad.base.status, bad.head.status) == ("failed", "ok", "failed")
    assert bad.head.failure is not None
    assert bad.head.failure.kind == kind
    assert good.end == "decided"


def test_compare__worker_that_dies_once_costs_a_pair(tmp_path):
    once = str(tmp_path / "once")
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(), spec(time="kill", once=once))], plan(), 60)
    assert evidence.end == "decided"
    assert evidence.head.status == "ok"
    assert any("SIGKILL" in note for note in evidence.notes)


def test_compare__copies_that_do_not_fit_together_are_alive_alone(tmp_path):
    model = spec(memory=str(tmp_path / "card"))
    with session(tmp_path) as running:
        facts = running.probe({"base": {"m": model}, "head": {"m": model}})
        assert {side.status for sides in facts.values() for side in sides.values()} == {"ok"}
        (evidence,) = running.compare([work(model)], plan(), 60)
    assert (evidence.end, len(evidence.pairs)) == ("decided", 5)
    assert {len(pair.head.blocks) for pair in evidence.pairs} == {2}
    assert any("do not fit in memory together" in note for note in evidence.notes)


def test_compare__head_that_does_not_fit_alone_has_failed(tmp_path):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(), spec(open="eat"))], plan(), 60)
    assert (evidence.end, evidence.head.status) == ("failed", "failed")
    assert evidence.head.failure is not None
    assert evidence.head.failure.kind == "oom"


def test_compare__fresh_processes_where_forking_is_unsafe(tmp_path):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(module="threads"))], plan(), 60)
    assert evidence.end == "decided"
    assert any("2 threads alive after import" in note for note in evidence.notes)


def test_compare__one_unforkable_model_does_not_slow_the_others(tmp_path):
    with session(tmp_path) as running:
        one, two = running.compare([work(spec("a", module="threads")), work(spec("b"))], plan(), 60)
    assert (one.end, two.end) == ("decided", "decided")
    assert not any("anew" in note for note in two.notes)


@pytest.mark.parametrize(
    ("script", "reason"), [({"recompiles": 1}, "compiled again"), ({"items": [1, 2]}, "numbers of items")]
)
def test_compare__pairs_that_never_count_end_as_unstable(tmp_path, script, reason):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(), spec(**script))], plan(), 60)
    assert evidence.end == "unstable"
    assert len(evidence.pairs) == 5
    assert all(reason in pair.void for pair in evidence.pairs)


def test_compare__detached_process_is_ended_after_its_pair(tmp_path):
    pid_file = tmp_path / "pid"
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec(), spec(detach=str(pid_file)))], plan(), 60)
        assert not _alive(int(pid_file.read_text(encoding="utf-8")))
    assert any("left processes behind" in note for note in evidence.notes)
    assert {pair.void for pair in evidence.pairs} == {""}


def test_compare__process_that_does_not_end_is_ended(tmp_path):
    with session(tmp_path, grace_s=0.1) as running:
        (evidence,) = running.compare([work(spec(), spec(linger=True), max_pairs=2)], plan(looks=(2,), alpha=0.4), 60)
    assert evidence.end in ("decided", "n_max")


def test_compare__budget_too_small_for_the_first_look_is_not_begun(tmp_path):
    with session(tmp_path) as running:
        (evidence,) = running.compare([work(spec())], plan(), 0.5)
    assert evidence.end == "not-begun"
    assert evidence.pairs == ()
    assert evidence.needed_s is not None
    assert evidence.needed_s > 0.5


def test_compare__budget_that_ends_early_keeps_the_pairs(tmp_path):
    slow = spec(sleep=0.2)
    with session(tmp_path, warmup_min_ns=1) as running:
        begun = time.monotonic()
        running.probe({"base": {"m": slow}, "head": {"m": slow}})
        (evidence,) = running.compare([work(slow)], plan(looks=(2, 20, 40), alpha=1e-6), 5)
        spent = time.monotonic() - begun
    assert evidence.end == "budget"
    assert 2 <= len(evidence.pairs) < 20
    assert spent < 20


def test_compare__interrupt_leaves_no_process_and_keeps_what_was_measured(tmp_path):
    def stop(text: str) -> None:
        if "pair 3 of" in text:
            raise KeyboardInterrupt

    running = session(tmp_path, progress=Steps(at=stop))
    before = set(descendants())
    with pytest.raises(KeyboardInterrupt), running:
        running.compare([work(spec(), spec(detach=str(tmp_path / "pid")))], plan(), 60)
    assert set(descendants()) <= before
    (evidence,) = running.partial()
    assert evidence.end == "interrupted"
    assert len(evidence.pairs) == 2


def test_compare__second_gate_waits_and_gives_up_with_one_line(tmp_path):
    first, second = session(tmp_path), session(tmp_path, lock_wait_s=0.1)
    with first, second:
        first.probe({"head": {"m": spec()}})
        with pytest.raises(MeasuringError, match="another perfgate"):
            second.probe({"head": {"m": spec()}})


def test_compare__log_and_environment_hold_no_secret(tmp_path):
    environ = {**os.environ, "GITHUB_TOKEN": "hush", "ACTIONS_RUNTIME_TOKEN": "hush", "HF_TOKEN": "hush"}
    with session(tmp_path, environ=environ) as running:
        running.probe({"head": {"m": spec()}})
        assert running._place is not None
        assert all("hush" not in value for value in running._place.environments["head"].values())


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
