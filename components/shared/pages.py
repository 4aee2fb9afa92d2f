"""The one design of every page: data card, training and evaluation report, comparison, a run's end and its list.

A page is a Jinja2 template in `templates/` that extends `base.html` and uses the macros of `macros.html` (stat grid,
table, chart, code card). It is one file that asks the network for nothing, follows the reader's light or dark
setting, and can be read at 360 pixels. Charts come from `charts.py` as inline SVG.
"""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from components.shared.progress import duration

TEMPLATES = Path(__file__).parent / "templates"
LIGHT_STYLE, DARK_STYLE = "default", "github-dark"
# A page holds up to 40 pieces of code; these limits keep the whole below 500 kB whatever a model wrote.
MOST_LINES, MOST_CHARACTERS, MOST_HIGHLIGHTED = 40, 1500, 7500
MINUS, NO_BREAK = "−", "\N{NO-BREAK SPACE}"


def render(template: str, **values: Any) -> str:
    """The page made from `templates/<template>`.

    Every page needs `title` (its name in the browser) and `refresh_seconds` (the page reloads itself that often;
    None once the run has finished). A value that the template asks for and does not get is an error.
    What cannot be written as UTF-8 (half a surrogate pair in a program's output) becomes a question mark.
    """
    page = _environment().get_template(template).render(**values)
    return page.encode("utf-8", "replace").decode("utf-8")


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as people read it: 0.4312 is `43.1 %`; None is a dash."""
    return "–" if fraction is None else f"{100 * fraction:.{digits}f}{NO_BREAK}%".replace("-", MINUS)


def points(difference: float | None, digits: int = 1) -> str:
    """A difference of two fractions in percentage points, signed: 0.25 is `+25.0 points`."""
    if difference is None:
        return "–"
    rounded = round(100 * difference, digits)
    sign = "±" if rounded == 0 else "+" if rounded > 0 else MINUS
    return f"{sign}{abs(rounded):.{digits}f} points"


def number(value: float | None, digits: int = 3) -> str:
    """A number with at most `digits` significant digits, whole numbers in full; None is a dash."""
    if value is None:
        return "–"
    text = f"{int(value):,}" if float(value).is_integer() else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def python(code: str) -> Markup:
    """Python source as highlighted HTML; what is too long to show is cut, and said to be."""
    shown, left_out = _cut(code)
    html = pygments_highlight(shown, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).rstrip("\n")
    if len(html) > MOST_HIGHLIGHTED:
        html = escape(shown)
    note = f'<span class="cut">… {left_out}</span>' if left_out else ""
    return Markup(f'<pre class="code" tabindex="0"><code>{html}</code>{note}</pre>')


def clip(text: str, length: int = 300) -> str:
    """A text of at most `length` characters, ended by an ellipsis where it was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _cut(code: str) -> tuple[str, str]:
    lines = code.rstrip().split("\n")
    shown = "\n".join(lines[:MOST_LINES])[:MOST_CHARACTERS]
    hidden_lines = max(0, len(lines) - MOST_LINES)
    hidden_characters = len(code.rstrip()) - len(shown)
    if hidden_lines:
        return shown, f"{hidden_lines} more lines"
    return shown, f"{hidden_characters} more characters" if hidden_characters else ""


def highlighting() -> Markup:
    """The CSS that colours highlighted code, light and dark."""
    light = _style_rules(LIGHT_STYLE)
    dark = _style_rules(DARK_STYLE)
    return Markup(f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}")


def _style_rules(style: str) -> str:
    """One style's token colours; its page and block backgrounds are ours to choose."""
    rules = HtmlFormatter(style=style).get_style_defs(".code").split("\n")
    coloured = (re.sub(r" ?/\*.*?\*/", "", rule) for rule in rules if rule.startswith(".code ."))
    return "\n".join(rule for rule in coloured if ".linenos" not in rule and ".hll" not in rule)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: list[Callable[..., Any]] = [percent, points, number, python, clip, duration]
    environment.filters.update({function.__name__: function for function in filters})
    environment.globals["highlighting"] = highlighting
    return environment
