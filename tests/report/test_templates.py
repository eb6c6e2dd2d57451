from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.errors import ConfigError, UsageError
from perfgate.report import templates
from perfgate.report.comment import COMMENT_LIMIT, MARKER, comment
from tests.report.forms import FORMS
from tests.report.test_comment import structure

BLOCKS = (
    "heading", "why", "banners", "next_step", "table", "workloads", "operators", "reasons", "counts", "skipped",
    "notes", "measured", "footer",
)  # fmt: skip


def with_block(name: str, body: str) -> str:
    return f'{{% extends "comment.md.j2" %}}{{% block {name} %}}{body}{{% endblock %}}'


def test_folder__holds_every_template_that_is_rendered():
    names = {entry.name for entry in templates.folder().iterdir()}
    assert {"base.md.j2", "comment.md.j2", "summary.md.j2", "_macros.md.j2", "report.html.j2"} <= names


def test_comment__an_extending_template_without_blocks_changes_nothing():
    judged = FORMS["mixed"]()[0]
    assert comment(judged, user_template='{% extends "comment.md.j2" %}') == comment(judged)


@pytest.mark.parametrize("block", BLOCKS)
def test_comment__every_documented_block_can_be_replaced(block):
    judged = replace(FORMS["mixed"]()[0], verdict="inconclusive")
    text = comment(judged, user_template=with_block(block, "### instead\n\n" if block == "heading" else "instead\n\n"))
    structure(text)
    assert "instead" in text


def test_comment__a_user_template_sees_report_view_links_and_the_old_block():
    body = "{{ super() }}\n{{ report.verdict }} {{ view.rows.total }} {{ links.run }}|\n\n"
    judged = FORMS["mixed"]()[0]
    assert "regression 12 " in comment(judged, user_template=with_block("why", body))
    assert "F rose by 5.0 %" in comment(judged, user_template=with_block("why", body))


@pytest.mark.parametrize("expression", ["report.title", "report.title|e", "report.title ~ ''", "[report.title]|join"])
def test_comment__a_user_template_cannot_forget_to_escape(expression):
    judged = replace(FORMS["pass"]()[0], title="<img src=x> @octocat <!-- perfgate:comment:v1 -->")
    body = f"{{% autoescape false %}}{{{{ {expression} }}}}{{% endautoescape %}}\n\n"
    text = comment(judged, user_template=with_block("why", body))
    structure(text)
    assert text.count(MARKER) == 1


def test_comment__a_user_template_can_neither_move_nor_double_the_marker():
    judged = FORMS["pass"]()[0]
    text = comment(judged, user_template=with_block("footer", f"{MARKER}\n\nafter\n"))
    assert text.splitlines()[-1] == MARKER
    assert text.count(MARKER) == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% if %}", "line 1"),
        ("x\n\n{{ report.", "line 3"),
        ("{{ reprot.title }}", "'reprot' is undefined"),
        ("{{ report.titel }}", "titel"),
        ("{{ report.title|safe }}", "safe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ report.__class__ }}", "unsafe"),
        ('{% include "../pyproject.toml" %}', "pyproject"),
        ('{% extends "missing.md.j2" %}', "missing.md.j2"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ report.title + 1 }}", "TypeError"),
        ("{% for n in range(10000000) %}{% endfor %}", "Range too big"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ],
)
def test_comment__a_wrong_user_template_is_a_configuration_error(source, said):
    with pytest.raises(ConfigError, match=r"docs/report\.md") as caught:
        comment(FORMS["pass"]()[0], user_template=source)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert isinstance(caught.value, UsageError)


def test_comment__a_user_template_that_is_too_long_falls_back_to_the_verdict():
    judged = FORMS["regression"]()[0]
    text = comment(judged, user_template=with_block("why", "much " * 20_000))
    structure(text)
    assert len(text) < COMMENT_LIMIT
    assert text.startswith("### ❌ perfgate: resnet50 trains 7.9 % slower")
