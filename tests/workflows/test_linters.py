"""Linters, GitHub's own parser and our own rules over action.yml and every workflow, those in the documentation too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows.helpers import ROOT, UnavailableError, assemble, documents, language_service, workflow_blocks

TOOLS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    return assemble(tmp_path_factory.mktemp("workflows"))


def run(*line: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    return subprocess.run(
        [str(word) for word in line],
        cwd=cwd,
        env=environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    return f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"


def tool(name: str) -> Path:
    path = TOOLS / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: pip install -e .[dev]")
    return path


def test_files__are_all_found(files):
    names = {path.name for path in files}
    assert {"action.yml", "ci.yml", "perfgate.yml", "github-1.yml"} <= names


@pytest.mark.parametrize(
    ("schema", "kind"), [("vendor.github-actions", "action"), ("vendor.github-workflows", "workflow")]
)
def test_schema(files, schema, kind):
    chosen = files[:1] if kind == "action" else files[1:]
    done = run(tool("check-jsonschema"), "--builtin-schema", schema, *chosen, cwd=files[0].parent)
    assert done.returncode == 0, said(done)


def test_jactionlint__with_shellcheck(files):
    tool("shellcheck")
    done = run(tool("jactionlint"), "--no-color", cwd=files[0].parent)
    assert done.returncode == 0, said(done)


def test_jactionlint__hears_a_mistake(tmp_path):
    workflow = tmp_path / ".github" / "workflows" / "bad.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(
        'on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: "cat `ls $x`"\n', encoding="utf-8"
    )
    done = run(tool("jactionlint"), "--no-color", workflow, cwd=tmp_path)
    assert "shellcheck" in done.stdout, said(done)


def test_zizmor(files):
    done = run(tool("zizmor"), "--offline", "--no-progress", *files, cwd=files[0].parent)
    assert done.returncode == 0, said(done)


@pytest.fixture(scope="module")
def parser() -> Path:
    try:
        return language_service()
    except UnavailableError as error:
        pytest.skip(str(error))


def parse(parser: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    return run("node", "--import", "./loader.mjs", "check.mjs", ROOT / "action.yml", *files, cwd=parser)


def test_githubs_parser(parser, files):
    for path in files[1:]:
        # As from another repository, so that our own action's inputs are checked too.
        text = path.read_text(encoding="utf-8")
        (path.parent / f"remote-{path.name}").write_text(
            re.sub(r"uses: \./ .*", "uses: o/perfgate@v1", text), encoding="utf-8"
        )
    remote = sorted(files[1].parent.glob("remote-*"))
    done = parse(parser, files[0], *remote)
    for path in remote:
        path.unlink()
    assert done.returncode == 0, said(done)


def test_githubs_parser__hears_a_mistake(parser, tmp_path):
    path = tmp_path / "bad.yml"
    path.write_text(
        "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - uses: o/perfgate@v1\n        with: {comand: run}\n",
        encoding="utf-8",
    )
    done = parse(parser, path)
    assert (done.returncode, "comand" in done.stdout) == (1, True), said(done)


# -- our own rules ---------------------------------------------------------------------------------------------------


def test_workflows__no_expression_in_a_script_and_few_lines(files):
    for path in files:
        text = path.read_text(encoding="utf-8")
        for script in re.findall(r"^( *)(?:- )?run: (?:[|>][+-]?\n((?:\1  .*\n?|\n)+)|(.*))", text, re.MULTILINE):
            body = script[1] or script[2]
            assert "${{" not in body, f"{path.name}: an expression in a script"
            assert len(body.strip().splitlines()) <= 5, f"{path.name}: more than five lines of shell"


def test_workflows__every_action_is_pinned_by_commit_with_its_version(files):
    for path in files:
        for uses in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")):
            pinned = re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*", uses)
            assert uses.partition(" ")[0] == "./" or pinned, f"{path.name}: {uses}"


def test_workflows__equal_actions_have_equal_pins(files):
    pins: dict[str, set[str]] = {}
    for path in files:
        for name, pin in re.findall(r"uses: ([\w./-]+)@(.*)", path.read_text(encoding="utf-8")):
            pins.setdefault(name, set()).add(pin)
    assert {name: pin for name, pin in pins.items() if len(pin) > 1} == {}


def jobs(text: str) -> dict[str, str]:
    """Job -> its text."""
    parts = re.split(r"^  ([\w-]+):\n", text.partition("\njobs:\n")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def gates(files: list[Path]) -> list[tuple[str, str]]:
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in files[1:]]
    return [(name, text) for name, text in texts if "command: measure" in text]


def test_workflows__measuring_holds_nothing_and_publishing_runs_nothing(files):
    found = gates(files)
    assert len(found) >= 2
    for name, text in found:
        assert "\npermissions: {}\n" in text, name
        assert list(jobs(text)) == ["measure", "publish"], name
        measure, publish = jobs(text)["measure"], jobs(text)["publish"]
        assert re.findall(r"^    permissions:\n((?:      .*\n)+)", measure, re.MULTILINE) == [
            "      contents: read\n"
        ], name
        assert not re.search(r"secrets|token", measure), name
        assert "persist-credentials: false" in measure, name
        assert "head.repo.id == github.event.pull_request.base.repo.id" in measure, name
        assert "pull_request.head" not in publish, name
        granted = sorted(re.findall(r"^      ([\w-]+: (?:read|write))\b", publish, re.MULTILINE))
        assert granted == ["checks: write", "contents: read", "pull-requests: write"], name


def test_workflows__ours_is_the_documented_one():
    """The dogfood workflow may differ from the documented one only in how it gets the action and its Python."""
    ours = (ROOT / ".github/workflows/perfgate.yml").read_text(encoding="utf-8")
    ours = re.sub(r"^          python: .*\n", "", ours, flags=re.MULTILINE)
    (documented,) = workflow_blocks((ROOT / "docs/github.md").read_text(encoding="utf-8"))
    for key in (
        r"^on:\n(?:  .*\n)+",
        r"^concurrency:\n(?:  .*\n)+",
        r"^    if: .*\n(?:      .*\n)*",
        r"^    outputs:\n(?:      .*\n)+",
    ):
        assert re.findall(key, ours, re.MULTILINE) == re.findall(key, documented, re.MULTILINE)
    for command in ("measure", "publish"):
        step = rf"command: {command}\n(?:          .*\n)*"
        assert re.findall(step, ours) == re.findall(step, documented)


def test_documents__inputs_and_outputs_are_those_of_the_action():
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    inputs, outputs = action.partition("\noutputs:\n")[0], action.partition("\noutputs:\n")[2].partition("\nruns:")[0]
    text = (ROOT / "docs/github.md").read_text(encoding="utf-8")
    table = text.partition("| input |")[2].partition("Outputs:")[0]
    listed = {
        name for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", cell)
    }
    assert listed == set(re.findall(r"^  ([\w-]+):", inputs.partition("\ninputs:\n")[2], re.MULTILINE))
    sentence = text.partition("Outputs:")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", sentence)) == set(re.findall(r"^  ([\w-]+):", outputs, re.MULTILINE))


def test_action__every_input_reaches_the_launcher():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in re.findall(r"^  ([\w-]+):", text.partition("\ninputs:\n")[2].partition("\noutputs:")[0], re.MULTILINE):
        assert f"INPUT_{name.upper().replace('-', '_')}: ${{{{ inputs." in text


def test_documents__no_moving_reference():
    for path in documents():
        assert not re.search(r"uses: \S+@(main|master|v\d+)\b", path.read_text(encoding="utf-8")), path.name


def test_workflow_blocks__finds_indented_ones_and_no_fragments():
    text = "1. x\n   ```yaml\n   on: push\n   jobs:\n     a: 1\n   ```\n\n```yaml\njobs:\n  a: 1\n```\n"
    assert workflow_blocks(text) == ["on: push\njobs:\n  a: 1\n"]
