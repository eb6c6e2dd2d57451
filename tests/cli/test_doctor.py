"""``perfgate doctor`` as a user types it; probing itself is tested with the pipeline."""

from __future__ import annotations

import json
import os

import pytest

from perfgate.bench import machine
from perfgate.cli import app
from perfgate.pipeline import roofline
from perfgate.records.hardware import MeasuredRoofline


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = app.run(["doctor", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def keep(tmp_path, rate=1e11):
    probe = MeasuredRoofline(
        device="cpu",
        label="some CPU [bold]",
        flop_per_s={"float32": rate},
        bandwidth_bytes_per_s=2e10,
        probe_bytes=2**28,
        measured_at="2026-11-30T12:00:00Z",
    )
    roofline.keep(tmp_path, machine.environment(os.environ).hardware_id, (probe,))


def test_doctor__says_what_was_measured_before_and_its_name_on_one_line(doctor, tmp_path):
    assert "not measured here yet" in doctor()[1]
    keep(tmp_path)
    code, out, err = doctor()
    assert code == 0, err
    assert "Roofline of cpu (some CPU [bold]), measured 2026-11-30T12:00:00Z\n" in out
    assert "5.00 FLOP/B" in out
    assert len(json.loads(doctor("--json")[1])["rooflines"]) == 1


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e308])
def test_doctor__a_file_with_rates_that_cannot_be_is_as_none(doctor, tmp_path, rate):
    keep(tmp_path, rate)
    code, out, err = doctor()
    assert (code, err) == (0, "")
    assert "not measured here yet" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "cpu"), "add --roofline"),
        (("--roofline", "--device", "gpu"), "'gpu' is no device"),
        (("--roofline", "--device", ""), "is no device"),
        (("--roofline", "--config", "absent.toml"), "absent.toml"),
    ],
)
def test_doctor__wrong_arguments_are_one_sentence_and_2(doctor, arguments, words):
    code, _, err = doctor(*arguments)
    assert code == 2, err
    assert words in err
