"""Charts as static inline SVG, drawn by matplotlib, coloured by the page.

A figure is drawn in placeholder colours that are then replaced by the page's CSS variables, so that one drawing fits
light and dark. Text stays text. matplotlib takes about a second to import, so it is imported on the first chart.
"""

import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

LINES_PLACE = (0.175, 0.17, 0.8, 0.72)  # room for ticks such as −0.0005, and for a legend above
WIDTH = 4.7  # inches at 72 units an inch: about the width of a phone, and half of a desktop page
# Drawn colour -> CSS variable of style.css. The drawn colours mean nothing; they only must not occur otherwise.
SERIES = tuple(f"series-{place}" for place in range(1, 6))
_NAMES = ("ink", "muted", "axis", "grid", "surface", "neutral", "good", "bad", *SERIES)
_PLACEHOLDERS = {name: f"#0f0e{place:02x}" for place, name in enumerate(_NAMES, start=1)}
BEFORE_AND_AFTER = ("neutral", "series-1")
Points = Sequence[tuple[float, float | None]]


def line_chart(
    series: Mapping[str, Points],
    *,
    x_label: str,
    y_label: str,
    percent: bool = False,
    y_range: tuple[float, float] | None = None,
    colours: Sequence[str] = SERIES,
    behind: Mapping[str, Points] | None = None,
) -> Markup:
    """Lines over a common x axis; None in y is a gap. percent: y holds fractions and is labelled in per cent.

    behind: for each series, what is drawn faintly behind its line, such as the values that it is the average of.
    """
    figure, axes = _figure(height=2.9, place=LINES_PLACE)
    for (name, rows), colour in zip(series.items(), _enough(colours, len(series)), strict=False):
        xs, ys = _coordinates(rows)
        if behind:
            faint = 0.3 if len(series) == 1 else 0.15
            axes.plot(*_coordinates(behind[name]), color=_PLACEHOLDERS[colour], linewidth=1, alpha=faint)
        marker = "o" if len(rows) <= 30 or _has_lone_point(ys) else None
        axes.plot(xs, ys, label=name, color=_PLACEHOLDERS[colour], linewidth=1.8, marker=marker, markersize=3.5)
    if y_range is not None:
        low, high = y_range
        margin = 0.02 * (high - low)  # a line that lies on the edge is seen whole
        axes.set_ylim(low - margin, high + margin)
    axes.xaxis.set_major_locator(_ticker().MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_locator(_ticker().MaxNLocator(nbins=5))
    _label(axes, x_label, y_label, percent_axis=axes.yaxis if percent else None)
    axes.grid(axis="y", color=_PLACEHOLDERS["grid"], linewidth=0.8)
    if len(series) > 1:
        _legend(axes, columns=3)
    return _svg(figure, f"Line chart: {', '.join(series)}. {y_label} over {x_label}.")


def bar_chart(
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    percent: bool = False,
    colours: Sequence[str] = SERIES,
) -> Markup:
    """Horizontal bars: one group a row from the top, one bar a series in it, the value written at its end."""
    height_of_bar = 0.8 / max(1, len(series))
    figure, axes = _figure(height=0.95 + len(groups) * max(0.3, 0.2 * len(series) + 0.14))
    most = max((value for values in series.values() for value in values), default=0.0) or 1.0
    for place, ((name, values), colour) in enumerate(zip(series.items(), _enough(colours, len(series)), strict=False)):
        rows = [row - 0.4 + height_of_bar * (place + 0.5) for row in range(len(groups))]
        axes.barh(rows, values, height=height_of_bar * 0.9, color=_PLACEHOLDERS[colour], label=name)
        for row, value in zip(rows, values, strict=True):
            text = f"{100 * value:.1f} %" if percent else f"{value:g}"
            axes.text(value + most * 0.015, row, text, va="center", fontsize=9, color=_PLACEHOLDERS["muted"])
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.16)
    axes.xaxis.set_major_locator(_ticker().MaxNLocator(nbins=5))
    axes.tick_params(axis="y", length=0, labelcolor=_PLACEHOLDERS["ink"])
    _label(axes, x_label, "", percent_axis=axes.xaxis if percent else None)
    if len(series) > 1:
        _legend(axes, columns=3)
    return _svg(figure, f"Bar chart of {x_label}: {', '.join(groups)}; bars: {', '.join(series)}.")


def interval_chart(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    x_label: str,
    reference: float | None = None,
    percent: bool = False,
    points: bool = False,
    colours: Sequence[str] = SERIES[:1],
) -> Markup:
    """One row a (name, value, low, high): a dot with its interval; reference draws a vertical line, such as 0.

    percent: values are fractions, labelled in per cent. points: they are differences of fractions, labelled in points.
    """
    figure, axes = _figure(height=0.75 + 0.42 * len(rows))
    if reference is not None:
        axes.axvline(reference, color=_PLACEHOLDERS["axis"], linewidth=1.2, linestyle=(0, (4, 3)))
    for place, ((_, value, low, high), colour) in enumerate(zip(rows, _enough(colours, len(rows)), strict=False)):
        drawn = _PLACEHOLDERS[colour]
        axes.plot([low, high], [place, place], color=drawn, linewidth=3, solid_capstyle="round", alpha=0.55)
        axes.plot([value], [place], marker="o", markersize=7, color=drawn)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(_ticker().MaxNLocator(nbins=5))
    axes.tick_params(axis="y", length=0, labelcolor=_PLACEHOLDERS["ink"])
    axes.grid(axis="x", color=_PLACEHOLDERS["grid"], linewidth=0.8)
    _label(axes, f"{x_label}, points" if points else x_label, "", percent_axis=axes.xaxis if percent else None)
    if points:
        axes.xaxis.set_major_formatter(_ticker().FuncFormatter(lambda value, _: _signed(100 * value)))
    return _svg(figure, f"Interval chart of {x_label}: {', '.join(row[0] for row in rows)}.")


def count_chart(counts: Mapping[tuple[float, float], int], *, x_label: str, y_label: str, largest: float) -> Markup:
    """How many things fall on each (x, y), both from 0 to `largest`: discs by area, above the diagonal y > x."""
    figure, axes = _figure(height=3.6)
    axes.plot([0, largest], [0, largest], color=_PLACEHOLDERS["axis"], linewidth=1, linestyle=(0, (4, 3)))
    room = 285.0 / (largest + 1)  # units between two neighbouring places of the grid
    most = max(counts.values(), default=1)
    written = room >= 22  # a disc can hold its number
    for (x, y), count in counts.items():
        colour = "series-1" if y > x else "series-2" if y < x else "neutral"
        smallest = 15.0 if written else 3.0
        diameter = max(smallest, min(room, 44.0) * math.sqrt(count / most) * 0.95)
        axes.plot([x], [y], marker="o", markersize=diameter, color=_PLACEHOLDERS[colour], alpha=0.9, mew=0)
        if written:
            text = {"ha": "center", "va": "center", "fontsize": 9, "color": _PLACEHOLDERS["surface"]}
            axes.text(x, y, str(count), **text)
    margin = 0.55 if written else 0.03 * largest
    axes.set_xlim(-margin, largest + margin)
    axes.set_ylim(-margin, largest + margin)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(_ticker().MaxNLocator(nbins=8, integer=True))
    axes.grid(color=_PLACEHOLDERS["grid"], linewidth=0.8)
    _label(axes, x_label, y_label, percent_axis=None)
    return _svg(figure, f"Counts by {x_label} and {y_label}; points above the diagonal are gains.")


def _coordinates(rows: Points) -> tuple[list[float], list[float]]:
    return [x for x, _ in rows], [math.nan if y is None else float(y) for _, y in rows]


def _enough(colours: Sequence[str], count: int) -> list[str]:
    return [colours[place % len(colours)] for place in range(count)]


def _has_lone_point(ys: Sequence[float]) -> bool:
    """Whether some point has gaps on both sides, so that no line would show it."""
    missing = [True, *(math.isnan(y) for y in ys), True]
    return any(
        not here and before and after for before, here, after in zip(missing, missing[1:], missing[2:], strict=False)
    )


def _ticker() -> Any:
    from matplotlib import ticker

    return ticker


def _figure(*, height: float, place: tuple[float, float, float, float] | None = None) -> tuple[Any, Any]:
    """An empty figure of our width and `height` inches, without matplotlib's global state.

    place: left, bottom, width and height of the axes as shares of the figure; None has them fitted to the labels, which
    doubles the time that a drawing takes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=72, layout=None if place else "constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_axes(place) if place else figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_PLACEHOLDERS["axis"])
    axes.tick_params(color=_PLACEHOLDERS["axis"], labelcolor=_PLACEHOLDERS["muted"], labelsize=10, length=3)
    return figure, axes


def _label(axes: Any, x_label: str, y_label: str, *, percent_axis: Any) -> None:
    text = {"color": _PLACEHOLDERS["muted"], "fontsize": 10}
    axes.set_xlabel(x_label, **text)
    axes.set_ylabel(y_label, **text)
    if percent_axis is not None:
        percents = _ticker().FuncFormatter(lambda value, _: f"{100 * value:.3g} %".replace("-", "−"))
        percent_axis.set_major_formatter(percents)


def _signed(value: float) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")


def _legend(axes: Any, *, columns: int) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize=10,
        labelcolor=_PLACEHOLDERS["ink"],
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )


def _svg(figure: Any, description: str) -> Markup:
    """The figure as an inline <svg> with CSS variables for colours and ids of its own."""
    import matplotlib

    salt = hashlib.sha256(description.encode()).hexdigest()[:8]
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # matplotlib names its groups alike in every figure
    svg = re.sub(r"<!--.*?-->\n?|<style.*?</style>\n?", "", svg, flags=re.DOTALL)  # style.css has those rules
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    for name, colour in _PLACEHOLDERS.items():
        svg = svg.replace(colour, f"var(--{name})")
    opening = f'<svg role="img" aria-label="{Markup.escape(description)}"'
    svg = re.sub(r'<svg xmlns:xlink="[^"]*" width="[^"]*" height="[^"]*"', opening, svg, count=1)
    return Markup(re.sub(r"\n\s*", "\n", svg).strip())
