"""Our workflows, wherever they stand: as files, and as blocks in the documentation."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("@actions/languageservice@0.3.61", "vscode-languageserver-textdocument@1.0.12", "yaml@2.8.1")
MODULES = ROOT / ".cache" / "languageservice-0.3.61"

_FENCE = re.compile(r"^(?P<indent> *)```ya?ml\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)


class UnavailableError(Exception):
    """npm or the package is not to be had; the reason is for pytest.skip."""


def workflow_blocks(text: str) -> list[str]:
    """Every fenced YAML block of a Markdown text that is a whole workflow."""
    blocks = [re.sub(rf"^{found['indent']}", "", found["body"], flags=re.MULTILINE) for found in _FENCE.finditer(text)]
    return [
        block
        for block in blocks
        if all(re.search(rf"^['\"]?{key}['\"]?:", block, re.MULTILINE) for key in ("on", "jobs"))
    ]


def documents() -> list[Path]:
    return [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.is_file()]


def assemble(folder: Path) -> list[Path]:
    """A repository in ``folder`` with our action and all our workflows; its files, action.yml first."""
    workflows = folder / ".github" / "workflows"
    workflows.mkdir(parents=True)
    shutil.copy(ROOT / "action.yml", folder)
    for path in sorted((ROOT / ".github" / "workflows").glob("*.y*ml")):
        shutil.copy(path, workflows)
    for document in documents():
        for number, block in enumerate(workflow_blocks(document.read_text(encoding="utf-8")), start=1):
            name = f"{document.stem.lower()}-{number}.yml"
            (workflows / name).write_text(block, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True, stdin=subprocess.DEVNULL)
    return [folder / "action.yml", *sorted(workflows.iterdir())]


def language_service() -> Path:
    """The folder with GitHub's language service, installed by npm once, and our program for it."""
    if not (MODULES / "node_modules").is_dir():
        npm = shutil.which("npm")
        if npm is None or shutil.which("node") is None:
            raise UnavailableError("npm and node are not installed: GitHub's own parser cannot run")
        aside = MODULES.with_name(MODULES.name + ".new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        line = [
            npm,
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(aside),
            *PACKAGES,
        ]
        done = subprocess.run(
            line, check=False, capture_output=True, encoding="utf-8", timeout=300, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise UnavailableError(f"npm install failed: {(done.stderr or done.stdout).strip()[-300:]}")
        aside.rename(MODULES)
    # Node looks for packages beside the program.
    for name in ("check.mjs", "loader.mjs"):
        shutil.copy(Path(__file__).with_name(name), MODULES)
    return MODULES
