from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from perfgate.stats.sequential import MIN_PAIRS, decide, looks_and_alphas, one_sided_lower
from tests.stats import reference

LOOKS = (5, 8, 12, 16, 20)
RULE: dict[str, Any] = {"tolerance": 0.03, "alpha": 0.01, "looks": LOOKS}


def draws(seed: int, mean: float, sd: float, count: int = 20) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(mean, sd) for _ in range(count)]


# ---------------------------------------------------------------- spending


def test_looks_and_alphas__default_looks_at_one_percent():
    found = looks_and_alphas(LOOKS, 0.01)
    assert [look.n for look in found] == list(LOOKS)
    assert [look.may_regress for look in found] == [False, False, True, True, True]
    assert [look.alpha for look in found] == pytest.approx([0, 0, 0.01 * 4 / 15, 0.01 * 5 / 15, 0.01 * 6 / 15])


def test_looks_and_alphas__the_five_look_shape():
    found = looks_and_alphas(LOOKS, 0.5)
    assert [look.alpha / 0.5 for look in found] == pytest.approx([0.1, 0.15, 0.2, 0.25, 0.3])


def test_looks_and_alphas__a_look_is_added_where_none_may_speak():
    found = looks_and_alphas(LOOKS, 1e-7)
    assert [look.n for look in found] == [*LOOKS, 24]
    assert [look.alpha for look in found] == [0, 0, 0, 0, 0, 1e-7]


def test_looks_and_alphas__rounds_are_the_independent_units():
    found = looks_and_alphas(LOOKS, 0.01, pairs_per_round=4)
    assert all(not look.may_regress or 2.0 ** -(look.n // 4) <= look.alpha for look in found)
    assert found[-1].n == 28
    assert found[-1].may_regress


@pytest.mark.parametrize("looks", [(), (1, 5), (5, 5), (8, 5)])
def test_looks_and_alphas__looks_that_make_no_sense(looks):
    with pytest.raises(ValueError, match="looks must increase"):
        looks_and_alphas(looks, 0.01)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_looks_and_alphas__alpha_that_makes_no_sense(alpha):
    with pytest.raises(ValueError, match="alpha"):
        looks_and_alphas(LOOKS, alpha)


@given(
    st.lists(st.integers(2, 60), min_size=1, max_size=8, unique=True).map(sorted),
    st.floats(1e-9, 0.4),
    st.integers(1, 3),
)
def test_looks_and_alphas__spends_alpha_and_keeps_the_sign_rule(looks, alpha, per_round):
    found = looks_and_alphas(looks, alpha, pairs_per_round=per_round)
    assert math.fsum(look.alpha for look in found) == pytest.approx(alpha, rel=1e-12)
    for look in found:
        assert look.may_regress == (look.alpha > 0)
        assert not look.may_regress or 2.0 ** -(look.n // per_round) <= look.alpha
    speaking = [look.may_regress for look in found]
    assert speaking == sorted(speaking), "what may speak is a suffix"
    spent = [look.alpha for look in found]
    assert spent == sorted(spent), "later looks get more"


# ---------------------------------------------------------------- against the slow implementation


def test_t_quantile__the_reference_agrees_with_scipy():
    for df in (1, 2, 3, 7, 19, 40):
        for level in (0.8, 0.95, 0.975, 0.999, 1 - 1e-6):
            assert reference.t_quantile(level, df) == pytest.approx(float(stdtrit(df, level)), rel=1e-8)


def test_decide__agrees_with_the_slow_implementation_on_1000_random_inputs():
    rng = random.Random(20261130)
    seen: dict[str, int] = {}
    for _ in range(1000):
        looks = rng.choice([LOOKS, (4, 6, 8, 10), (12, 16, 20), (6,), (3, 30)])
        alpha = rng.choice([0.05, 0.01, 0.001, 0.00025])
        tolerance = rng.choice([0.0, 0.01, 0.03, 0.1])
        sd = rng.choice([0.0, 0.002, 0.01, 0.03, 0.1])
        mean = rng.choice([0.0, 0.01, 0.03, 0.05, 0.12, -0.02, -0.06, -0.2])
        x = [rng.gauss(mean, sd) for _ in range(rng.randint(0, 32))]
        final = rng.random() < 0.5
        found = decide(x, tolerance=tolerance, alpha=alpha, looks=looks, final=final)
        assert (found.state, found.n) == reference.decide(x, tolerance, alpha, looks, final), (x, looks, alpha, final)
        seen[found.state] = seen.get(found.state, 0) + 1
    assert set(seen) == {"continue", "regression", "pass", "improvement", "inconclusive"}
    assert min(seen.values()) >= 50, seen


def test_decide__numbers_agree_with_textbook_formulas():
    x = [0.02 + 0.05 * (-1) ** k + 0.001 * k for k in range(20)]
    found = decide(x, **RULE, final=True)
    mean = sum(x) / 20
    sd = math.sqrt(sum((value - mean) ** 2 for value in x) / 19)
    error = sd / math.sqrt(20)
    t = reference.t_quantile
    assert (found.state, found.n, found.units) == ("inconclusive", 20, 20)
    assert found.ratio == pytest.approx(math.exp(mean))
    assert found.mean == pytest.approx(mean)
    assert found.sd == pytest.approx(sd)
    assert found.ci_low == pytest.approx(math.exp(mean - t(0.975, 19) * error))
    assert found.ci_high == pytest.approx(math.exp(mean + t(0.975, 19) * error))
    assert found.upper == pytest.approx(math.exp(mean + t(0.95, 19) * error))
    assert found.mde == pytest.approx(math.exp((t(0.99, 19) + t(0.8, 19)) * error) - 1)


# ---------------------------------------------------------------- stopping


def test_decide__an_unchanged_model_passes_at_the_first_look():
    found = decide(draws(1, 0.0, 0.005), **RULE)
    assert (found.state, found.n) == ("pass", 5)


def test_decide__a_large_change_is_said_at_the_first_look_that_may_say_it():
    x = draws(1, 0.3, 0.01)
    assert decide(x[:5], **RULE).state == "continue"
    assert decide(x[:8], **RULE).state == "continue"
    assert (decide(x, **RULE).state, decide(x, **RULE).n) == ("regression", 12)


def test_decide__red_needs_the_estimate_at_the_limit():
    certain_but_small = draws(2, 0.02, 0.0005)
    found = decide(certain_but_small, **RULE)
    assert (found.state, found.certain_slower) == ("pass", True)


def test_decide__a_large_improvement_waits_for_the_look_that_may_say_it():
    x = draws(4, -0.1, 0.01)
    assert decide(x[:5], **RULE).state == "continue"
    assert decide(x, **RULE).state == "improvement"
    assert decide(x, **RULE).n == 12
    assert decide(x[:6], **RULE, final=True).state == "pass", "an early end is no reason to lose the pass"


def test_decide__noise_ends_inconclusive_at_n_max_and_not_before():
    x = [0.2 * (-1) ** k + 0.02 for k in range(20)]
    assert decide(x[:19], **RULE).state == "continue"
    assert (decide(x, **RULE).state, decide(x, **RULE).n) == ("inconclusive", 20)
    assert decide([*x, *x], **RULE).n == 20, "pairs past n_max are not looked at"


def test_decide__final_between_looks_spends_the_next_looks_alpha():
    x = draws(6, 0.08, 0.02, 10)
    assert decide(x, **RULE).state == "continue"
    found = decide(x, **RULE, final=True)
    assert (found.state, found.n) == ("regression", 10)
    assert found.alpha == pytest.approx(0.01 * 4 / 15)


def test_decide__final_before_the_sign_rule_holds_is_never_red():
    for n in range(9):
        assert decide([0.5 + 0.001 * k for k in range(n)], **RULE, final=True).state == "inconclusive"


def test_decide__final_with_no_limit_reached_early():
    found = decide(draws(7, 0.0, 0.3, 6), **RULE, final=True)
    assert (found.state, found.n) == ("inconclusive", 6)


# ---------------------------------------------------------------- B19: few samples and no spread


@pytest.mark.parametrize("x", [[], [0.2], [0.2, 0.2], [0.0, 0.0], [0.1, 0.2]])
@pytest.mark.parametrize("final", [True, False])
def test_decide__b19_too_few_pairs_decide_nothing(x, final):
    found = decide(x, **RULE, final=final)
    assert found.state == ("inconclusive" if final else "continue")
    assert found.n == len(x) < MIN_PAIRS
    numbers = [found.mean, found.sd, found.ratio, found.ci_low, found.ci_high, found.upper, found.mde]
    assert all(value is None or math.isfinite(value) for value in numbers)
    assert found.sd is None or len(x) >= 2
    assert not found.certain_slower


@pytest.mark.parametrize(
    ("change", "state", "n"),
    [(0.0, "pass", 5), (0.02, "pass", 5), (0.05, "regression", 12), (-0.05, "improvement", 12)],
)
def test_decide__b19_zero_variance_is_an_exact_comparison(change, state, n):
    found = decide([math.log1p(change)] * 20, **RULE)
    assert (found.state, found.n) == (state, n)
    assert found.ci_low == pytest.approx(1 + change)
    assert found.mde == pytest.approx(0, abs=1e-9)


def test_decide__huge_spread_gives_no_infinite_numbers():
    found = decide([600.0, -600.0, 600.0], **RULE, final=True)
    assert found.state == "inconclusive"
    assert found.ci_high is None
    assert found.upper is None
    assert found.mde is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_decide__refuses_what_is_not_finite(bad):
    with pytest.raises(ValueError, match="not finite"):
        decide([0.0, bad, 0.0], **RULE)


# ---------------------------------------------------------------- clusters


def test_decide__clusters_count_rounds_and_not_pairs():
    x = draws(8, 0.08, 0.01)
    clusters = [k // 2 for k in range(20)]
    found = decide(x, **RULE, clusters=clusters, pairs_per_round=2)
    means = [(x[2 * k] + x[2 * k + 1]) / 2 for k in range(8)]
    assert (found.state, found.n, found.units) == ("regression", 16, 8)
    assert found.mean == pytest.approx(sum(means) / 8)


def test_decide__pairs_that_share_a_round_cannot_fake_certainty():
    # Each round has its own luck; inside a round all pairs agree.
    x = [0.2, 0.2, 0.2, 0.2, 0.2, -0.1, -0.1, -0.1, -0.1, -0.1, 0.25, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2]
    clusters = [k // 5 for k in range(20)]
    assert decide(x, **RULE).state == "regression"
    assert decide(x, **RULE, clusters=clusters).state == "inconclusive"


def test_decide__as_many_clusters_as_log_ratios():
    with pytest.raises(ValueError, match="cluster numbers"):
        decide([0.1] * 6, **RULE, clusters=[0, 1])


# ---------------------------------------------------------------- properties

finite = st.floats(-0.5, 0.5).map(lambda value: round(value, 6))


@given(st.lists(finite, max_size=24), st.booleans())
def test_decide__mirrored_data_never_gives_both_colours(x, final):
    mirror = {"regression": "improvement", "improvement": "regression"}
    found = decide(x, **RULE, final=final)
    flipped = decide([-value for value in x], **RULE, final=final)
    if found.state == "regression":
        # The mirror image may have passed at an earlier look, for a pass is possible from the first on.
        assert flipped.state == "improvement" if flipped.n == found.n else flipped.state == "pass"
    elif found.state in mirror and flipped.n == found.n:
        assert flipped.state == mirror[found.state]


@given(st.lists(finite, min_size=20, max_size=20), st.randoms())
def test_decide__later_pairs_do_not_change_an_earlier_end(x, rng):
    first = decide(x, **RULE)
    if first.state == "inconclusive":
        return
    rest = x[first.n :]
    rng.shuffle(rest)
    assert decide([*x[: first.n], *rest], **RULE) == first
    assert decide(x[: first.n], **RULE) == first


@given(st.lists(finite, min_size=5, max_size=20), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_decide__a_wider_limit_is_never_redder(x, one, other):
    rank = {"improvement": 0, "pass": 0, "continue": 1, "inconclusive": 1, "regression": 2}
    low, high = sorted((one, other))
    looks = (len(x),)
    strict = decide(x, tolerance=low, alpha=0.05, looks=looks, final=True)
    wide = decide(x, tolerance=high, alpha=0.05, looks=looks, final=True)
    assert rank[wide.state] <= rank[strict.state]


@given(st.lists(finite, min_size=2, max_size=20))
def test_decide__interval_holds_the_estimate(x):
    found = decide(x, **RULE, final=True)
    assert found.ratio is not None
    if found.ci_low is not None and found.ci_high is not None and found.upper is not None:
        assert found.ci_low <= found.ratio * (1 + 1e-12)
        assert found.ratio <= found.upper * (1 + 1e-12) <= found.ci_high * (1 + 1e-11)


def test_one_sided_lower__needs_three_values():
    assert one_sided_lower([1.0, 2.0], 0.01) is None
    lower = one_sided_lower([1.0, 2.0, 3.0], 0.05)
    assert lower == pytest.approx(2 - reference.t_quantile(0.95, 2) / math.sqrt(3))


# ---------------------------------------------------------------- B22: measured false alarms


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.normal(0, 0.02, shape)


def lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.log(rng.lognormal(0, 0.03, shape) / rng.lognormal(0, 0.03, shape))


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    # Drift of the machine: base and head of a pair lie side by side, so the pair ratio sees its differences.
    steps = rng.normal(0, 0.02, (shape[0], 2 * shape[1]))
    drift = np.zeros_like(steps)
    for k in range(1, steps.shape[1]):
        drift[:, k] = 0.9 * drift[:, k - 1] + steps[:, k]
    ratios: np.ndarray = drift[:, 1::2] - drift[:, ::2]
    return ratios


def bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    # B23, M65: each process lands in one of two modes 13 % apart, on both sides alike.
    level = np.log(1.13)
    modes = rng.integers(0, 2, shape) - rng.integers(0, 2, shape)
    ratios: np.ndarray = level * modes + rng.normal(0, 0.001, shape)
    return ratios


@pytest.mark.parametrize("noise", [normal, lognormal, autocorrelated, bimodal])
def test_decide__b22_false_alarms_stay_within_alpha(noise):
    # tolerance 0 takes the second condition away: what is left is the pure size of the test, its worst case.
    runs, alpha = 4000, 0.05
    x = noise(np.random.default_rng(22), (runs, 20))
    flagged = np.zeros(runs, bool)
    for look in looks_and_alphas(LOOKS, alpha):
        if not look.may_regress:
            continue
        part = x[:, : look.n]
        error = part.std(1, ddof=1) / math.sqrt(look.n)
        flagged |= part.mean(1) - float(stdtrit(look.n - 1, 1 - look.alpha)) * error > 0
    # The vectorised form is the same rule: each row gives what decide gives.
    states = [decide(row, tolerance=0.0, alpha=alpha, looks=LOOKS).state == "regression" for row in x[:100].tolist()]
    assert np.all(flagged[:100] >= np.array(states))
    # Three standard errors of a rate of 5 % over 4 000 runs.
    assert flagged.mean() <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)


def test_decide__b22_a_gate_at_three_percent_on_a_noisy_runner():
    rng = np.random.default_rng(1)
    states = [decide(row, **RULE).state for row in rng.normal(0, 0.08, (1000, 20)).tolist()]
    assert states.count("regression") <= 10 + 3 * math.sqrt(10)
    assert states.count("inconclusive") > 200, "a runner this noisy cannot carry a gate of 3 %, and the rule says so"
