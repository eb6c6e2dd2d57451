from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate import wire
from perfgate.errors import ConfigError, PerfgateError
from perfgate.report.comment import COMMENT_LIMIT, MARKER, SUMMARY_LIMIT
from perfgate.report.write import Links, texts, write
from tests.report.forms import FORMS

FILES = {"report.json", "comment.md", "summary.md", "report.html"}


def test_write__all_files_hold_the_texts_and_nothing_else_is_left(tmp_path):
    judged, evidence = FORMS["regression"]()
    outputs = write(judged, evidence, tmp_path / "new" / "folder", links=Links(run="https://e.invalid/1"))
    folder = tmp_path / "new" / "folder"
    assert {path.name for path in folder.iterdir()} == FILES
    stored = {name: (folder / name).read_bytes().decode("utf-8") for name in FILES}
    assert stored == {
        "report.json": outputs.json,
        "comment.md": outputs.comment,
        "summary.md": outputs.summary,
        "report.html": outputs.html,
    }
    assert "https://e.invalid/1" in outputs.comment


def test_write__replaces_what_an_earlier_run_left(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text("old", encoding="utf-8")
    judged, evidence = FORMS["pass"]()
    write(judged, evidence, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"] == "pass"


def test_write__one_file_that_cannot_be_written_does_not_keep_the_others(tmp_path):
    (tmp_path / "comment.md").mkdir()
    judged, evidence = FORMS["regression"]()
    with pytest.raises(PerfgateError, match=r"comment\.md: cannot be written: .*--out"):
        write(judged, evidence, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert (tmp_path / "report.html").stat().st_size > 1_000


def test_write__a_file_in_place_of_the_folder_is_one_line_a_file(tmp_path):
    (tmp_path / "out").write_text("", encoding="utf-8")
    judged, evidence = FORMS["pass"]()
    with pytest.raises(PerfgateError) as caught:
        write(judged, evidence, tmp_path / "out")
    assert len(str(caught.value).splitlines()) == len(FILES)


def test_write__a_full_disk_leaves_the_old_file(tmp_path):
    # RLIMIT_FSIZE makes every write past 100 bytes fail, as a full disk does; in a process of its own, since it stays.
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from perfgate.errors import PerfgateError\n"
        "from perfgate.report.write import write\n"
        "from tests.report.forms import FORMS\n"
        "judged, evidence = FORMS['pass']()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    write(judged, evidence, Path(sys.argv[1]))\n"
        "except PerfgateError as error:\n    sys.exit(len(str(error).splitlines()))\n"
    )
    (tmp_path / "report.json").write_text("old", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parents[2], env=environment(), check=False
    )
    assert done.returncode == len(FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "old"


def environment(**changes: str) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    # Coverage and the like must not follow; PATH and the interpreter's own needs must.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV") if name in os.environ}
    return {**kept, "PYTHONPATH": root, **changes}


def test_write__any_locale_gives_the_same_utf8_files(tmp_path):
    """B46."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom perfgate.report.write import write\n"
        "from tests.report.forms import FORMS\nwrite(*FORMS['mixed'](), Path(sys.argv[1]))\n"
    )
    judged, evidence = FORMS["mixed"]()
    expected = texts(judged, evidence)
    for number, changes in enumerate(
        ({"LC_ALL": "C", "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}, {"LANG": "de_DE", "LC_NUMERIC": "de_DE"})
    ):
        folder = tmp_path / str(number)
        done = subprocess.run(
            [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", program, str(folder)],
            env=environment(**changes),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (folder / "comment.md").read_bytes() == expected.comment.encode("utf-8")
        assert (folder / "report.html").read_bytes() == expected.html.encode("utf-8")
        assert b"2026-11-30T12:00:00Z" in (folder / "report.json").read_bytes()


def test_write__a_wrong_user_template_costs_nothing_but_itself(tmp_path):
    judged, evidence = FORMS["regression"]()
    with pytest.raises(ConfigError, match="line 1"):
        write(judged, evidence, tmp_path, user_template="{% nonsense %}")
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert (tmp_path / "comment.md").read_text(encoding="utf-8") == texts(judged, evidence).comment


@pytest.mark.parametrize("form", FORMS)
def test_texts__are_pure_and_within_the_limits(form):
    judged, evidence = FORMS[form]()
    before = wire.dumps(evidence)
    first, second = texts(judged, evidence), texts(judged, evidence)
    assert first == second
    assert wire.dumps(evidence) == before
    assert len(first.comment.encode("utf-8")) < COMMENT_LIMIT
    assert len(first.summary.encode("utf-8")) < SUMMARY_LIMIT
    assert first.comment.endswith(f"\n{MARKER}\n")


def test_texts__all_tell_the_same_verdict():
    judged = replace(FORMS["regression"]()[0], title="the one title")
    outputs = texts(judged, FORMS["regression"]()[1])
    assert all("the one title" in text for text in (outputs.comment, outputs.summary, outputs.html, outputs.json))
