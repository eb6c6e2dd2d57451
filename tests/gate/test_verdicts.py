from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.gate.verdicts import of_error, of_run, outcome, worst
from perfgate.records.report import SEVERITY
from tests.gate.builders import policy

some_verdicts = st.sets(st.sampled_from(SEVERITY), min_size=1)


@pytest.mark.parametrize(
    ("verdict", "code", "check"),
    [
        ("regression", 1, "failure"),
        ("missing", 1, "failure"),
        ("invalid", 3, "neutral"),
        ("inconclusive", 0, "neutral"),
        ("no-baseline", 0, "neutral"),
        ("accepted", 0, "success"),
        ("new", 0, "success"),
        ("improvement", 0, "success"),
        ("pass", 0, "success"),
        ("shown", 0, "success"),
        ("unchanged", 0, "success"),
    ],
)
def test_outcome__the_table(verdict, code, check):
    found = outcome(verdict, enforced={verdict}, reported=(), policy=policy())
    assert (found.exit_code, found.check, found.would_fail) == (code, check, code == 1)
    assert of_run(verdict, policy()) == found


@given(some_verdicts, some_verdicts)
def test_outcome__what_is_only_reported_never_fails(held, told):
    verdict = worst(held | told)
    found = outcome(verdict, enforced=(), reported=held | told, policy=policy())
    assert found.exit_code == 0
    assert found.check in ("success", "neutral")
    assert found.would_fail == bool((held | told) & {"regression", "missing"})


@given(some_verdicts, some_verdicts)
def test_outcome__red_is_one_and_green_is_never_red(held, told):
    found = outcome(worst(held | told), enforced=held, reported=told, policy=policy())
    assert (found.exit_code == 1) == bool(held & {"regression", "missing"})
    assert (found.check == "failure") == (found.exit_code == 1)
    if found.check == "success":
        assert not (held | told) & {"regression", "missing", "invalid", "inconclusive", "no-baseline"}


@pytest.mark.parametrize(("given_code", "code"), [(0, 3), (1, 3), (2, 2), (3, 3), (4, 4), (130, 130)])
def test_of_error__a_verdicts_code_is_never_an_errors(given_code, code):
    found = of_error(given_code)
    assert (found.exit_code, found.check, found.would_fail) == (code, "failure", False)


def test_worst__in_the_order_of_severity():
    assert worst(["pass", "inconclusive", "improvement"]) == "inconclusive"
    assert worst([]) == "shown"
    assert [worst(SEVERITY[index:]) for index in range(len(SEVERITY))] == list(SEVERITY)
