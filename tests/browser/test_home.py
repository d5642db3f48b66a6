"""Pages of what is slower: the first page of a server, and those of fleets and jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.browser.driver import By, Keys, WebDriver
from tests.browser.pages import complaints, opened, screen
from tests.browser.served import text, until, visit
from tests.browser.test_accessible import BROKEN_LEGENDS, LOOKS
from tests.browser.test_accessible import found as accessible
from tests.builders import dump, execute, run
from tests.command_line import run_etq
from tests.fleet_captures import COMMITS, DEVICES, fleet, ingest_fleet
from tests.job_traces import Faults, job
from tests.serve.server import Server, serving

TITLES = [
    "pixel8-13: all ops", "rank 3", "pixel8-07: addmm", "link of ranks 4, 5", "permute_copy since commit 21c0ffeec0ff"
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("home") / "lab.duckdb"
    ranks = job(1, Faults(late=3, slow_pair=4)).contents().items()
    with etq.open(path) as lab:
        ingest_fleet(lab)
        ingest_all(lab, [Labelled(f"rank{rank}", content, {"job": "ddp"}) for rank, content in ranks])
    with serving(path) as started:
        yield started


def titles(page: WebDriver) -> list[str]:
    return [each.text for each in page.find_elements(By.CSS_SELECTOR, ".found h2 a")]


@pytest.mark.long
def test_what_is_slower_is_first(browser: WebDriver, server: Server) -> None:
    complaints(browser)
    visit(browser, server, "/")
    assert text(browser, "h1") == "5 findings" and titles(browser) == TITLES
    assert text(browser, ".sub").startswith("158 captures of 5 models on 20 devices; newest ")
    series = browser.find_elements(By.CSS_SELECTOR, '[aria-label="All series"] tbody tr')
    assert "slower" in series[0].text and COMMITS[20][:11] in series[0].text and len(series) == 25
    assert text(browser, '[aria-label="All series"] .sub').startswith(
        "4 of 25 series judged over time; not judged: 20 (too few"
    )
    assert complaints(browser) == []


@pytest.mark.long
def test_a_series_without_an_order_has_no_trend_to_link_to(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    labels = [{"model": "mlp"}, {"model": "mlp"}, {"model": "cnn", "build": "7"}]
    with etq.open(path) as lab:
        ingest_all(
            lab,
            [Labelled(f"run{at}", dump(run("E", execute(0, 90 + at))), of) for at, of in enumerate(labels)],
        )
    with serving(path) as server:
        visit(browser, server, "/")
        rows = browser.find_elements(By.CSS_SELECTOR, '[aria-label="All series"] tbody tr')
        links = {row.text.split()[0]: len(row.find_elements(By.CSS_SELECTOR, "td a[href^='/trends']")) for row in rows}
    assert links == {"model=mlp": 0, "model=cnn": 1}


@pytest.mark.long
def test_its_findings_are_chosen_by_kind_and_selector(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/?kind=device")
    assert titles(browser) == [TITLES[0], TITLES[2]]
    browser.find_elements(By.CSS_SELECTOR, ".chips button")[1].click()
    until(browser, "document.querySelectorAll('.found li').length === 1")
    assert titles(browser) == TITLES[4:] and "kind=change" in browser.current_url
    visit(browser, server, "/?selector=model%3Dlstm")
    assert text(browser, "h1") == "No findings" and "1 of 1 series judged" in text(browser, ".found, #sections")


@pytest.mark.long
def test_a_finding_leads_to_its_comparison(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/")
    browser.find_element(By.CSS_SELECTOR, ".found .go a:last-child").click()
    until(browser, "location.pathname === '/compare' && document.documentElement.dataset.ready === 'yes'")
    assert "slower" in text(browser, "#sections")
    browser.back()
    until(browser, "document.querySelectorAll('.found li').length === 5")


SHOWN = """
    const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent);
    return {
        findings: [...document.querySelectorAll(".found > li")].map((each) => [".size", "h2", "p", "figure", "details"]
            .map((part) => each.querySelector(part)?.textContent ?? null)),
        series: [...document.querySelectorAll("table[data-name=series] tbody tr")].map((row) =>
            [...row.cells].map((cell) => cell.querySelector("svg") ? cell.querySelectorAll("circle").length : cell.textContent)),
        judged: texts("#sections p.muted").filter((each) => each.includes("judged over time")),
        chips: texts(".chips button"),
        lines: [...document.querySelectorAll(".spark .line")].map((each) => each.getAttribute("points")),
    };
"""


@pytest.fixture(scope="module")
def file(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first page as a file."""
    path = tmp_path_factory.mktemp("saved") / "home.html"
    made = run_etq("report", "--home", "--db", str(server.path), "-o", str(path))
    assert made.exit_code == 0, made.output
    return path


@pytest.mark.long
def test_the_page_as_a_file_shows_the_same(browser: WebDriver, server: Server, file: Path) -> None:
    visit(browser, server, "/")
    served = browser.execute_script(SHOWN)
    opened(browser, file)
    saved = browser.execute_script(SHOWN)
    assert saved == served and len(saved["findings"]) == 5 and len(saved["series"]) == 25 and len(saved["lines"]) > 20
    assert text(browser, "#slower h2") == "5 findings" and browser.find_elements(By.CSS_SELECTOR, "#sections a") == []
    next(each for each in browser.find_elements(By.CSS_SELECTOR, ".chips button") if "device" in each.text).click()
    assert [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".found h2")] == [
        f"{title}\ndevice" for title in (TITLES[0], TITLES[2])
    ]
    assert complaints(browser) == []


PAGES = (
    "/", "/captures", "/capture/mlp-pixel8-07-37", "/compare", "/compare?base=device%3Dpixel8-07&new=device%3Dpixel8-08",
    "/trends", "/fleet?selector=model%3Dmlp", "/jobs", "/sql?query=FROM+captures",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_pages_fit_and_are_accessible(browser: WebDriver, server: Server, file: Path, width: int, theme: str) -> None:
    with screen(browser, width, theme=theme):
        for page in (*PAGES, file):
            opened(browser, page) if isinstance(page, Path) else visit(browser, server, page)
            assert accessible(browser) == [], page
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"), page
            assert browser.execute_script(BROKEN_LEGENDS) == 0, page


@pytest.mark.long
def test_a_wrong_selector_is_said_once(browser: WebDriver, server: Server) -> None:
    """Also after other findings, which are not those of the selector."""
    visit(browser, server, "/")
    browser.find_element(By.NAME, "selector").send_keys("model=none", Keys.ENTER)
    until(browser, "document.querySelectorAll('#sections .missing').length > 0")
    assert ["model=none" in each.text for each in browser.find_elements(By.CSS_SELECTOR, "#sections .missing")] == [
        True
    ]
    assert titles(browser) == [] and text(browser, "h1") == "Findings"
    complaints(browser)


def test_an_empty_warehouse_says_how_to_fill_it(browser: WebDriver, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("empty") / "lab.duckdb"
    with etq.open(path):
        pass
    with serving(path) as empty:
        visit(browser, empty, "/")
        assert text(browser, "h1") == "No captures" and "etq ingest *.etdp" in text(browser, "#sections")
    complaints(browser)


@pytest.mark.long
def test_a_finding_of_a_rank_leads_to_its_job(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/?kind=rank")
    browser.find_element(By.CSS_SELECTOR, ".found h2 a").click()
    until(browser, "location.pathname === '/jobs' && document.documentElement.dataset.ready === 'yes'")
    assert text(browser, "h1") == "job=ddp" and "Other ranks wait for rank 3" in text(browser, "#job")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#rank_steps tbody tr")) > 0
    # A lane of each rank in each of four steps; in each, all but the late one wait in its last part.
    bars = browser.find_elements(By.CSS_SELECTOR, "#lanes figure .bar-of")
    told = [each.get_attribute("aria-label") or "" for each in bars]
    assert len(told) == 4 * 8 and all("computes" in each and "transfers" in each for each in told)
    assert [("waits" in each) for each in told if not each.startswith("rank 3:")] == [True] * 4 * 7
    ends = browser.execute_script(
        "return arguments[0].map((bar) => [...bar.querySelectorAll('.piece')].at(-1).className)", bars
    )
    assert {*ends} <= {"piece waits", "piece transfers"}
    coloured = "[...document.querySelectorAll('.matrix td')].filter((each) => each.style.background)"
    places = browser.execute_script(
        f"return {coloured}.map((each) => [each.parentNode.rowIndex - 1, each.cellIndex - 1])"
    )
    assert places == [[rank, 3] for rank in range(8) if rank != 3]
    visit(browser, server, "/jobs")
    assert text(browser, "h1") == "job=ddp" and text(browser, ".chips button") == "ddp 8"
    assert complaints(browser) == []


@pytest.mark.long
def test_the_page_of_a_fleet_says_which_devices_are_slower(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/fleet?selector=model%3Dmlp")
    assert "2 of 20 devices are slower: pixel8-13 (all ops), pixel8-07 (addmm)." in text(browser, "#fleet")
    rows = [each.text.split() for each in browser.find_elements(By.CSS_SELECTOR, "table.fleet tbody tr")]
    assert len(rows) == 20 and rows[0][:2] == ["pixel8-13", "slower"] and rows[1][:2] == ["pixel8-07", "slower"]
    # Of ops, only addmm of pixel8-07 is slower: by 40 %.
    [change] = browser.find_elements(By.CSS_SELECTOR, "table.fleet td:nth-child(n + 8) .verdict")
    assert "addmm" in rows[1] and change.text.split()[0] in rows[1] and abs(float(change.text.split()[0]) - 40) < 2
    assert len(browser.find_elements(By.CSS_SELECTOR, "table.fleet .point")) == 20
    browser.find_element(By.LINK_TEXT, "pixel8-07").click()
    until(browser, "location.pathname === '/compare' && document.documentElement.dataset.ready === 'yes'")
    assert "device=pixel8-07" in text(browser, "h1") and "slower" in text(browser, "#verdict")
    assert complaints(browser) == []
    visit(browser, server, "/fleet")
    assert text(browser, "#state") == "Choose a model."
    next(each for each in browser.find_elements(By.CSS_SELECTOR, ".chips button") if each.text == "mlp").click()
    until(browser, "document.getElementById('fleet') !== null && document.documentElement.dataset.ready === 'yes'")
    assert "selector=model" in browser.current_url and complaints(browser) == []


@pytest.mark.long
def test_no_long_name_of_a_device_is_drawn_over_its_verdict(browser: WebDriver, tmp_path: Path) -> None:
    """Nor, on a phone, over the columns that are scrolled beneath it."""
    path = tmp_path / "lab.duckdb"
    few = fleet(model="mlp", devices=DEVICES[:3])
    with etq.open(path) as lab:
        ingest_all(lab, [each._replace(labels={**each.labels, "device": each.labels["device"] * 7}) for each in few])
    covered = """
        const box = document.querySelector(".wide:has(.fleet)");
        box.scrollLeft = arguments[0];
        return [...box.querySelectorAll("tbody tr")].filter((row) => {
            const range = document.createRange();
            range.selectNodeContents(row.cells[0]);
            const [name, verdict] = [range.getBoundingClientRect(), row.cells[1].getBoundingClientRect()];
            const [first, last] = [name.left + 2, name.right - 2].map((x) => document.elementFromPoint(x, name.top + 4));
            return (arguments[0] === 0 && name.right > verdict.left) || [first, last].some((each) => !row.cells[0].contains(each));
        }).length;
    """
    with serving(path) as server:
        for width, scrolled in ((1280, 0), (390, 0), (390, 60)):
            with screen(browser, width):
                visit(browser, server, "/fleet")
                assert len(browser.find_elements(By.CSS_SELECTOR, ".fleet tbody tr")) == 3
                assert browser.execute_script(covered, scrolled) == 0, (width, scrolled)
    complaints(browser)
