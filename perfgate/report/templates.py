"""The Jinja2 environments. Markdown and HTML are both escaped without being asked.

For Markdown the escaping hangs on ``finalize``: whatever an expression puts out goes through :func:`escape.md`
unless it is the output of a macro, a block or one of our own filters. A template cannot forget it.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from perfgate import units
from perfgate.errors import ConfigError, ConfigProblem, PerfgateError
from perfgate.report import escape, filters

# Filters of Jinja2 that make raw output, which a template of the user's must not have.
_RAW_FILTERS = ("safe", "tojson", "xmlattr", "urlize")
_PERCENT = re.compile(r"(?<=\d) %")
_USER_TEMPLATE = "comment template"


def folder() -> Traversable:
    """Where the templates lie: in the installed package, or beside it in a checkout."""
    packaged = importlib.resources.files("perfgate") / "templates"
    if packaged.is_dir():
        return packaged
    beside = Path(__file__).parents[2] / "templates"
    if not beside.is_dir():
        msg = f"perfgate's templates are missing ({beside} is no folder); install perfgate again"
        raise PerfgateError(msg)
    return beside


def render(name: str, context: dict[str, Any], *, html: bool = False) -> str:
    """The text of the packaged template ``name``."""
    return (_html() if html else _markdown()).get_template(name).render(context)


def render_user(source: str, context: dict[str, Any]) -> str:
    """The text of a user's template, in a sandbox. Raises ConfigError that names the line and the mistake."""
    environment = _user()
    try:
        return environment.from_string(source).render(context)
    except TemplateSyntaxError as error:
        raise _mistake(error.message or "syntax error", error.lineno) from None
    except TemplateError as error:
        raise _mistake(error.message or type(error).__name__) from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise _mistake(reason) from None


def _mistake(reason: str, line: int | None = None) -> ConfigError:
    where = "while rendering" if line is None else f"line {line}"
    hint = "extend comment.md.j2 and override its blocks as docs/report.md describes"
    return ConfigError((ConfigProblem(file=_USER_TEMPLATE, key=where, reason=escape.clean(reason, 300), hint=hint),))


def _source(name: str) -> str | None:
    if not name.endswith(".j2") or "/" in name or "\\" in name:
        return None
    entry = folder() / name
    return entry.read_text(encoding="utf-8") if entry.is_file() else None


def _finalize_html(value: Any) -> Any:
    # Number and percent sign stay on one line; Markdown is left as it is, since people copy from it.
    return value if isinstance(value, Markup) else _PERCENT.sub("\u00a0%", escape.clean(_plain(value)))


def _plain(value: Any) -> str:
    if value is None:
        return units.NOT_AVAILABLE
    if isinstance(value, float):
        return units.significant(value)
    return str(value)


def _marked(function: Callable[..., str]) -> Callable[..., Markup]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Markup:
        return Markup(function(*arguments))  # noqa: S704 - functions of perfgate.report.escape only

    return wrapper


def _configure(environment: Environment, finalize: Callable[[Any], Any]) -> Environment:
    environment.loader = FunctionLoader(_source)
    environment.finalize = finalize
    environment.filters.update(
        icon=filters.icon,
        word=filters.word,
        commit_name=filters.commit_name,
        percent=units.percent,
        share=units.share,
        quantity=units.quantity,
        wall_clock=units.wall_clock,
        clip=escape.clean,
        indented=escape.indented,
        url=_marked(escape.url),
    )
    return environment


def _options() -> dict[str, Any]:
    return {"undefined": StrictUndefined, "autoescape": True, "trim_blocks": True, "lstrip_blocks": True}


def _md(value: Any, limit: int = escape.TEXT_LIMIT) -> Markup:
    # The output of a macro is escaped already.
    return value if isinstance(value, Markup) else Markup(escape.md(_plain(value), limit))  # noqa: S704


def _configure_markdown(environment: Environment) -> Environment:
    _configure(environment, _md)
    environment.filters.update(
        md=_md, e=_md, escape=_md, forceescape=_md, code=_marked(escape.code), block=_marked(escape.block)
    )
    return environment


@functools.cache
def _markdown() -> Environment:
    return _configure_markdown(Environment(**_options()))  # noqa: S701 - it is on, see _options


@functools.cache
def _html() -> Environment:
    return _configure(Environment(**_options()), _finalize_html)  # noqa: S701 - it is on, see _options


@functools.cache
def _user() -> Environment:
    environment = _configure_markdown(SandboxedEnvironment(**_options()))
    for name in _RAW_FILTERS:
        del environment.filters[name]
    return environment
