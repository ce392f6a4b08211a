"""The report in a real browser: charts drawn, nothing on the console, readable wide and narrow, light and dark, on paper too.

Needs Debian's chromium and chromium-driver; without them these tests fail, they do not skip.
"""

import base64
import re

import numpy as np
import pytest

from fedtier.reports import findings, load_runs, page, tables
from fedtier.reports.load_runs import Point

pytestmark = pytest.mark.browser

WIDTHS = (1200, 400)
NAMES = ("aarau", "bern", "chur", "zürich")


def curves(cells):
    """The four methods on four sites with names, of which one has two test rows; accuracies as if they were large sites'."""
    found = load_runs.load_runs([cells])
    draws = np.random.default_rng(3)
    rows = (40, 30, 2, 50)
    out = []
    for curve in found:
        points = [
            p._replace(personal=float(draws.uniform(0.5, 1.0)) if p.client != 2 else 0.0, rows=rows[p.client])
            for p in curve.points
        ]
        out.append(curve._replace(points=points, names=NAMES, counts=curve.counts._replace(names=NAMES)))
    return out


def many_clients(curve):
    """One run with 60 clients in each of two seeds, drawn anew; the largest has all rows of its classes."""
    draws = np.random.default_rng(5)
    rows = draws.integers(0, 4, (60, 3))
    rows[7] = 200
    names = tuple(map(str, range(60)))
    counts = curve.counts._replace(
        clients=rows, held=rows[:, 0], names=names, labels=("a", "b", "c"), server=np.asarray([150, 0, 80])
    )
    points = [Point(k, s, 0.5, float(draws.uniform(0.4, 1)), 20) for s in (0, 1) for k in range(60)]
    return curve._replace(counts=counts, names=names, points=points, same_clients=False)


@pytest.fixture(scope="module")
def report(cells, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page.page(curves(cells)))
    return file


@pytest.fixture(scope="module")
def crowd(cells, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "crowd.html"
    file.write_text(page.page([many_clients(curves(cells)[1])]))
    return file


def look_at(browser, file, width: int, theme: str = "light"):
    """The page in a window of this width, on a system with this theme, without memory of earlier visits."""
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(file.as_uri())
    browser.execute_script("localStorage.clear()")
    browser.get(file.as_uri())
    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return document.body.dataset.charts"))
    browser.width = width
    return browser


@pytest.fixture(params=WIDTHS)
def opened(request, browser, report):
    return look_at(browser, report, request.param)


@pytest.fixture(params=[(width, theme) for width in WIDTHS for theme in ("light", "dark")], ids=str)
def dressed(request, browser, report):
    return look_at(browser, report, *request.param)


def test_every_chart_is_drawn_and_the_console_is_silent(opened):
    # three curves (no client has the rows to be the worst), three methods with a global model, the partition
    assert opened.execute_script("return Number(document.body.dataset.charts)") == 7
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
    small = """return [...document.querySelectorAll('.chart text, p, td, th, small, button')]
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
    visible = "return document.querySelectorAll('#s0-global .trace').length"
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


def test_paper_is_white_and_the_page_dark_again_after_it(browser, report):
    look_at(browser, report, 1200, "dark")
    colour = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.execute_script(colour)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(colour) == "rgb(255, 255, 255)"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.execute_script(colour) == dark != "rgb(255, 255, 255)"


def test_what_was_found_stands_on_top_before_anything_else(opened, cells):
    said = opened.execute_script("return document.querySelector('h1 + p').textContent")
    assert said == findings.sentence(load_runs.outcome(curves(cells)))
    place = "const b = document.querySelector('p.finding').getBoundingClientRect(); return [b.top, b.bottom]"
    top, bottom = opened.execute_script(place)
    assert 0 < top < bottom < 900  # seen without scrolling
    loudest = """const size = e => parseFloat(getComputedStyle(e).fontSize), found = size(document.querySelector('.finding'));
        return [...document.querySelectorAll('p')].every(p => size(p) <= found)"""
    assert opened.execute_script(loudest)


def test_the_best_values_and_the_certain_differences_have_signs_that_need_no_colour(opened, cells):
    wanted = tables.lines(load_runs.outcome(curves(cells)))
    read = """return [...document.querySelectorAll('table.results')].map(table => [...table.tBodies[0].rows].map(row =>
        [row.cells[0].textContent, ...[...row.cells].slice(1).map(c => c.querySelector('.mark')?.textContent ?? '')]))"""
    scores, differences = opened.execute_script(read)
    assert scores == [[line.method, *line.marks.values()] for line in wanted]
    assert differences == [[line.method, *line.verdicts.values()] for line in wanted if line.differences]
    assert any("★" in row for row in scores)
    bold = """return [...document.querySelectorAll('td.best .value > span:first-child')]
        .every(e => Number(getComputedStyle(e).fontWeight) >= 600)"""
    assert opened.execute_script(bold)
    full = """return [...document.querySelectorAll('table.results svg.bar')].every(bar =>
        !!bar.querySelector('.full') === !!bar.closest('td').querySelector('.mark'))"""
    assert opened.execute_script(full)


def test_the_worst_site_is_named_and_stands_first_and_any_column_sorts(opened):
    said = opened.execute_script("return document.querySelector('.callout b').textContent")
    column = """const t = document.querySelector('.sortable'), k = arguments[0];
        return [...t.tBodies[0].rows].map(r => k ? Number(r.cells[k].dataset.value) : r.cells[0].textContent)"""
    names = opened.execute_script(column, 0)
    assert set(names) == set(NAMES) and said == f"Worst client: {names[0]}." and names[-1] == "chur"  # two rows: not judged
    heads = opened.execute_script("return [...document.querySelectorAll('.sortable thead th')].map(h => h.textContent)")
    press = "document.querySelectorAll('.sortable thead button')[arguments[0]].click()"
    for k, _ in enumerate(heads):
        opened.execute_script(press, k)
        judged = opened.execute_script(column, k)[:3]  # the site with two rows stays last
        assert judged == sorted(judged)
        opened.execute_script(press, k)
        assert opened.execute_script(column, k)[:3] == judged[::-1]
        state = "return [...document.querySelectorAll('.sortable thead th')].map(h => h.getAttribute('aria-sort'))"
        assert opened.execute_script(state)[k] == "descending" and opened.execute_script(state).count("none") == len(heads) - 1


def test_owners_are_named_in_the_table_the_dots_and_the_partition(opened):
    dots = opened.execute_script("return document.querySelector('#s0-clients-0').data[1].text")
    assert {words.split(",")[0] for words in dots} == set(NAMES)
    ticks = "return [...document.querySelectorAll('#s0-partition .xtick text')].map(t => t.textContent)"
    assert opened.execute_script(ticks) == [*NAMES, "server"]


def test_curves_have_a_point_for_every_evaluation_and_may_be_drawn_against_bytes(opened):
    points = "return document.querySelector('#s0-loss').data.filter(t => !t.fill).map(t => t.x.length)"
    assert opened.execute_script(points) == [4, 4, 4]
    title = "return document.querySelector('#s0-loss .xtitle').textContent"
    assert opened.execute_script(title) == "rounds"
    opened.execute_async_script(
        """const done = arguments[0]; document.querySelector('#s0-loss').once('plotly_afterplot', () => done());
        document.querySelector('.switch [data-across=bytes]').click()"""
    )
    assert opened.execute_script(title).startswith("sent, up and down")
    pressed = "return [...document.querySelectorAll('.switch [aria-pressed=true]')].map(b => b.textContent)"
    assert opened.execute_script(pressed) == ["bytes"]


LUMINANCE = """
    const parse = c => c.match(/[\\d.]+/g).map(Number);
    const lum = ([r, g, b]) => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
    const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
    const back = parse(getComputedStyle(document.body).backgroundColor);
"""


def test_words_stand_out_from_the_page_in_both_themes(dressed):
    pale = f"""{LUMINANCE}
        const words = [...document.querySelectorAll('h1, h2, h3, p, td, th, small, abbr, button, summary')];
        const texts = [...document.querySelectorAll('.chart text')];
        const pale = words.filter(e => e.textContent.trim() && ratio(parse(getComputedStyle(e).color), back) < 4.5);
        const faint = texts.filter(e => ratio(parse(getComputedStyle(e).fill), back) < 4.5);
        return [...pale, ...faint].map(e => e.outerHTML.slice(0, 90))"""
    assert dressed.execute_script(pale) == []
    lines = f"""{LUMINANCE} return [...document.querySelectorAll('.legend svg, .chart .scatterlayer .js-line')]
        .map(e => ratio(parse(getComputedStyle(e).stroke), back)).filter(r => r < 2)"""
    assert dressed.execute_script(lines) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_wears_the_systems_theme_until_another_is_chosen_and_remembers_that(browser, report, theme):
    look_at(browser, report, 1200, theme)
    other = {"light": "dark", "dark": "light"}[theme]
    colours = f"""{LUMINANCE}
        const chart = parse(getComputedStyle(document.querySelector('#s0-loss .main-svg')).backgroundColor);
        return [lum(back) < .1 ? 'dark' : 'light', lum(chart) < .1 ? 'dark' : 'light']"""
    assert browser.execute_script(colours) == [theme, theme]
    browser.execute_async_script(
        """const done = arguments[0]; document.querySelector('#s0-loss').once('plotly_afterplot', () => done());
        document.querySelector('#theme').click()"""
    )
    assert browser.execute_script(colours) == [other, other]
    browser.get(report.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.theme") == other


def test_what_does_not_fit_scrolls_and_says_so(opened):
    state = """return [...document.querySelectorAll('.scroll')].map(part => {
        const sign = part.nextElementSibling.getBoundingClientRect();
        const seen = sign.height > 0 && sign.right <= innerWidth;
        return [part.scrollWidth > part.clientWidth + 2, part.dataset.more ?? '', seen] })"""
    found = opened.execute_script(state)
    assert any(wide for wide, _, _ in found) == (opened.width == 400)  # the results, on a telephone
    assert all((wide, more) in ((True, "right"), (False, "")) and wide == sign for wide, more, sign in found)
    if opened.width == 400:
        opened.execute_async_script(
            """const done = arguments[0], part = document.querySelector('.scroll');
            part.addEventListener('scroll', () => setTimeout(done, 50)); part.scrollLeft = part.scrollWidth"""
        )
        assert opened.execute_script("return document.querySelector('.scroll').dataset.more") == "left"
        seen = """const head = document.querySelector('.results tbody th').getBoundingClientRect();
            return head.left >= 0 && head.width > 40"""
        assert opened.execute_script(seen)  # whose numbers these are stays in sight
    cut = """return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg')
        && getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML)"""
    assert opened.execute_script(cut) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_shaded_grid_is_like_the_page_for_few_rows_and_has_the_server_in_it(browser, crowd, theme):
    look_at(browser, crowd, 1200, theme)
    pixels = f"""{LUMINANCE}
        const done = arguments[0], images = [...document.querySelectorAll('#s0-partition .hm image')];
        Promise.all(images.map(image => new Promise(go => {{
            const picture = new Image();
            picture.onload = () => {{
                const canvas = document.createElement('canvas');
                [canvas.width, canvas.height] = [picture.width, picture.height];
                const pen = canvas.getContext('2d');
                pen.drawImage(picture, 0, 0);
                const wide = picture.width, tall = picture.height, at = (x, y) => lum([...pen.getImageData(x, y, 1, 1).data]);
                const half = Math.floor(wide / (image.href.baseVal && images.indexOf(image) === 0 ? 120 : 2));
                go([5, 3, 1].map(k => at(half, Math.floor(tall * k / 6))));
            }};
            picture.src = image.href.baseVal;
        }}))).then(found => done([lum(back), ...found]))"""
    page_colour, largest, server = browser.execute_async_script(pixels)
    # the first column is the client with 200 rows of each class; the server has 150, 0 and 80
    assert all(abs(value - page_colour) > 0.25 for value in (*largest, server[0], server[2]))
    assert abs(server[1] - page_colour) < 0.1
    assert browser.execute_script("return document.querySelectorAll('#s0-partition .x2tick text')[0].textContent") == "server"


def test_a_long_list_of_clients_is_short_until_asked_for_and_can_be_searched(browser, crowd):
    look_at(browser, crowd, 1200)
    shown = "return [...document.querySelectorAll('.sortable tbody tr')].filter(r => r.offsetHeight).length"
    assert browser.execute_script(shown) == 12
    browser.execute_script("document.querySelector('.tools button').click()")
    assert browser.execute_script(shown) == 120
    type_in = """const field = document.querySelector('.tools input'); field.value = arguments[0];
        field.dispatchEvent(new Event('input'))"""
    browser.execute_script(type_in, "client\u00a059")
    assert browser.execute_script(shown) == 2
    browser.execute_script(type_in, "")
    assert browser.execute_script(shown) == 120
