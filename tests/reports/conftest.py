"""A browser for pages, and what reads them in it."""

import os

import browser
import pytest


@pytest.fixture(scope="session")
def driver():
    """A browser; without one tests are skipped, but not where everything has to be there."""
    if browser.programs() is None:
        _missing("there is no browser here (chromium, chromedriver): `make system` installs it")
    with browser.browser() as found:
        yield found


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    source = browser.axe()
    if source is None:
        _missing("axe-core is not in the virtual environment: `make axe` puts it there")
    return source


@pytest.fixture
def opened(driver, tmp_path):
    """A function that writes a page to a file and gives it in the browser."""

    def open_page(html):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        return browser.Opened(driver, path)

    return open_page


def _missing(reason):
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
