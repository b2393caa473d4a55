"""A browser of the tests' own: Chromium without a window, driven through its driver, with an empty profile."""

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ),
    *("--force-color-profile=srgb", "--no-default-browser-check", "--disable-dev-shm-usage"),
)
AXE = "axe/node_modules/axe-core/axe.min.js"


def programs():
    """Return where the browser and its driver are; None if they are nowhere."""
    names = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)
    found = [next(filter(None, map(shutil.which, some)), None) for some in names]
    return found if all(found) else None


def axe():
    """Return the source of axe-core, which `make` puts into the virtual environment; None if it is not there."""
    place = Path(sys.prefix) / AXE
    return place.read_text(encoding="utf-8") if place.is_file() else None


@contextlib.contextmanager
def browser():
    """Start a browser and yield its driver; end it afterwards."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = programs()
    profile = tempfile.mkdtemp(prefix="pufferflow-browser-")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    try:
        found.set_script_timeout(60)
        found.get("about:blank")  # away from the page that a browser begins with
        yield found
    finally:
        found.quit()
        shutil.rmtree(profile, ignore_errors=True)


class Opened:
    """A page in the browser, as one screen shows it."""

    def __init__(self, driver, path):
        self.driver, self.path = driver, path

    def look(self, *, width=1200, height=900, scheme="light", media="screen"):
        """Open the page on a screen of this size, in light or dark."""
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )
        self.driver.get(self.path.as_uri())
        return self

    def run(self, script, *given):
        """Run a script in the page and return what it returns."""
        return self.driver.execute_script(script, *given)

    def complaints(self):
        """Return what the page wrote to the console."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def requests(self):
        """Return the addresses that the page asked for, its own left out."""
        told = [
            json.loads(line["message"])["message"] for line in self.driver.get_log("performance")
        ]
        asked = [
            one["params"]["request"]["url"]
            for one in told
            if one["method"] == "Network.requestWillBeSent"
        ]
        return [
            url for url in asked if url.partition("#")[0] != self.path.as_uri() and url != "data:,"
        ]

    def violations(self, source):
        """Return what axe-core finds serious or critical."""
        self.run(source)
        run = "axe.run({resultTypes: ['violations']})"
        script = (
            f"const done = arguments[0]; {run}.then(done, fault => done({{error: String(fault)}}));"
        )
        found = self.driver.execute_async_script(script)
        grave = [one for one in found["violations"] if one["impact"] in {"serious", "critical"}]
        return [(one["id"], one["nodes"][0]["html"][:200]) for one in grave]

    def printed(self):
        """Return the page as a PDF, in base64."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        return self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]

    def picture(self):
        """Return a picture of the whole page, in base64."""
        return self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True}
        )["data"]
