"""Untrusted text in (names, messages, paths: a pull request chooses them all), harmless text out.

Markdown gets character references and not backslashes, since only they also work inside ``<summary>`` and
in table cells. GitHub looks for mentions, issue numbers and emoji in the *rendered* text, so those
need a zero-width space inside; a reference alone would be undone before it looks.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

ELLIPSIS = "…"
NAME_LIMIT = 120
TEXT_LIMIT = 1_000

_ZERO_WIDTH_SPACE = "&#8203;"
_BLANKS = re.compile("[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029 ]+")
_ZERO_WIDTH_JOINER = "\u200d"  # joins the parts of one emoji

# Every character that can begin or end a construct of GitHub's Markdown; "_" only where it is not inside a word.
_REFERENCES = str.maketrans({
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    # GitHub's own advice for a dollar sign that is not mathematics.
    "$": "<span>$</span>",
    "#": "&#35;" + _ZERO_WIDTH_SPACE,
    "@": "@" + _ZERO_WIDTH_SPACE,
    **{char: f"&#{ord(char)};" for char in "\\`*~[]|!"},
})  # fmt: skip
_LOOKALIKES = str.maketrans({"`": "'", "<": "‹", ">": "›"})
_OUTER_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_NUMBERED_REFERENCE = re.compile(r"\b(GH|GHSA|CVE)-", re.IGNORECASE)
_LINK_COLON = re.compile(r":(?=//|[\w+\-]+:)|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
_WWW = re.compile(r"\bwww\.", re.IGNORECASE)
# Name or address and port; no user name in front, which only serves to disguise the host.
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)
# What would begin a list, a heading or a rule if the text came first on its line.
_LINE_START = re.compile(r"^([-+=])(?=[\s=+-]|$)|^(\d{1,9})([.)])(?=\s|$)")


def clean(text: str, limit: int = TEXT_LIMIT) -> str:
    """One line of ``text`` with control, bidirectional and invisible characters spelled out, at most ``limit`` long.

    A lone surrogate (which no UTF-8 file can hold) is spelled out too.
    """
    # Longer texts are cut anyway: do not walk through megabytes first.
    line = _BLANKS.sub(" ", text[: 8 * limit]).strip(" ")
    line = "".join(_spelled(char) if _is_hidden(char) else char for char in line)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


def indented(text: str, limit: int = TEXT_LIMIT) -> str:
    """As :func:`clean`, but indented as ``text`` is: one line of a traceback."""
    width = len(text) - len(text.lstrip(" "))
    # No-break spaces, since ordinary ones at the beginning of a line get lost in HTML and in clean().
    return "\u00a0" * min(width, 40) + clean(text, limit)


@functools.lru_cache(maxsize=8_192)
def md(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text`` as inline Markdown that GitHub shows letter for letter, in a paragraph, a cell, a list or a summary.

    Cached: the same names and units stand in row after row.
    """
    line = clean(text, limit)
    first = _LINE_START.match(line)
    escaped = line.translate(_REFERENCES)
    escaped = _OUTER_UNDERSCORE.sub("&#95;", escaped)
    escaped = _LINK_COLON.sub(":" + _ZERO_WIDTH_SPACE, escaped)
    escaped = _WWW.sub(lambda match: match[0][:-1] + _ZERO_WIDTH_SPACE + ".", escaped)
    escaped = _NUMBERED_REFERENCE.sub(lambda match: match[0] + _ZERO_WIDTH_SPACE, escaped)
    if first:
        at = first.end() - 1
        escaped = f"{line[:at]}&#{ord(line[at])};{escaped[at + 1 :]}"
    return escaped


def code(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text`` as a code span that can be copied unchanged; for a line of its own text, not for table cells."""
    line = clean(text, limit)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(lines: Iterable[str]) -> str:
    """``lines`` as a fenced code block: every letter at its place, and nothing in it can end the block."""
    return "\n".join(["```", *(_fenced(line) for line in lines), "```"])


def url(address: str) -> str:
    """``address`` if it is an absolute http(s) address, safe inside ``](...)`` and ``href``; else an empty string."""
    try:
        parts = urlsplit(address)
        quoted = quote(address, safe="/:?#@!$&,;=%+~-._[]")
    except ValueError:  # a broken IPv6 host, or a lone surrogate
        return ""
    return quoted if parts.scheme in {"http", "https"} and _HOST.fullmatch(parts.netloc) else ""


def _fenced(line: str) -> str:
    # A block has no character references: what could end it, or look like our marker, becomes a sign alike.
    spelled = "".join(_spelled(char) if _is_hidden(char) or char in "\n\r" else char for char in line[:TEXT_LIMIT])
    return spelled.translate(_LOOKALIKES).rstrip()


def _is_hidden(char: str) -> bool:
    return char != _ZERO_WIDTH_JOINER and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _spelled(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
