"""Small repositories with a perfgate.toml, and the gate run on them as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false",
       "-c", "protocol.file.allow=always")  # fmt: skip

# Quick and decisive: two looks, short blocks, several pairs from the same parents.
GATE = """
version = 1
[gate]
looks = [3, 8]
pairs_per_round = 8
independent_pairs = true
block = "4ms"
groups = 1
tolerance = "50%"
false_alarm_rate = "5%"
"""

LINEAR = '''
"""A tiny model."""
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
'''


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder`` and return what it printed."""
    return subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    """Write ``files`` (name -> text) below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"), encoding="utf-8")


def commit(folder: Path, message: str = "change") -> str:
    """Commit everything; the new commit's SHA."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, base: dict[str, str], head: dict[str, str]) -> Path:
    """A repository whose ``main`` holds ``base`` and whose ``change`` has ``head`` written over it."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    write(folder, base)
    commit(folder, "base")
    git(folder, "switch", "--quiet", "--create", "change")
    write(folder, head)
    commit(folder, "head")
    return folder


def model(name: str, module: str = "", **extra: str) -> str:
    """A ``[models.NAME]`` table for ``MODULE:build`` with a 64-wide input."""
    lines = [f"[models.{name}]", f'entry = "{module or name}:build"', 'inputs = ["float32[batch,64]"]']
    lines += [f"{key} = {value}" for key, value in extra.items()]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Gate:
    """What a run left: exit code, both streams, and report.json (None if there is none)."""

    code: int
    out: str
    err: str
    report: Any
    folder: Path

    def row(self, key: str, metric: str) -> dict[str, Any]:
        """The row of ``metric`` of the workload of model ``key``."""
        (found,) = (row for row in self.model(key)["metrics"] if row["metric"] == metric)
        result: dict[str, Any] = found
        return result

    def model(self, key: str) -> dict[str, Any]:
        """The workload of model ``key``."""
        assert self.report is not None, self.err
        (found,) = (model for model in self.report["models"] if model["model"] == key and not model["informative"])
        result: dict[str, Any] = found
        return result


def gate_environment(repo: Path) -> dict[str, str]:
    """This process's environment, outside of GitHub Actions, with this interpreter first on the PATH."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PERFGATE_MODE"))
    }
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    environment["TMPDIR"] = str(temporary(repo))
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return environment


def gate(repo: Path, *arguments: str, base: str = "main", head: str = "change", env: dict[str, str] | None = None,
         timeout: float = 240.0, prefix: tuple[str, ...] = ()) -> Gate:  # fmt: skip
    """``perfgate run`` in ``repo``; its output folder lies beside the repository."""
    out = repo.parent / f"{repo.name}-out"
    command = [sys.executable, "-m", "perfgate", "run", "--base", base, "--head", head, "--out", str(out), "--quiet"]
    environment = {**gate_environment(repo), **(env or {})}
    done = subprocess.run(
        [*prefix, *command, *arguments],
        cwd=repo,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    report = out / "report.json"
    tree = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
    return Gate(code=done.returncode, out=done.stdout, err=done.stderr, report=tree, folder=out)


def temporary(repo: Path) -> Path:
    """The folder for temporary files of gates on ``repo``; every process that they start names it."""
    folder = repo.parent / f"{repo.name}-tmp"
    folder.mkdir(exist_ok=True)
    return folder


def left_behind(repo: Path) -> list[str]:
    """Worktrees of ``repo`` beside its own, temporary folders, and running processes of its gates."""
    trees = git(repo, "worktree", "list", "--porcelain").count("worktree ") - 1
    found = [f"{trees} worktrees"] if trees else []
    place = temporary(repo)
    found += [str(path) for path in place.rglob("run-*")]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(place).encode() in environ and command:
                found.append(f"process {entry.name}: {command!r}")
    return found
