"""The comparison in a real browser: nothing fetched, nothing logged, nothing wider than the screen."""

import pytest

from cli.comparing import page_of
from cli.past_runs import load
from components.shared.store import open_store
from tests.browsing import every_form
from tests.cli.past import evaluation_of, past_run


@pytest.fixture
def page_file(tmp_path, store_root):
    store = open_store()
    names = [f"20261130-0{number}0000-abcd" for number in range(8)]
    for number, name in enumerate(names):
        tuned = [min(4, number // 2), 2, 3, 1] * 10
        past_run(store, name, evaluation=evaluation_of([0, 1, 2, 1] * 10, tuned), grpo_overrides="x" * 90 * number)
    past_run(store, "crashed", outcome="failed")
    file = tmp_path / "comparison.html"
    file.write_text(page_of(store, [load(store, name) for name in (*names, "crashed")]), encoding="utf-8")
    return file


@pytest.mark.browser
def test_the_page_reads_well_at_any_width_light_and_dark(browser, page_file):
    for page, _ in every_form(browser, page_file):
        assert page.locator("svg[role=img]").count() == 2
        assert page.locator("h2").all_inner_texts()[0] == "Results"
