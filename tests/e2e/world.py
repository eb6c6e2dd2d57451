"""One repository on one GitHub, both stand-ins, and act as the runner of the documented workflow."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.github.standin.server import StandIn
from tests.workflows.helpers import ROOT, workflow_blocks

REPOSITORY = "octo/models"
ACTIONS = Path(__file__).parent / "actions"
TOOLS = Path(sys.executable).parent

MODEL = """\
import torch

LAYERS = {layers}


def net():
    pairs = [(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(LAYERS)]
    return torch.nn.Sequential(*(layer for pair in pairs for layer in pair))
"""

# F decides here, exactly and at once: what is tested is the way of a verdict to GitHub, not the statistics.
CONFIG = """\
version = 1
threads = 1

[gate]
budget = "15s"
looks = [2]
groups = 1
block = "2ms"

[gate.limits]
latency = false
peak_memory = false

[models.net]
entry = "net:net"
inputs = ["float32[batch,256]"]
batch = [64]
modes = ["infer"]
"""


@dataclass
class Outcome:
    """What act said of one run of the workflow."""

    code: int
    jobs: dict[str, str]
    outputs: dict[str, str]
    summary: str
    log: str


class World:
    def __init__(self, folder: Path, stand_in: StandIn) -> None:
        self.folder, self.stand_in = folder, stand_in
        self.origin = folder / "origin with spaces"
        self.runs = 0
        self.origin.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")
        # act reads the repository's name from here; nothing is ever fetched from it.
        self.git("remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
        stand_in.git = self.origin
        self.workflow = self._documented_workflow()
        self._actions = self._local_actions()

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.origin, check=True, capture_output=True, encoding="utf-8"
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Write ``files`` (``_`` before the ending stands for a dot) and commit them on the current branch."""
        for name, content in files.items():
            stem, _, ending = name.rpartition("_")
            (self.origin / f"{stem}.{ending}").write_text(content, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")
        return self.git("rev-parse", "HEAD")

    def act(self, event: str, payload: dict[str, Any], *, attempt: int = 1) -> Outcome:
        """Run the workflow for one event, as a new run unless ``attempt`` says otherwise."""
        self.runs += attempt == 1
        run_id = 100 + self.runs
        path = self.folder / "event.json"
        path.write_text(json.dumps(payload), encoding="utf-8")
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        variables = {
            "GITHUB_API_URL": self.stand_in.url,
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "PERFGATE_CORE_PYTHON": sys.executable,
            "E2E_ORIGIN": str(self.origin),
            "E2E_ARTIFACTS": str(self.folder / f"artifacts-{run_id}"),
        }
        line = [str(TOOLS / "act"), event, "-W", str(self.workflow), "-e", str(path), "--json", "--no-cache-server"]
        line += ["-s", f"GITHUB_TOKEN={self.stand_in.token}", "--action-offline-mode"]
        for label in ("self-hosted", "gpu", "ubuntu-24.04"):
            line += ["-P", f"{label}=-self-hosted"]
        for name, value in variables.items():
            line += ["--env", f"{name}={value}"]
        for reference, place in self._actions.items():
            line += ["--local-repository", f"{reference}={place}"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PERFGATE_"))}
        # The worker's Python is the one on PATH, and so is git.
        clean |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PATH": f"{TOOLS}{os.pathsep}{clean['PATH']}"}
        done = subprocess.run(
            line, cwd=self.origin, env=clean, check=False, capture_output=True, encoding="utf-8", errors="replace",
            timeout=400, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return _outcome(done)

    def _documented_workflow(self) -> Path:
        (block,) = workflow_blocks((ROOT / "docs" / "github.md").read_text(encoding="utf-8"))
        path = self.folder / "workflow" / "perfgate.yml"
        path.parent.mkdir()
        path.write_text(block, encoding="utf-8")
        return path

    def _local_actions(self) -> dict[str, Path]:
        """Reference in the workflow -> folder: our own action for ``perfgate``, stand-ins for GitHub's."""
        ours = self.folder / "perfgate"
        ours.mkdir()
        shutil.copy(ROOT / "action.yml", ours)
        shutil.copytree(ROOT / "perfgate", ours / "perfgate", ignore=shutil.ignore_patterns("__pycache__"))
        references = set(re.findall(r"uses: (\S+)", self.workflow.read_text(encoding="utf-8")))
        places = {}
        for reference in references:
            name = reference.partition("@")[0].rpartition("/")[2]
            places[reference] = ours if name == "perfgate" else ACTIONS / name
        return places


def _outcome(done: subprocess.CompletedProcess[str]) -> Outcome:
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    jobs = {entry["job"].rpartition("/")[2]: entry["jobResult"] for entry in entries if "jobResult" in entry}
    outputs = {entry["name"]: entry.get("arg", "") for entry in entries if entry.get("command") == "set-output"}
    summary = "".join(str(entry.get("content", "")) for entry in entries if entry.get("command") == "summary")
    # What the steps printed; the rest of act's log is about itself.
    printed = [str(entry.get("msg", "")).rstrip() for entry in entries if entry.get("raw_output")]
    log = "\n".join([*printed, done.stderr[-2000:]])
    return Outcome(code=done.returncode, jobs=jobs, outputs=outputs, summary=summary, log=log)
