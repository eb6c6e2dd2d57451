"""The runner's files and commands, read back as the runner reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.errors import GitHubError
from perfgate.github import outputs


def read_outputs(text):
    """What the runner makes of a GITHUB_OUTPUT file."""
    lines = iter(text.splitlines())
    values = {}
    for line in lines:
        if "<<" not in line.partition("=")[0]:
            name, _, value = line.partition("=")
            values[name] = value
            continue
        name, _, mark = line.partition("<<")
        body = []
        for inner in lines:
            if inner == mark:
                break
            body.append(inner)
        values[name] = "\n".join(body)
    return values


def test_write_outputs__a_value_cannot_add_an_output(tmp_path):
    path = tmp_path / "output"
    path.write_text("before=1\n", encoding="utf-8")
    evil = "EOF\nverdict=pass\nverdict<<EOF\npass\nEOF"
    assert outputs.write_outputs({"GITHUB_OUTPUT": str(path)}, {"verdict": "regression", "title": evil, "empty": ""})
    values = read_outputs(path.read_text(encoding="utf-8"))
    assert values == {"before": "1", "verdict": "regression", "title": evil, "empty": ""}


@given(
    value=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"])).map(
        lambda text: text + "\nx"
    )
)
def test_write_outputs__values_round_trip(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("out") / "output"
    outputs.write_outputs({"GITHUB_OUTPUT": str(path)}, {"a": value})
    assert read_outputs(path.read_text(encoding="utf-8"))["a"] == value


def test_write_outputs__refuses_a_value_that_holds_its_delimiter(tmp_path):
    path = tmp_path / "output"
    with pytest.raises(GitHubError, match="title holds the delimiter"):
        outputs.write_outputs({"GITHUB_OUTPUT": str(path)}, {"title": "a KNOWN b"}, delimiter=lambda: "KNOWN")
    assert not path.exists()


def test_write_outputs__refuses_a_name_that_is_none(tmp_path):
    with pytest.raises(GitHubError, match="cannot be the name"):
        outputs.write_outputs({"GITHUB_OUTPUT": str(tmp_path / "o")}, {"a\nb": "c"})


def test_delimiter__differs_each_time():
    assert outputs.delimiter() != outputs.delimiter()


def test_write__outside_of_actions_writes_nothing():
    assert not outputs.write_outputs({}, {"a": "b"})
    assert not outputs.write_summary({}, "text")


def test_write__unwritable_file_is_an_error(tmp_path):
    with pytest.raises(GitHubError, match="GITHUB_STEP_SUMMARY"):
        outputs.write_summary({"GITHUB_STEP_SUMMARY": str(tmp_path)}, "text")


def test_write_summary__appends_and_stays_within_one_mebibyte(tmp_path):
    path = tmp_path / "summary"
    environ = {"GITHUB_STEP_SUMMARY": str(path)}
    outputs.write_summary(environ, "first")
    outputs.write_summary(environ, "| 🐌 cell |\n" * 200_000)
    content = path.read_bytes()
    assert 2**20 - 200 < len(content) <= 2**20
    text = content.decode("utf-8")
    assert text.startswith("first\n| 🐌 cell |\n")
    assert "| 🐌 cell |\n\n\n_The summary was cut here" in text
    outputs.write_summary(environ, "more")
    assert path.stat().st_size <= 2**20


def test_command__is_one_line_whatever_the_text():
    line = outputs.command(
        "error", "100% slow\r\n::set-output name=verdict::pass", title="a: b, c", file="x.toml", line=3
    )
    assert line == "::error title=a%3A b%2C c,file=x.toml,line=3::100%25 slow%0D%0A::set-output name=verdict::pass"
    assert outputs.command("notice", "hi") == "::notice::hi"
