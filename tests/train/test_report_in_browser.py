"""The training report in a real browser: readable at any width, silent, and honest about a run that was killed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browsing import every_form
from tests.train.test_report import page, row, sample

CHARTS = 10
SECONDS_TO_LOAD = 1.0  # that a page of a file may take


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A run's page as a file."""

    def write(**changes: Any) -> Path:
        file = tmp_path / "report.html"
        hidden = {"passed_visible": 4, "failed_hidden": 1}
        metrics = [row(step, reward=step % 5 / 5, hidden=hidden) for step in range(1, 61)]
        samples = [sample(60, "\n    return '" + "x" * 300 + "'") for _ in range(4)]
        file.write_text(page(metrics, samples, **changes))
        return file

    return write


@pytest.mark.browser
def test_the_report_reads_well_at_any_width_light_and_dark(browser: Any, written: Callable[..., Path]) -> None:
    for opened, _ in every_form(browser, written()):
        assert opened.locator("svg[role=img]").count() == CHARTS
        assert not opened.locator("#stale").is_visible()


def loads_within_a_minute(browser: Any, file: Path) -> tuple[int, bool, bool]:
    """How often the page is loaded in a minute of its clock; whether it warns, and says that it reloads itself."""
    opened = browser.new_page()
    opened.clock.install(time=time.time())
    loads: list[str] = []
    opened.on("load", lambda page: loads.append(page.url))
    opened.goto(file.as_uri())
    for _ in range(4):
        before, patience = len(loads), time.monotonic() + SECONDS_TO_LOAD
        opened.clock.run_for(15_000)
        while len(loads) == before and time.monotonic() < patience:  # a reload begins after the clock has run
            opened.wait_for_timeout(20)
    seen = len(loads), opened.locator("#stale").is_visible(), opened.locator("#reloads").count() == 1
    opened.close()
    return seen


@pytest.mark.browser
def test_a_page_reloads_itself_while_it_is_written_and_no_longer(
    browser: Any, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, warns, reloads = loads_within_a_minute(browser, written())
    assert loads >= 3
    assert (warns, reloads) == (False, True)
    assert loads_within_a_minute(browser, written(finished=True)) == (1, False, False)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    old = written()
    monkeypatch.undo()
    assert loads_within_a_minute(browser, old) == (1, True, False)
