"""Pages in a real browser: what every page of ours must be, at any width, light and dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
WIDTHS = (360, 1400)
MOST_BYTES = 500_000  # of a page, so that it can go with a mail
SCHEMES = ("light", "dark")


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright; skips where either is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def every_form(browser: Any, file: Path) -> Iterator[tuple[Any, int]]:
    """The page in each width and scheme, with the width; each is small, says nothing, asks for nothing and fits.

    The two schemes differ. Whoever iterates looks at what is the page's own.
    """
    assert file.stat().st_size <= MOST_BYTES
    backgrounds = {}
    for width in WIDTHS:
        for scheme in SCHEMES:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            noise: list[str] = []
            requests: list[str] = []
            page.on("console", lambda message, kept=noise: kept.append(message.text))
            page.on("pageerror", lambda error, kept=noise: kept.append(str(error)))
            page.on("request", lambda request, kept=requests: kept.append(request.url))
            page.goto(file.as_uri())
            page.wait_for_load_state("networkidle")
            assert noise == []
            assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
            assert page.evaluate("document.documentElement.scrollWidth") == width
            yield page, width
            backgrounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.close()
    assert backgrounds["light"] != backgrounds["dark"]
