"""What cannot or need not be measured: one clear line, the right exit code, outputs all the same. Without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.repositories import (
    GATE,
    LINEAR,
    commit,
    gate,
    gate_environment,
    left_behind,
    model,
    repository,
    write,
)

NET = {"perfgate.toml": GATE + model("net"), "net.py": LINEAR}


def test_run__without_any_configuration(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"net.py": LINEAR}, {"net.py": LINEAR + "\n"})
    run = gate(repo)
    assert run.code == 2
    assert "perfgate.toml" in run.out
    assert run.report is not None
    assert run.report["verdict"] == "error"
    assert {path.name for path in run.folder.iterdir()} >= {"measurements.json", "comment.md", "report.html"}


def test_run__configuration_that_is_not_committed_is_named(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"net.py": LINEAR}, {"net.py": LINEAR + "\n"})
    write(repo, {"perfgate.toml": NET["perfgate.toml"]})
    run = gate(repo)
    assert run.code == 2
    assert "commit it" in run.out


def test_run__three_configuration_errors_are_said_at_once(tmp_path: Path) -> None:
    wrong = GATE.replace('tolerance = "50%"', 'tolerence = "50%"') + model("net", batch='"many"') + "[models.other]\n"
    repo = repository(tmp_path / "repo", NET, {"perfgate.toml": wrong})
    run = gate(repo)
    assert run.code == 2
    for word in ("tolerence", "models.net.batch", "models.other"):
        assert word in run.out
    assert "tolerance" in run.out
    assert "Traceback" not in run.err


def test_run__configuration_behind_a_link_in_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"conf/gate.toml": NET["perfgate.toml"], "net.py": LINEAR}, {})
    (repo / "perfgate.toml").symlink_to("conf/gate.toml")
    commit(repo)
    run = gate(repo, env={"PERFGATE_MODE": "off"})
    assert run.code == 0, run.out
    assert [skipped["model"] for skipped in run.report["skipped"]] == ["net"]


@pytest.mark.parametrize("place", ["/etc/perfgate.toml", "../perfgate.toml"])
def test_run__configuration_outside_of_the_repository(tmp_path: Path, place: str) -> None:
    run = gate(repository(tmp_path / "repo", NET, {}), "--config", place)
    assert run.code == 2
    assert "relative to the repository" in run.out


def test_run__model_that_only_one_side_has(tmp_path: Path) -> None:
    both = {"perfgate.toml": NET["perfgate.toml"] + model("second", "net")}
    for name, base, head in (("added", NET, both), ("removed", both | {"net.py": LINEAR}, NET)):
        repo = repository(tmp_path / name, base, head)
        run = gate(repo, "--model", "second", env={"PERFGATE_MODE": "off"})
        assert run.code == 0, run.out


def test_run__unknown_models_are_named_beside_known_ones(tmp_path: Path) -> None:
    run = gate(repository(tmp_path / "repo", NET, {}), "--model", "net", "--model", "nett", "--model", "tne")
    assert run.code == 2
    assert "models.nett" in run.out
    assert "models.tne" in run.out
    assert "known: net" in run.out


def test_run__name_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are part of some names; they must cost neither the outputs nor the exit code."""
    run = gate(repository(tmp_path / "repo", NET, {}), head=os.fsdecode(b"caf\xe9"))
    assert run.code == 2
    assert run.report["verdict"] == "error"
    assert {path.name for path in run.folder.iterdir()} >= {"measurements.json", "comment.md", "report.html"}


@pytest.mark.parametrize("arguments", [("--config", "none.toml"), ("--model", "other"), ("--head", "no-such-branch")])
def test_calibrate__refuses_with_the_exit_code_of_the_fault(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    repo = repository(tmp_path / "repo", NET, {})
    command = [sys.executable, "-m", "perfgate", "calibrate", "--quiet", "--out", str(tmp_path / "out"), *arguments]
    done = subprocess.run(command, cwd=repo, env=gate_environment(repo), capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert arguments[1] in done.stderr
    assert (tmp_path / "out" / "measurements.json").is_file()


def test_run__unknown_revision(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {})
    run = gate(repo, base="no-such-branch")
    assert run.code == 2
    assert "no-such-branch" in run.out


def test_run__outside_a_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    run = gate(tmp_path / "plain")
    assert run.code == 2
    assert "repository" in run.out


def test_run__only_documentation_changed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n", "docs/guide.md": "more words\n"})
    run = gate(repo)
    assert run.code == 0, run.out
    assert run.report is not None
    assert run.report["verdict"] == "unchanged"
    assert run.report["check"] == "success"
    assert run.report["skipped"] == [{"model": "net", "reason": "only documentation changed"}]
    assert left_behind(repo) == []


def test_run__switched_off_by_the_environment(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {"net.py": LINEAR + "# slower\n"})
    run = gate(repo, env={"PERFGATE_MODE": "off"})
    assert run.code == 0
    assert "PERFGATE_MODE" in run.out
    assert (run.report["verdict"], run.report["check"]) == ("not-measured", "neutral")


def test_run__output_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """M64: the verdict is told although no file can be written."""
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    (tmp_path / "file").write_text("", encoding="utf-8")
    run = gate(repo, "--out", str(tmp_path / "file" / "out"))
    assert run.code == 3
    assert "UNCHANGED" in run.out
    assert "--out" in run.err
    assert "Traceback" not in run.err


def test_run__disk_full_for_the_outputs(tmp_path: Path) -> None:
    """M64: a file size limit stands in for a full disk."""
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    run = gate(repo, prefix=("bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "limited"))
    assert run.code == 3, run.out + run.err
    assert "UNCHANGED" in run.out
    assert "cannot be written" in run.err
    assert "Traceback" not in run.err
    assert not list(run.folder.glob("*.part"))


@pytest.mark.parametrize("redirection", ["| true", ">/dev/full", ">&-"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_run__standard_output_that_takes_nothing(tmp_path: Path, redirection: str, options: tuple[str, ...]) -> None:
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    shell = ("bash", "-o", "pipefail", "-c", f'sleep 0.1; "$@" {redirection}', "limited")
    run = gate(repo, *options, prefix=shell)
    assert run.code == 0, run.err
    assert run.report["verdict"] == "unchanged"
    assert "Traceback" not in run.err
    assert "Exception" not in run.err


def test_run__folder_that_was_removed(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {})
    (repo / "gone").mkdir()
    run = gate(repo, prefix=("sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "lost"))
    assert run.code == 2
    assert "current folder" in run.err


def test_run__interpreter_that_is_not_there(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {"net.py": LINEAR + "\n"})
    run = gate(repo, "--python", ".venv/bin/python")
    assert run.code == 2
    assert ".venv/bin/python" in run.out
    assert left_behind(repo) == []


@pytest.mark.parametrize("store", ["broken.sqlite", "mysql://host/name"])
def test_run__unusable_database_is_found_before_measuring_and_not_touched(tmp_path: Path, store: str) -> None:
    repo = repository(tmp_path / "repo", NET, {"net.py": LINEAR + "\n"})
    broken = tmp_path / "broken.sqlite"
    content = b"not a database, but many bytes of something else" * 100
    broken.write_bytes(content)
    run = gate(repo, "--store", store if "://" in store else str(tmp_path / store))
    assert run.code == 4, run.out + run.err
    assert run.report["verdict"] == "error"
    assert not run.report["models"]
    assert broken.read_bytes() == content


@pytest.mark.parametrize("variables", [{"LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}, {"LANG": "de_DE", "LC_ALL": ""}])
def test_run__in_any_locale(tmp_path: Path, variables: dict[str, str]) -> None:
    repo = repository(tmp_path / "répo with space", NET, {"README.md": "wörds\n"})
    run = gate(repo, env=variables)
    assert run.code == 0, run.err
    assert "unchanged" in (run.folder / "report.json").read_text(encoding="utf-8")


def test_run__a_new_commit_changes_the_answer(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    first = gate(repo)
    write(repo, {"CHANGELOG.md": "more\n"})
    head = commit(repo)
    second = gate(repo)
    assert first.report is not None
    assert second.report is not None
    assert second.report["head"]["sha"] == head != first.report["head"]["sha"]


def test_run__own_comment_template(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    own = tmp_path / "own.j2"
    own.write_text(
        '{% extends "comment.md.j2" %}{% block footer %}Ask the team of {{ report.policy.source }}.{% endblock %}',
        encoding="utf-8",
    )
    run = gate(repo, "--template", str(own))
    assert run.code == 0, run.err
    assert "Ask the team of perfgate" in (run.folder / "comment.md").read_text(encoding="utf-8").replace("\\", "")


@pytest.mark.parametrize("text", ["{{ missing }}", "{{ ''.__class__.__mro__ }}", "{% block"])
def test_run__faulty_comment_template_costs_no_report(tmp_path: Path, text: str) -> None:
    repo = repository(tmp_path / "repo", NET, {"README.md": "words\n"})
    own = tmp_path / "own.j2"
    own.write_text(text, encoding="utf-8")
    run = gate(repo, "--template", str(own))
    assert run.code == 2
    assert "Traceback" not in run.err
    assert "UNCHANGED" in run.out
    assert (run.folder / "comment.md").is_file()
