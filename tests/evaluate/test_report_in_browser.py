"""A real evaluation's page in a real browser: nothing fetched, nothing logged, nothing wider than the screen."""

import pytest

from tests.browsing import every_form
from tests.evaluate.trained import evaluated, fully_trained


@pytest.fixture
def page_file(tmp_path, problem_set, untaught_model, given, local_sandbox, store_root):
    from tests.conftest import DEMO_MODEL

    given["model_name"] = str(untaught_model)
    evaluated(tmp_path, problem_set, fully_trained(tmp_path / "m", base=untaught_model, weights=DEMO_MODEL), given)
    return tmp_path / "report.html"


@pytest.mark.browser
def test_the_report_reads_well_at_any_width_light_and_dark(browser, page_file):
    for page, width in every_form(browser, page_file):
        assert page.locator("svg[role=img]").count() == 4
        for svg in page.locator("svg[role=img]").all():
            assert svg.bounding_box()["width"] > 0.6 * min(width, 540)


@pytest.mark.browser
def test_text_has_enough_contrast_in_both_schemes(browser, page_file):
    """WCAG AA: 4.5 to 1 for text; the page's own colours, as the browser resolves them."""
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(page_file.as_uri())
        ratios = page.evaluate(
            """() => {
              const style = getComputedStyle(document.documentElement);
              const luminance = name => {
                const hex = style.getPropertyValue(name).trim();
                const parts = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16) / 255)
                  .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
              };
              const ratio = (a, b) => {
                const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
                return (high + 0.05) / (low + 0.05);
              };
              const found = {};
              for (const ink of ['--ink', '--muted', '--good', '--bad'])
                for (const paper of ['--page', '--surface'])
                  found[ink + ' on ' + paper] = ratio(ink, paper);
              return found;
            }"""
        )
        assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}
        page.close()
