"""Signing in and out in a browser: by a link, by the form, and after a session has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.team.folder import TeamFolder
from etq.team.tokens import add_token
from etq.team.users import Role, add_user
from tests.browser.pages import complaints
from tests.browser.served import names, settled, text, until
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signing") / "secret-lab.duckdb"
    with etq.open(path) as warehouse:
        for build in (1, 2, 3):
            warehouse.ingest(capture(build), name=f"a-{build}", labels={"build": str(build), "device": "pixel8"})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    folder = TeamFolder(tmp_path / "team")
    folder.make()
    return folder


def added(folder: TeamFolder, name: str, role: Role) -> str:
    with folder.writing() as connection:
        add_user(connection, name, role)
        return add_token(connection, name)


@pytest.fixture
def team(lab: Path, folder: TeamFolder) -> Iterator[tuple[Server, str]]:
    """A server with a user, and the user's token."""
    token = added(folder, "ada", Role.LABEL)
    with serving(lab, folder=folder) as server:
        yield server, token


def asks_to_sign_in(page: WebDriver) -> None:
    until(page, "document.documentElement.dataset.ready === 'sign-in'")
    assert page.find_element(By.ID, "sign-in").is_displayed()
    assert not page.find_element(By.ID, "sections").is_displayed()


def fill_in(page: WebDriver, token: str) -> None:
    field = page.find_element(By.ID, "token")
    field.clear()
    field.send_keys(token, Keys.ENTER)


def test_by_a_link(browser: WebDriver, team: tuple[Server, str]) -> None:
    """The link leads to its page; of the token, nothing is left in the address, the page or what the browser keeps."""
    server, token = team
    browser.get(f"{server.url}/compare?base=a-1&new=a-2#token={token}")
    settled(browser)
    assert browser.current_url == f"{server.url}/compare?base=a-1&new=a-2"
    assert text(browser, "#who").startswith("ada (label)") and text(browser, "#source") == "secret-lab.duckdb"
    assert browser.title.endswith("secret-lab.duckdb")
    browser.get(f"{server.url}/")
    settled(browser, series=True)
    assert names(browser) == ["a-3", "a-2", "a-1"]
    kept = browser.execute_script("return JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    seen = [browser.page_source, kept, browser.execute_script("return document.cookie"),
            str(browser.execute_cdp_cmd("Network.getAllCookies", {})),
            str(browser.execute_script("return performance.getEntries().map((each) => each.name)"))]  # fmt: skip
    assert all(token not in each and token[4:20] not in each for each in seen)
    cookie = browser.get_cookie(f"etq_{server.port}")
    assert cookie is not None and (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert seen[2] == ""


def test_by_the_form_and_out(browser: WebDriver, team: tuple[Server, str]) -> None:
    server, token = team
    browser.get(f"{server.url}/trends")
    asks_to_sign_in(browser)
    assert "secret-lab" not in browser.page_source
    complaints(browser)
    fill_in(browser, "etq_wrong")
    until(browser, "document.querySelector('#sign-in [role=alert]').textContent.startsWith('the token is wrong')")
    fill_in(browser, f" {token} ")
    settled(browser)
    assert browser.find_elements(By.ID, "sign-in") == []
    assert browser.current_url == f"{server.url}/trends" and text(browser, "#who").startswith("ada")
    browser.find_element(By.ID, "sign-out").click()
    until(browser, "document.getElementById('sign-in') !== null")
    asks_to_sign_in(browser)
    assert "secret-lab" not in browser.page_source
    assert browser.execute_script("return localStorage.getItem('etq key')") is None
    assert browser.get_cookie(f"etq_{server.port}") is None


def test_an_expired_session_goes_on_where_one_was(
    browser: WebDriver, team: tuple[Server, str], folder: TeamFolder
) -> None:
    server, token = team
    browser.get(f"{server.url}/sql#token={token}")
    settled(browser)
    with folder.writing() as connection:
        connection.execute("UPDATE sessions SET last_used_at = 0")
    editor = "document.querySelector('.editor').editor"
    browser.execute_script(f'{editor}.dispatch({{ changes: {{ from: 0, insert: "SELECT 6 * 7 AS answer" }} }})')
    browser.find_element(By.ID, "run").click()
    asks_to_sign_in(browser)
    fill_in(browser, token)
    settled(browser)
    until(browser, "document.getElementById('output').textContent.includes('42')")
    assert "query=SELECT" in browser.current_url
    # A session ends with its token.
    with folder.writing() as connection:
        connection.execute("UPDATE tokens SET revoked_at = ?", [time.time()])
    browser.find_element(By.ID, "run").click()
    asks_to_sign_in(browser)


def test_files_are_saved(browser: WebDriver, team: tuple[Server, str], tmp_path: Path) -> None:
    server, token = team
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.get(f"{server.url}/sql?query=SELECT+name+FROM+captures+ORDER+BY+1#token={token}")
    settled(browser)
    browser.find_element(By.ID, "as-csv").click()
    end = time.monotonic() + 30
    while not (tmp_path / "result.csv").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "result.csv").read_text().split() == ["name", "a-1", "a-2", "a-3"]


def test_a_link_without_users(browser: WebDriver, lab: Path) -> None:
    """Two servers of one machine are signed in to at the same time; a wrong token shows the form with what is wrong."""
    with serving(lab, has_link=True) as one, serving(lab, has_link=True) as other:
        for server in (one, other):
            browser.get(f"{server.url}/#token={server.token}")
            settled(browser, series=True)
        browser.get(f"{one.url}/trends")
        settled(browser)
        assert text(browser, "#who") == "Sign out"
        browser.get(f"{one.url}/#token={other.token}")
        asks_to_sign_in(browser)
        assert "the token is wrong" in text(browser, "#sign-in [role=alert]")


def test_this_machine_needs_no_token(browser: WebDriver, lab: Path) -> None:
    with serving(lab) as server:
        browser.get(f"{server.url}/#token=etq_of_another_server")
        settled(browser, series=True)
        assert text(browser, "#who") == "" and text(browser, "#source") == "secret-lab.duckdb"


def test_the_form_is_accessible(browser: WebDriver, team: tuple[Server, str]) -> None:
    pytest.importorskip("axe_core_python", reason="pages are checked by axe-core, of the package axe-core-python")
    from tests.browser.test_accessible import found

    server, token = team
    browser.get(f"{server.url}/")
    asks_to_sign_in(browser)
    assert found(browser) == []
    fill_in(browser, token)
    settled(browser, series=True)
    assert found(browser) == []


def test_the_form_on_a_phone(browser: WebDriver, team: tuple[Server, str]) -> None:
    """It is as wide as the phone, and has no box for an error that there isn't."""
    server, _ = team
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(server.url)
        asks_to_sign_in(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
        assert not browser.find_element(By.CSS_SELECTOR, "#sign-in [role=alert]").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
