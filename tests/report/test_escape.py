from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.report import escape
from tests.report.rendered import render

ZERO_WIDTH_SPACE = "\u200b"

HOSTILE = {
    "pipe": "a|b",
    "escaped_pipe": "a\\|b\\",
    "newline": "x\ny\r\n| z |",
    "backticks": "`tick` ``two``",
    "image_tag": "<img src=x onerror=1>",
    "script": "<script>alert(1)</script></td></table>",
    "link": "[l](http://e.invalid) ![i](http://e.invalid/x.png)",
    "math": "$x^2$ and $$y$$ and $`z`$",
    "emoji_code": ":tada: and :+1: a:b:c:",
    "comment": "<!-- perfgate:comment:v1 -->",
    "half_comment": "-->",
    "template": "{{7*7}} {% raw %} {# x #}",
    "override": "abc\u202edef\u2066",
    "long": "w" * 3_000,
    "long_mixed": "layer|`<@\n" * 625,
    "right_to_left": "conv\u200f1\u061c \u05d0\u05d1 (2) \u202b.x",
    "mention": "@octocat and a@example.invalid and @org/team",
    "issue": "#12 GH-12 gh-7 octo/repo#3 octo/repo@deadbee",
    "autolink": "http://e.invalid www.e.invalid ftp://e.invalid <https://e.invalid> mailto:a@b.invalid xmpp:a@b.i",
    "footnote": "[^1] and [^1]: note",
    "emphasis": "*a* **b** _c_ __d__ ~~e~~ snake_case_name",
    "heading": "# one",
    "list": "- one",
    "numbered": "1. one",
    "numbered_bracket": "12) one",
    "rule": "---",
    "setext": "===",
    "plus": "+ one",
    "fence": "~~~ x",
    "quote": "> [!CAUTION]",
    "task": "[ ] x",
    "entity": "&lt;b&gt; &#64;octocat",
    "control": "a\x00b\x1b[31mred\x07",
    "surrogate": "a\ud800b",
    "zero_width": "pay\u200bpal \ufeff",
    "empty": "",
    "blank": " \t ",
    "details": "</details></summary><details open>",
}

# Places where the templates put texts. The text is at the beginning of a line in one of them.
PLACES = {
    "paragraph": "{}\n",
    "after_text": "Why: {}\n",
    "item": "- {}\n",
    "heading": "### {}\n",
    "bold": "- **{}**: x\n",
    "quote": "> [!NOTE]\n> {}\n",
    "cell": "| a | b |\n|:--|--:|\n| {} | x |\n",
    "summary": "<details><summary>{}</summary>\n\ntext\n\n</details>\n",
}


def shown(text: str) -> str:
    return text.replace(ZERO_WIDTH_SPACE, "")


def encodable(text: str) -> str:
    return text.encode("utf-8").decode("utf-8")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HOSTILE)
def test_md__hostile_text_is_shown_letter_for_letter(name, place):
    text = HOSTILE[name]
    frame, _ = render(PLACES[place].format("FRAME"))
    root, comments = render(PLACES[place].format(escape.md(text)))
    assert comments == []
    if escape.clean(text):
        assert [node.tag for node in root.walk() if node.tag != "span"] == [node.tag for node in frame.walk()]
        assert shown(root.text) == frame.text.replace("FRAME", escape.clean(text))
    else:
        assert {node.tag for node in root.walk()} <= {node.tag for node in frame.walk()}


@given(st.text(alphabet=st.one_of(st.sampled_from(list("\\`*_~[]()<>|!&#@:$-+=.1 \n\tawx/{}^\"'")), st.characters())))
@settings(max_examples=300, deadline=None)
def test_md__any_text_keeps_the_table_and_shows_itself(text):
    root, comments = render(f"| a | b |\n|:--|--:|\n| {escape.md(text)} | {escape.md(text)} |\n")
    assert [len(row.all("td")) + len(row.all("th")) for row in root.all("tr")] == [2, 2]
    assert {node.tag for node in root.walk()} <= {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert comments == []
    assert shown(root.all("td")[0].text) == escape.clean(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_md__nothing_is_left_for_what_github_does_to_the_rendered_text(name):
    """Mentions, references, emoji, links and mathematics are found in the text nodes after rendering."""
    root, _ = render(escape.md(HOSTILE[name]) + "\n")
    pieces = [child for node in [root, *root.walk()] for child in node.children if isinstance(child, str)]
    for piece in pieces:
        assert not re.search(r"@\w", piece)
        assert not re.search(r"#\d", piece)
        assert not re.search(r"(?i)\bgh-\d", piece)
        assert not re.search(r":[\w+-]+:", piece)
        assert not re.search(r"://|\bwww\.", piece)
        assert not re.search(r"\$.+\$", piece)


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_clean__is_one_encodable_line_without_hidden_characters(text):
    line = escape.clean(text)
    assert encodable(line) == line
    assert line == escape.clean(line)
    hidden = {"Cc", "Cs", "Zl", "Zp", "Cf"}
    assert not [char for char in line if unicodedata.category(char) in hidden and char != "\u200d"]


def test_clean__long_text_ends_in_an_ellipsis():
    assert escape.clean("abcdef", 4) == "abc…"
    assert escape.clean("abcd", 4) == "abcd"
    assert len(escape.clean("w" * 10_000_000, 50)) == 50


def test_clean__hidden_characters_are_spelled_out_and_emoji_are_not():
    assert escape.clean("a\u202eb\x1b") == "a\\u202eb\\u001b"
    assert escape.clean("\U000e0041") == "\\U000e0041"
    assert escape.clean("👩\u200d🔬 ☑\ufe0f") == "👩\u200d🔬 ☑\ufe0f"


def test_indented__keeps_the_depth_of_a_traceback_line():
    assert escape.indented("    x = 1\n") == "\u00a0\u00a0\u00a0\u00a0x = 1"


@pytest.mark.parametrize("text", ["plain", "a`b", "``x``", "`", " @octocat #1 :tada: <b>", "/perfgate accept a/b/c"])
def test_code__shows_the_text_as_one_code_span(text):
    root, _ = render(f"say {escape.code(text)} now\n")
    (span,) = root.all("code")
    assert span.text.strip() == escape.clean(text)


def test_code__empty_text_is_still_no_broken_span():
    root, _ = render(f"say {escape.code('')} now\n")
    assert root.text.startswith("say")
    assert root.text.rstrip().endswith("now")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://ghe.example/o/r/actions/runs/1", "https://ghe.example/o/r/actions/runs/1"),
        ("https://e.invalid/a(b) c", "https://e.invalid/a%28b%29%20c"),
        ('https://e.invalid/"><img src=x>', "https://e.invalid/%22%3E%3Cimg%20src=x%3E"),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//e.invalid/x", ""),
        ("https:///x", ""),
        ("http://[", ""),
        ("", ""),
        ("https://github.com@e.invalid/x", ""),
        ("https://a b.invalid/x", ""),
        ("https://e.invalid/\ud800", ""),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
    ],
)
def test_url__only_absolute_web_addresses_survive(address, expected):
    assert escape.url(address) == expected


@pytest.mark.parametrize("name", HOSTILE)
def test_block__hostile_lines_stay_in_their_block(name):
    root, comments = render(f"before\n\n{escape.block(['a  b', HOSTILE[name], '  end'])}\n\nafter\n")
    assert comments == []
    assert [node.tag for node in root.walk()] == ["p", "pre", "code", "p"]
    lines = root.all("code")[0].text.split("\n")
    assert (lines[0], lines[-2], len(lines)) == ("a  b", "  end", 4)
    assert "<!--" not in escape.block([HOSTILE[name]])


@given(st.lists(st.text(max_size=40), max_size=4))
@settings(max_examples=100, deadline=None)
def test_block__any_text_is_one_line(lines):
    root, _ = render(escape.block(lines))
    assert [node.tag for node in root.walk()] == ["pre", "code"]
    assert root.all("code")[0].text.count("\n") == len(lines)
