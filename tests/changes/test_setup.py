"""A side made ready: its command, its cache, its interpreter."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from perfgate.changes.setup import Prepared, prepare_side
from perfgate.errors import CheckoutError, UsageError
from perfgate.records.protocol import Failed
from perfgate.records.workload import SideConfig

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


class Place:
    """A checkout and a repository below one folder, with what :func:`prepare_side` needs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkout, self.repository = root / "run" / "base", root / "repo"
        self.checkout.mkdir(parents=True)
        self.repository.mkdir()

    def prepare(self, name: str = "base", environ=ENVIRON, **keys):
        side = SideConfig(source="perfgate.toml", **keys)
        return prepare_side(
            side, self.checkout, self.repository, name=name, cache_dir=self.root / "cache",
            log=self.root / "setup.log", environ=environ,
        )  # fmt: skip

    def interpreter(self, path: Path, version: str = "3.11.2") -> str:
        """A program that answers as a Python of that version would."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "with space")


def test_prepare_side__runs_in_the_checkout_with_a_cache(place):
    prepared = place.prepare(python=sys.executable, setup='pwd; echo "$PERFGATE_CACHE_DIR" > cache.txt')
    assert isinstance(prepared, Prepared)
    cache = (place.checkout / "cache.txt").read_text(encoding="utf-8").strip()
    assert prepared.env == {"PERFGATE_CACHE_DIR": cache}
    assert Path(cache).is_dir()
    assert Path(cache).name.startswith("base-")
    assert (place.root / "setup.log").read_text(encoding="utf-8").strip() == str(place.checkout)
    assert prepared.version == ".".join(map(str, sys.version_info[:3]))


def test_prepare_side__nothing_to_set_up(place):
    prepared = place.prepare(python=sys.executable)
    assert (prepared.python, prepared.env) == (sys.executable, {})
    assert not (place.root / "cache").exists()


def test_prepare_side__cache_lasts_until_what_it_depends_on_changes(place):
    def cache(name: str = "base", setup: str = "true", **keys):
        return place.prepare(name, python=sys.executable, setup=setup, **keys).env["PERFGATE_CACHE_DIR"]

    first = cache()
    (place.checkout / "model.py").write_text("x", encoding="utf-8")
    assert cache() == first
    assert cache(setup="true ") != first
    for name in ("uv.lock", "requirements.txt", "requirements/dev.in"):
        (place.checkout / name).parent.mkdir(exist_ok=True)
        before = cache()
        (place.checkout / name).write_text("torch==2", encoding="utf-8")
        assert cache() != before
    head = cache("head")
    assert head != cache()
    assert len(head) == len(cache())


def test_prepare_side__base_that_fails_stops_the_run(place):
    with pytest.raises(CheckoutError, match=r"^base: setup ended with exit code 3: no such wheel; correct setup"):
        place.prepare(setup="echo installing; echo; echo no such wheel >&2; exit 3")


def test_prepare_side__first_failing_line_ends_setup(place):
    with pytest.raises(CheckoutError, match="exit code 1"):
        place.prepare(setup="false\ntouch later")
    assert not (place.checkout / "later").exists()


def test_prepare_side__head_that_fails_is_a_result(place):
    failed = place.prepare("head", setup="for i in $(seq 30); do echo line $i; done; exit 1")
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.phase) == ("exited", "setup")
    assert failed.message == "setup ended with exit code 1: line 30"
    assert failed.trace.splitlines() == [f"line {number}" for number in range(11, 31)]


def test_prepare_side__without_a_word(place):
    assert place.prepare("head", setup="exit 1").message == "setup ended with exit code 1, without a word"


def test_prepare_side__last_line_is_fit_for_a_message(place):
    message = place.prepare("head", setup="printf '%0999d\\033[31mred\\377' 0; exit 1").message
    assert message.isprintable()
    assert message.endswith("[31mred\ufffd")
    assert len(message) < 600


def test_prepare_side__ended_by_a_signal(place):
    assert place.prepare("head", setup="kill -9 $$").message.startswith("setup was ended by SIGKILL")


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _is_running(pid)


def test_prepare_side__time_limit_ends_the_whole_group(place):
    # The shell ignores the polite request, as installers do; its child must be ended too.
    setup = "trap '' TERM; sleep 1000 & echo $! > pid; echo busy; while :; do wait; done"
    started = time.monotonic()
    failed = place.prepare("head", setup=setup, setup_timeout_s=1.0)
    assert (failed.kind, failed.message) == ("hung", "setup was stopped after 1 s: busy")
    assert time.monotonic() - started < 500
    assert _ends(int((place.checkout / "pid").read_text(encoding="utf-8")))


def test_prepare_side__what_setup_leaves_running_is_ended(place):
    prepared = place.prepare(python=sys.executable, setup="sleep 1000 & echo $! > pid")
    assert isinstance(prepared, Prepared)
    assert _ends(int((place.checkout / "pid").read_text(encoding="utf-8")))


def test_prepare_side__what_leaves_the_group_is_ended_too(place):
    setup = "setsid sh -c 'echo $$ > pid; sleep 1000' & while [ ! -s pid ]; do sleep 0.01; done"
    prepared = place.prepare(python=sys.executable, setup=setup)
    assert isinstance(prepared, Prepared)
    assert "PERFGATE_NONCE" not in prepared.env
    assert _ends(int((place.checkout / "pid").read_text(encoding="utf-8")))


def test_prepare_side__output_that_is_not_utf8(place):
    assert place.prepare("head", setup="printf 'caf\\351\\n'; exit 1").message.endswith(": caf\ufffd")


def test_prepare_side__relative_interpreter_from_the_checkout_first(place):
    own = place.interpreter(place.checkout / ".venv/bin/python")
    shared = place.interpreter(place.repository / ".venv/bin/python")
    assert place.prepare(python=".venv/bin/python").python == own
    Path(own).unlink()
    assert place.prepare(python=".venv/bin/python").python == shared


def test_prepare_side__link_into_an_environment_is_not_resolved(place):
    real = place.interpreter(place.root / "real")
    link = place.checkout / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert place.prepare(python="venv/bin/python").python == str(link)


def test_prepare_side__interpreter_that_setup_makes_in_its_cache(place):
    source = place.interpreter(place.root / "real")
    prepared = place.prepare(python="$PERFGATE_CACHE_DIR/python", setup=f"cp '{source}' \"$PERFGATE_CACHE_DIR/python\"")
    assert prepared.python == f"{prepared.env['PERFGATE_CACHE_DIR']}/python"


def test_prepare_side__missing_interpreter_names_both_places(place):
    with pytest.raises(UsageError) as caught:
        place.prepare(python="venv/bin/python")
    assert str(place.checkout / "venv/bin/python") in str(caught.value)
    assert str(place.repository / "venv/bin/python") in str(caught.value)


def test_prepare_side__missing_absolute_interpreter(place):
    with pytest.raises(UsageError, match="no program at /nonexistent/python;"):
        place.prepare(python="/nonexistent/python")


def test_prepare_side__default_is_the_active_environment_then_path(place):
    active = place.interpreter(place.root / "venv/bin/python")
    found = place.interpreter(place.root / "bin/python3")
    environ = {"PATH": f"{place.root}/bin{os.pathsep}/usr/bin{os.pathsep}/bin", "VIRTUAL_ENV": f"{place.root}/venv"}
    assert place.prepare(environ=environ).python == active
    Path(active).unlink()
    assert place.prepare(environ=environ).python == found
    assert place.prepare(environ=environ, python="python3").python == found


def test_prepare_side__nothing_on_path(place):
    with pytest.raises(UsageError, match="no python3 on PATH"):
        place.prepare(environ={"PATH": "/nonexistent"})
    with pytest.raises(UsageError, match=r"python = 'python3.11' is not on PATH"):
        place.prepare(environ={"PATH": "/nonexistent"}, python="python3.11")


@pytest.mark.parametrize("version", ["3.9.18", "2.7.18"])
def test_prepare_side__too_old(place, version):
    old = place.interpreter(place.root / "old")
    place.interpreter(Path(old), version)
    with pytest.raises(UsageError, match=rf"is Python {version}, and workers need 3\.10 or later"):
        place.prepare(python=old)


def test_prepare_side__program_that_is_no_python(place):
    other = place.interpreter(place.root / "other", "hello")
    with pytest.raises(UsageError, match="is not a Python that runs"):
        place.prepare(python=other)
    Path(other).write_text("no program at all", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a Python that runs"):
        place.prepare(python=other)
