"""The demo's data card in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from tests.browsing import every_form
from tests.conftest import ROOT
from tests.prepare.preparing import prepare


@pytest.mark.browser
def test_the_card_reads_well_at_any_width_light_and_dark(browser: Any, tmp_path: Path, sandbox_url: str) -> None:
    prepare(
        tmp_path / "out",
        ROOT / "demo/problems",
        sandbox_url,
        regression_dataset=str(ROOT / "demo/regression.jsonl"),
        max_candidate_samples=60,
        max_eval_samples=40,
    )
    for page, _ in every_form(browser, tmp_path / "out.html"):
        sections = page.locator("h2").all_inner_texts()
        assert {"Splits", "Hidden tests", "Near-duplicates"} <= set(sections)
        assert page.locator("table").count() >= 4
