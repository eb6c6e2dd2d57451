"""GitHub's own Markdown renderer, and what its sanitiser lets through, as test oracles."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options

VOID = {"br", "hr", "img", "input", "meta", "link"}

# From the element and attribute lists that GitHub publishes for user content; only what a report could want.
ALLOWED = {
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "b", "i", "strong", "em", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "span", "sub", "sup",
    "del", "a", "img", "input", "section",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {"a": {"href"}, "th": {"align"}, "td": {"align"}, "details": {"open"}, "img": {"src", "alt"}}


@dataclass(slots=True)
class Node:
    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        return [node for node in self.walk() if node.tag == tag]

    def walk(self) -> list[Node]:
        found = []
        for child in self.children:
            if isinstance(child, Node):
                found.append(child)
                found.extend(child.walk())
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Tree(HTMLParser):
    """Strict: an end tag must close the element that was opened last."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root", {})
        self.open = [self.root]
        self.comments: list[str] = []

    def handle_starttag(self, tag, attrs):
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)

    def handle_comment(self, data):
        self.comments.append(data.strip())


def parse(html: str) -> tuple[Node, list[str]]:
    """Tree and comments of ``html``; fails on elements that are not properly nested."""
    tree = _Tree()
    tree.feed(html)
    tree.close()
    assert [node.tag for node in tree.open] == ["root"]
    return tree.root, tree.comments


def render(markdown: str) -> tuple[Node, list[str]]:
    """What GitHub makes of ``markdown`` before its sanitiser: raw HTML kept, footnotes on."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return parse(cmarkgfm.github_flavored_markdown_to_html(markdown, options=options))


def stripped(root: Node) -> list[str]:
    """What GitHub's sanitiser would take out."""
    lost = []
    for node in root.walk():
        if node.tag not in ALLOWED:
            lost.append(node.tag)
        lost.extend(
            f"{node.tag} {name}" for name in node.attributes if name not in ALLOWED_ATTRIBUTES.get(node.tag, set())
        )
    return lost
