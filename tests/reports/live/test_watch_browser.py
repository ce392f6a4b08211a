"""The live page in a real browser: it draws itself, follows a run as it grows, and is readable wide and narrow, light and dark.

FEDTIER_SHOTS names a folder for pictures of what was looked at.
"""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedtier.experiments.run_folder import RunFolder

from ...small_runs import metrics
from .serving import half_of, serving

pytestmark = pytest.mark.browser

WAYS = [(width, theme) for width in (1200, 400) for theme in ("light", "dark")]


@pytest.fixture(scope="module")
def run(outcome):
    (cell,) = [cell for cell in outcome.comparison.cells if cell.config.method.name == "fedavg"]
    return cell.folder


def until(browser, script: str):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 60).until(lambda b: b.execute_script(script))


@contextmanager
def opened(browser, server, width: int = 1200, theme: str = "light"):
    """The page in a window of this width, on a system with this theme."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    browser.get_log("browser")
    browser.get(server.address)
    until(browser, "return document.body.dataset.shown")
    yield browser
    browser.get("about:blank")  # closes the stream


def shot(browser, name: str) -> None:
    if folder := os.environ.get("FEDTIER_SHOTS"):
        height = browser.execute_script("return document.documentElement.scrollHeight")
        width = browser.execute_script("return innerWidth")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.mark.parametrize(("width", "theme"), WAYS)
def test_the_page_draws_itself_within_its_width_and_the_console_is_silent(browser, run, width, theme):
    with serving(run) as server, opened(browser, server, width, theme):
        shot(browser, f"run-{width}-{theme}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return document.querySelectorAll('.client').length") == 4
        cells = "return [...document.querySelectorAll('.client svg.strip')].map(s => s.querySelectorAll('rect').length)"
        assert browser.execute_script(cells) == [4] * 4
        beyond = """return [...document.querySelectorAll('h1, h2, p, dd, .client > *, pre')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < 0)
            .map(e => e.outerHTML.slice(0, 80))"""
        assert browser.execute_script(beyond) == []
        small = """return [...document.querySelectorAll('main *')].filter(e => e.children.length === 0 && e.textContent.trim()
            && e.tagName !== 'title' && parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.textContent)"""
        assert browser.execute_script(small) == []
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (theme == "light")
        assert browser.get_log("browser") == []


def test_colours_have_words_beside_them(browser, run):
    with serving(run) as server, opened(browser, server):
        labels = browser.execute_script(
            "return [...document.querySelectorAll('svg.strip')].map(s => s.getAttribute('aria-label'))"
        )
        assert len(labels) == 4 and all("accuracy of" in label and "to round 6" in label for label in labels)
        numbers = browser.execute_script(
            "return [...document.querySelectorAll('.client')].map(c => c.querySelector('.number').innerText)"
        )
        last = next(row for row in metrics(run) if row["round"] == 6)["by_client"]["personal"]
        assert numbers == [f"{100 * value:.1f} %" for value in last]
        words = browser.execute_script("return [...document.querySelectorAll('.client .phase')].map(p => p.innerText)")
        assert words == ["✓ answered"] * 4


def test_a_new_row_comes_without_a_reload(browser, run, tmp_path):
    coming = half_of(run, tmp_path / "run")
    with RunFolder(tmp_path / "run").held(), serving(tmp_path / "run") as server, opened(browser, server):
        shown = "return [...document.querySelectorAll('dl.tiles dd')][0].innerText"
        assert browser.execute_script(shown) == "2 of 6"
        browser.execute_script("window.same = true")
        with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
            file.write("".join(coming[:2]))
        until(browser, f"{shown} === '4 of 6'")
        assert browser.execute_script("return window.same")


def test_a_server_that_is_gone_is_told_on_the_page(browser, run):
    with serving(run) as server, opened(browser, server):
        server.shutdown()
        server.server_close()
        until(browser, "return document.getElementById('link').innerText.includes('does not answer')")


def test_a_store_has_a_table_of_its_runs_and_the_theme_button_works(browser, cells):
    with serving(cells) as server, opened(browser, server, 400, "light"):
        shot(browser, "store-400-light")
        assert browser.execute_script("return document.querySelectorAll('table tbody tr').length") == 4
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
        browser.execute_script("document.getElementById('theme').click()")
        assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
        browser.execute_script("localStorage.clear()")


def test_names_are_words_and_never_markup(browser, run, tmp_path):
    half_of(run, tmp_path / "run")
    file = tmp_path / "run" / "partition.json"
    content = json.loads(file.read_text())
    evil = "<img src=x onerror=alert(1)>"
    content["names"][0] = evil
    file.write_text(json.dumps(content))
    with serving(tmp_path / "run") as server, opened(browser, server):
        assert browser.execute_script("return document.querySelector('.client .name').innerText") == evil
        assert browser.execute_script("return document.querySelectorAll('main img').length") == 0


def test_a_browser_with_the_address_that_was_printed_is_let_in_and_its_address_has_no_token(browser, run):
    with serving(run, token="a-token-of-many-letters") as server, opened(browser, server):
        assert browser.current_url == f"http://127.0.0.1:{server.server_port}/"
        assert browser.execute_script("return document.querySelectorAll('.client').length") == 4
