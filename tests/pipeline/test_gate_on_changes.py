"""Whose code, whose policy, which models: the gate on small pull requests, with torch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from perfgate.store.open import open_store
from tests.pipeline.repositories import GATE, LINEAR, gate, gate_environment, left_behind, model, repository

pytestmark = [pytest.mark.torch, pytest.mark.slow]

# Thirty-two times the work of base: red on any machine.
HEAVY = LINEAR.replace(
    "return nn.Sequential(", "return nn.Sequential(*(nn.Linear(64, 64) for _ in range(400)), "
)  # fmt: skip


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory):
    """One pull request: a slower model, an untouched one, a removed one, a new one, a broken one, a loosened policy."""
    folder = tmp_path_factory.mktemp("mixed") / "a repository"
    names = ("slow", "same", "gone", "broken")
    base = {"perfgate.toml": GATE + "".join(model(n) for n in names), **{f"{n}.py": LINEAR for n in names}}
    base["helper.py"] = "WIDTH = 64\n"
    loosened = GATE.replace('tolerance = "50%"', 'tolerance = "99%"')
    head = {
        "slow.py": HEAVY,
        "broken.py": LINEAR + "\nimport not_installed_anywhere\n",
        "fresh.py": LINEAR,
        "perfgate.toml": loosened + "".join(model(n) for n in ("slow", "same", "broken", "fresh")),
    }
    repo = repository(folder, base, head)
    return repo, gate(repo)


def test_slower_model__is_red_by_the_policy_of_base(mixed) -> None:
    """B15: no other policy is consulted, neither head's nor an older one."""
    repo, run = mixed
    assert run.code == 1, run.out + run.err
    assert run.row("slow", "latency")["verdict"] == "regression"
    assert run.row("slow", "latency")["limit"] == 0.5
    assert run.row("slow", "flop")["ratio"] > 10
    assert any("policy" in banner for banner in run.report["banners"])
    assert left_behind(repo) == []


def test_unchanged_model__passes_when_the_configuration_touches_everything(mixed) -> None:
    assert mixed[1].row("same", "flop")["verdict"] == "pass"
    assert mixed[1].model("same")["verdict"] in {"pass", "inconclusive"}


def test_removed_model__is_missing_and_red(mixed) -> None:
    assert mixed[1].model("gone")["verdict"] == "missing"


def test_new_model__has_no_baseline_and_is_not_green(mixed) -> None:
    """B10."""
    assert mixed[1].model("fresh")["verdict"] in {"no-baseline", "new"}


def test_head_that_does_not_import__is_red_with_the_last_line_in_the_comment(mixed) -> None:
    assert mixed[1].model("broken")["verdict"] == "regression"
    assert "not_installed_anywhere" in (mixed[1].folder / "comment.md").read_text(encoding="utf-8").replace("\\", "")


def test_every_side_that_ran__is_recorded(mixed) -> None:
    repo, _ = mixed
    with open_store(str(repo / ".perfgate" / "baselines.sqlite")) as store:
        count = store.count()
    # slow and same on both sides; gone and broken on base; fresh on head.
    assert count == 7


def test_report__derives_the_same_verdicts_from_the_evidence(mixed) -> None:
    """M12: nothing stored elsewhere, on whatever machine, has a say."""
    _, run = mixed
    command = [sys.executable, "-m", "perfgate", "report", str(run.folder), "--out", str(run.folder / "again")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    again = json.loads((run.folder / "again" / "report.json").read_text(encoding="utf-8"))
    assert again == run.report


def test_untouched_model__is_skipped_with_the_reason(tmp_path: Path) -> None:
    base = {"perfgate.toml": GATE + model("one") + model("two"), "one.py": LINEAR, "two.py": LINEAR}
    repo = repository(tmp_path / "repo", base, {"one.py": LINEAR + '\n"""More words."""\n'})
    run = gate(repo)
    assert run.code == 0, run.out
    assert [m["model"] for m in run.report["models"]] == ["one"]
    assert run.row("one", "latency")["pairs"] >= 3
    (skipped,) = run.report["skipped"]
    assert skipped["model"] == "two"


def test_no_policy_on_base__reports_only(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"net.py": LINEAR}, {"net.py": HEAVY, "perfgate.toml": GATE + model("net")})
    run = gate(repo)
    assert run.code == 0, run.out
    assert run.row("net", "latency")["ratio"] > 1.5
    assert "after merge" in (run.folder / "comment.md").read_text(encoding="utf-8")


def test_base_that_does_not_import__is_no_baseline(tmp_path: Path) -> None:
    base = {"perfgate.toml": GATE + model("net"), "net.py": "import not_installed_anywhere\n"}
    run = gate(repository(tmp_path / "repo", base, {"net.py": LINEAR}))
    assert run.code == 0, run.out
    assert run.report["verdict"] == "no-baseline"
    assert run.report["check"] == "neutral"


def test_both_sides_fail__is_not_judged(tmp_path: Path) -> None:
    base = {"perfgate.toml": GATE + model("net"), "net.py": "import not_installed_anywhere\n"}
    run = gate(repository(tmp_path / "repo", base, {"net.py": "import not_installed_anywhere  # still\n"}))
    assert run.code == 3, run.out
    assert run.report["verdict"] == "error"
    assert run.report["check"] == "failure"


def test_editable_install_of_the_main_checkout__is_refused(tmp_path: Path) -> None:
    # "." is on the path, src is not: only the editable install makes the package importable.
    config = GATE + model("net", "pkg.net")
    base = {"perfgate.toml": config, "src/pkg/__init__.py": "", "src/pkg/net.py": LINEAR}
    repo = repository(tmp_path / "repo", base, {"src/pkg/net.py": HEAVY})
    venv.create(tmp_path / "venv", with_pip=False)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    outer = [path for path in sys.path if path.endswith("site-packages")]
    (site / "deps.pth").write_text("\n".join(outer), encoding="utf-8")
    (site / "editable.pth").write_text(str(repo / "src"), encoding="utf-8")
    run = gate(repo, "--python", str(tmp_path / "venv" / "bin" / "python"))
    assert run.code == 2, run.out
    assert "pythonpath" in run.out
    assert "src/pkg" in run.out


NOTES_ITS_PROCESS = (
    LINEAR
    + """

import os

inner = build

def build():
    with open(PLACE, "a") as file:
        file.write(f"{__name__} {os.getpid()}\\n")
    return inner()
"""
)


def test_two_runs_at_once__wait_for_each_other_and_share_no_process(tmp_path: Path) -> None:
    """M05: every workload has processes of its own, on each side and in each run."""
    note = tmp_path / "processes.txt"
    text = NOTES_ITS_PROCESS.replace("PLACE", repr(str(note)))
    base = {"perfgate.toml": GATE + model("one") + model("two"), "one.py": text, "two.py": text}
    repo = repository(tmp_path / "repo", base, {"one.py": text + "# more\n", "two.py": text + "# more\n"})
    command = [sys.executable, "-m", "perfgate", "run", "--base", "main", "--head", "change", "--quiet", "--out"]
    runs = [
        subprocess.Popen([*command, str(tmp_path / f"out-{n}")], cwd=repo, env=gate_environment(repo), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(2)
    ]  # fmt: skip
    for process in runs:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, out + err
    assert left_behind(repo) == []
    lines = note.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines))
    assert len({line.split()[1] for line in lines}) == len(lines)
    # Two runs x two models x two sides x (two probes and at least three pairs).
    assert len(lines) >= 2 * 2 * 2 * 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt__leaves_no_process_and_no_worktree(tmp_path: Path, number: int) -> None:
    config = GATE.replace("looks = [3, 8]", "looks = [150, 200]") + model("net")
    repo = repository(tmp_path / "repo", {"perfgate.toml": config, "net.py": LINEAR}, {"net.py": LINEAR + "\n"})
    # A background job inherits SIGINT as ignored; a person's terminal does not.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "perfgate", "run", "--base", "main"]
    command += ["--head", "change", "--out", str(tmp_path / "o")]
    environment = gate_environment(repo)
    process = subprocess.Popen(
        command, cwd=repo, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "pair 2" in line:
            break
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    deadline = time.monotonic() + 5
    while left_behind(repo) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(repo) == []
    measurements = json.loads((tmp_path / "o" / "measurements.json").read_text(encoding="utf-8"))
    assert measurements["error"]["exit_code"] == 130
    assert measurements["workloads"][0]["pairs"]
