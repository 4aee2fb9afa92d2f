"""The last page of a run, and the list of pages that `report` serves, in a real browser."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.serving import index_page
from components.shared.errors import FAILURE_KEY
from components.shared.run import RUN_VARIABLE
from components.shared.status import write_status
from components.shared.store import Store, open_store
from tests.browsing import every_form

RUN = "20261130-101500-3f2a"
EVALUATION = {
    "headline": "This adapter learned: pass@1 rose from 25.0 % to 50.0 %.",
    "base": {"pass_at_1": 0.25, "ci95": [0.1, 0.4]},
    "tuned": {"pass_at_1": 0.5, "ci95": [0.4, 0.6]},
    "difference": {"pass_at_1": 0.25, "ci95": [0.1, 0.4]},
}
DECISION = {"published": False, "name": "mbpp-coder", "reason": "the interval of the difference holds 0." * 4}
FAILURE = {"step": "train", "kind": "user", "message": f"The number {'9' * 200} is too large: <at most 8>."}


@pytest.fixture
def store(store_root: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in which run RUN has an evaluation, and a decision to publish or not."""
    monkeypatch.setenv(RUN_VARIABLE, RUN)
    made = open_store()
    made.write(f"runs/{RUN}/evaluate/evaluation.json", json.dumps(EVALUATION).encode())
    made.write(f"runs/{RUN}/evaluate/report.html", b"report")
    made.write(f"runs/{RUN}/publish/decision.json", json.dumps(DECISION).encode())
    return made


@pytest.mark.browser
@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_the_last_page_reads_well_at_any_width_light_and_dark(
    browser: Any, store: Store, store_root: Path, state: str
) -> None:
    if state == "FAILED":
        store.write(f"runs/{RUN}/{FAILURE_KEY}", json.dumps(FAILURE).encode())
    write_status(RUN, "", state=state, error="")
    for page, _ in every_form(browser, store_root / f"runs/{RUN}/status.html"):
        lead = page.locator(".lead").inner_text()
        if state == "SUCCEEDED":
            assert lead == EVALUATION["headline"]
            assert page.locator(".stat").count() == 3
        else:
            assert page.locator("h2").all_inner_texts()[1] == "How to go on"
            assert ("train: The number 999" in lead) == (state == "FAILED")
        assert page.get_by_role("link").all_inner_texts() == ["Evaluation: did it learn, by how much, how sure"]


@pytest.mark.browser
def test_the_list_of_pages_reads_well_at_any_width_light_and_dark(browser: Any, store: Store, tmp_path: Path) -> None:
    write_status(RUN, "", state="SUCCEEDED", error="")
    file = tmp_path / "pages.html"
    file.write_text(index_page(store, RUN), encoding="utf-8")
    for page, _ in every_form(browser, file):
        assert page.get_by_role("link").count() == 2
        assert page.locator("li").count() == 4
