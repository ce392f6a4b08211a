"""The report in a real browser: charts drawn, nothing on the console, readable wide and narrow, on paper too.

Needs Debian's chromium and chromium-driver; without them these tests fail, they do not skip.
"""

import base64
import re
import shutil

import pytest

from fedtier.reports import load_runs, page

pytestmark = pytest.mark.browser

WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def report(cells, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page.page(load_runs.load_runs([cells]), "server_only"))
    return file


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    found = shutil.which("chromium"), shutil.which("chromedriver")
    assert all(found), "no Chromium: apt-get install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found[1]))
    yield driver
    driver.quit()


@pytest.fixture(params=WIDTHS)
def opened(request, browser, report):
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": request.param < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(report.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.charts"))
    browser.width = request.param
    return browser


def test_every_chart_is_drawn_and_the_console_is_silent(opened):
    # nine curves, three methods with a global model, the partition
    assert opened.execute_script("return Number(document.body.dataset.charts)") == 13
    assert opened.get_log("browser") == []
    empty = "return [...document.querySelectorAll('.chart')].filter(c => !c.querySelector('.trace, .hm')).map(c => c.id)"
    assert opened.execute_script(empty) == []
    requests = [m for m in opened.get_log("performance") if "Network.requestWillBeSent" in m["message"]]
    assert not [r for r in requests if re.search(r'"url":"https?:', r["message"])]


def test_the_page_fits_its_width_and_words_are_large_enough(opened):
    assert opened.execute_script("return document.documentElement.scrollWidth") <= opened.width
    beyond = """return [...document.querySelectorAll('.grid .chart, h1, h2, h3, p, summary')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < 0)
        .map(e => e.outerHTML.slice(0, 80))"""
    assert opened.execute_script(beyond) == []
    small = """return [...document.querySelectorAll('.chart text, p, td, th')]
        .filter(e => e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.textContent)"""
    assert opened.execute_script(small) == []


def test_no_two_labels_of_an_axis_overlap(opened):
    overlapping = """
        const out = [];
        for (const chart of document.querySelectorAll('.chart')) {
          for (const kind of ['.xtick text', '.ytick text']) {
            const boxes = [...chart.querySelectorAll(kind)].map(t => t.getBoundingClientRect());
            for (let a = 0; a < boxes.length; a++) for (let b = a + 1; b < boxes.length; b++) {
              const x = Math.min(boxes[a].right, boxes[b].right) - Math.max(boxes[a].left, boxes[b].left);
              const y = Math.min(boxes[a].bottom, boxes[b].bottom) - Math.max(boxes[a].top, boxes[b].top);
              if (x > 1 && y > 3) out.push(chart.id);
            }
          }
          const side = chart.querySelector('.ytitle')?.getBoundingClientRect();
          for (const tick of chart.querySelectorAll('.ytick text'))
            if (side && side.right > tick.getBoundingClientRect().left + 1) out.push(chart.id + ' side');
          const title = chart.querySelector('.gtitle')?.getBoundingClientRect();
          if (title && title.right > chart.getBoundingClientRect().right + 1) out.push(chart.id + ' title');
        }
        return out"""
    assert opened.execute_script(overlapping) == []


def test_a_method_is_hidden_and_shown_in_all_charts_by_its_legend(opened):
    visible = "return document.querySelectorAll('#s0-global-round .trace').length"
    before = opened.execute_script(visible)
    press = "document.querySelector('.legend button[data-method=FedAvg]').click()"
    opened.execute_script(press)
    assert opened.execute_script(visible) < before
    opened.execute_script(press)
    assert opened.execute_script(visible) == before


def test_it_prints_with_the_configurations_open(opened):
    paper = opened.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    data = base64.b64decode(paper["data"])
    pages = len(re.findall(rb"/Type\s*/Page[^s]", data))
    assert data.startswith(b"%PDF") and 3 <= pages <= 8
    assert opened.execute_script("return [...document.querySelectorAll('details')].every(d => d.open)")
