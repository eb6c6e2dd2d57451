"""The benchmark of the rules runs, and its simulated machine is the one that its table describes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import gate_rules


def test_main__prints_a_row_for_every_rule(capsys):
    assert gate_rules.main(["--runs", "10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("10 runs a cell")
    for rule in (*gate_rules.OURS, *gate_rules.PEERS):
        assert f"| {rule} " in out
    assert "nan" not in out


def test_main__refuses_no_runs(capsys):
    with pytest.raises(SystemExit):
        gate_rules.main(["--runs", "0"])
    assert "at least 1" in capsys.readouterr().err


def test_pair_log_ratios__centre_on_the_effect():
    machine = gate_rules.Machine(rng=np.random.default_rng(1), runs=400, cv=0.01)
    ratios = gate_rules.pair_log_ratios(machine, 0.05)
    assert ratios.shape == (400, 20)
    assert ratios.mean() == pytest.approx(math.log(1.05), abs=0.001)
    assert 0.007 < ratios.std() < 0.012


def test_machine__a_job_drifts_and_a_batch_is_one_process():
    machine = gate_rules.Machine(rng=np.random.default_rng(2), runs=2000, cv=0.03)
    drift = machine.drift(50)
    near = np.corrcoef(drift[:, 20], drift[:, 21])[0, 1]
    far = np.corrcoef(drift[:, 0], drift[:, 49])[0, 1]
    assert near > 0.95 > 0.6 > far
    batch = machine.batch(200)
    assert batch.shape == (2000, 200)
    # Between batches there is drift and a process effect on top of what iterations alone would average to.
    assert batch.mean(1).std() > 5 * 0.03 / math.sqrt(200)
