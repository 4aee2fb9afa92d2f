"""Pages and charts: self-contained, escaped, coloured by the page and bounded in size."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from jinja2 import UndefinedError

from components.shared import charts, pages


def every_chart():
    line = charts.line_chart(
        {"reward": [(1, 0.2), (2, None), (3, 0.5)], "a < b": [(1, 0.1), (3, 0.9)]},
        x_label="step",
        y_label="share",
        percent=True,
    )
    bars = charts.bar_chart(["passed", "failed"], {"base": [3, 5], "tuned": [8, 0]}, x_label="completions")
    interval = charts.interval_chart([("tuned − base", 0.3, 0.2, 0.4)], x_label="difference", reference=0.0)
    counts = charts.count_chart({(0, 4): 3, (2, 2): 1}, x_label="base", y_label="tuned", largest=4)
    return [line, bars, interval, counts]


@pytest.mark.parametrize("svg", every_chart(), ids=["line", "bar", "interval", "count"])
def test_a_chart_is_well_formed_small_and_coloured_by_the_page(svg):
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    assert root.tag.endswith("svg")
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    assert len(svg) < 20_000
    assert "#0f0e" not in svg, "a placeholder colour was left"
    assert set(re.findall(r"(?:fill|stroke): (#\w+)", svg)) == set()
    used = set(re.findall(r"var\(--([\w-]+)\)", svg))
    defined = set(re.findall(r"--([\w-]+):", (pages.TEMPLATES / "style.css").read_text()))
    assert used
    assert used <= defined


def test_a_chart_is_drawn_alike_twice_and_two_charts_share_no_ids():
    first, again = every_chart(), every_chart()
    assert first == again
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in first]
    for place, own in enumerate(ids):
        assert own.isdisjoint(set().union(*ids[place + 1 :]))


def test_an_empty_chart_and_a_chart_of_zeros_can_be_drawn():
    assert "<svg" in charts.line_chart({"loss": []}, x_label="step", y_label="loss")
    assert "<svg" in charts.bar_chart(["passed"], {"base": [0]}, x_label="completions")
    assert "<svg" in charts.line_chart({"loss": [(1, None)]}, x_label="step", y_label="loss")


def test_text_in_a_chart_is_escaped():
    svg = charts.bar_chart(["</svg><script>alert(1)</script>"], {"base": [1]}, x_label="<b>")
    assert "<script" not in svg
    assert "<b>" not in svg


def test_a_page_escapes_values_and_needs_all_of_them():
    page = pages.render("base.html", title="</title><script>x</script>", refresh_seconds=None)
    assert "<script" not in page
    with pytest.raises(UndefinedError):
        pages.render("base.html", title="x")


def test_a_page_can_be_written_whatever_a_program_printed():
    assert "half ?" in pages.render("base.html", title="half \ud800", refresh_seconds=None)


def test_a_page_reloads_itself_only_while_the_run_goes_on():
    assert '<meta http-equiv="refresh" content="15">' in pages.render("base.html", title="x", refresh_seconds=15)
    assert "refresh" not in pages.render("base.html", title="x", refresh_seconds=None)


def test_a_page_asks_the_network_for_nothing():
    page = pages.render("base.html", title="x", refresh_seconds=None)
    assert "@import" not in page
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    assert "url(" not in page


def test_code_is_highlighted_and_escaped():
    html = pages.python("def f(x):\n    return x < 1 and '<script>'\n")
    assert '<span class="k">def</span>' in html
    assert "<script>" not in html


@pytest.mark.parametrize("code", ["x = 1\n" * 1000, "y" * 100_000, "+-" * 1200, "<&>" * 5000, "é\x00\ud800" * 100])
def test_code_of_any_size_stays_small(code):
    html = pages.python(code)
    assert len(html) < 15_000
    assert len(re.sub(r"<[^>]+>", "", html)) < 15_000


def test_cut_code_says_how_much_is_missing():
    assert "… 960 more lines" in pages.python("x = 1\n" * 1000)
    assert "… 98500 more characters" in pages.python("y" * 100_000)
    assert "more" not in pages.python("x = 1\n" * 10)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (pages.percent(0.4312), "43.1\N{NO-BREAK SPACE}%"),
        (pages.percent(None), "–"),
        (pages.points(0.25), "+25.0 points"),
        (pages.points(-0.0312), "−3.1 points"),
        (pages.points(0.0), "±0.0 points"),
        (pages.points(-0.0001), "±0.0 points"),
        (pages.number(1234567), "1,234,567"),
        (pages.number(0.012345), "0.0123"),
        (pages.number(-2.0), "−2"),
        (pages.number(None), "–"),
        (pages.clip("abcdef", 4), "abc…"),
    ],
)
def test_numbers_as_people_read_them(shown, expected):
    assert shown == expected
