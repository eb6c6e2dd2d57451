from __future__ import annotations

import os
import sys

import pytest

from perfgate.bench import machine
from perfgate.bench.progress import NullProgress
from perfgate.errors import MeasuringError
from perfgate.pipeline import roofline
from perfgate.pipeline.request import Ports
from perfgate.records.hardware import MeasuredRoofline


def measured(device="cpu", rate=1e11):
    return MeasuredRoofline(
        device=device,
        label="some CPU",
        flop_per_s={"float32": rate},
        bandwidth_bytes_per_s=2e10,
        probe_bytes=2**28,
        measured_at="2026-11-30T12:00:00Z",
    )


def test_known__what_was_kept_for_this_hardware_alone(tmp_path):
    roofline.keep(tmp_path, "here", (measured(), measured("cuda:0")))
    roofline.keep(tmp_path, "there", (measured(rate=9e11),))
    roofline.keep(tmp_path, "here", (measured(rate=2e11),))
    found = {one.device: one.flop_per_s["float32"] for one in roofline.known(tmp_path, "here")}
    assert found == {"cpu": 2e11, "cuda:0": 1e11}
    assert roofline.known(tmp_path, "elsewhere") == ()
    assert (tmp_path / ".perfgate/.gitignore").read_text() == "*\n"


def test_known__a_damaged_or_foreign_file_is_no_roofline(tmp_path):
    roofline.keep(tmp_path, "here", (measured(),))
    for text in ("{", '{"format": 99, "rooflines": {}}', "[]"):
        (tmp_path / roofline.FILE).write_text(text)
        assert roofline.known(tmp_path, "here") == ()


def test_probe__this_machine_for_real(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFGATE_LOCK_DIR", str(tmp_path))
    ports = Ports(progress=NullProgress(), environ=os.environ)
    [found] = roofline.probe(tmp_path, ports, ("cpu",), python=sys.executable)
    assert found.flop_per_s["float32"] > 1e8
    assert found.bandwidth_bytes_per_s > 1e8
    assert found.probe_bytes >= 4 * (found.cache_bytes or 0)
    assert found.software.startswith("torch 2.")
    assert roofline.known(tmp_path, machine.environment().hardware_id) == (found,)


def test_known__what_cannot_be_true_is_no_roofline(tmp_path):
    roofline.keep(tmp_path, "here", (measured(rate=0.0), measured("cuda:0", rate=1e308), measured("cuda:1")))
    assert [one.device for one in roofline.known(tmp_path, "here")] == ["cuda:1"]


def test_known__a_pipe_or_a_folder_in_its_place_is_no_roofline(tmp_path):
    place = tmp_path / roofline.FILE
    place.parent.mkdir()
    os.mkfifo(place)
    assert roofline.known(tmp_path, "here") == ()
    place.unlink()
    place.mkdir()
    assert roofline.known(tmp_path, "here") == ()
    with pytest.raises(MeasuringError, match="cannot be written") as caught:
        roofline.keep(tmp_path, "here", (measured(),))
    assert "--out" not in str(caught.value)


def test_probe__a_folder_that_cannot_be_written_is_said_before_measuring(tmp_path, monkeypatch):
    (tmp_path / ".perfgate").write_text("a file")

    def opened(*_args, **_options):
        pytest.fail("nothing may be measured for nothing")

    monkeypatch.setattr(roofline, "opened", opened)
    ports = Ports(progress=NullProgress(), environ=os.environ)
    with pytest.raises(MeasuringError, match="cannot be written"):
        roofline.probe(tmp_path, ports, ("cpu",), python=sys.executable)
