"""A day of a team: captures of two devices, four models and forty commits are pushed; one op of one series is slower from
a commit on; the webhook tells it, its link leads to the change, and the change is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import etq
from etq.team.folder import TeamFolder
from etq.team.users import Role
from tests.browser.pages import cells, complaints
from tests.browser.served import settled, text
from tests.command_line import run_etq
from tests.serve.server import serving
from tests.serve.test_webhook import Hooks, noted, receiving, until
from tests.sql.test_trends import capture

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver

from tests.browser.test_signing import added, asks_to_sign_in, fill_in
from tests.browser.test_watching import commented

pytestmark = pytest.mark.long

DEVICES = ("pixel8", "pixel9")
MODELS = ("mlp", "convnet", "transformer", "llm")
COMMITS = 40
NOON = 30
SLOWER_FROM = 33
SLOW = ("pixel9", "convnet")
FACTOR = 1.3


def write_commits(folder: Path, commits: Sequence[int]) -> None:
    """Write the captures of commits, at DEVICE/MODEL/COMMIT.etdp; none has the content of another."""
    for commit in commits:
        for place, (device, model) in enumerate((device, model) for device in DEVICES for model in MODELS):
            is_slower = (device, model) == SLOW and commit >= SLOWER_FROM
            path = folder / device / model / f"{commit:02}.etdp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(capture(100 * place + commit, {"addmm": FACTOR if is_slower else 1.0}))


def pushed(url: str, token: str, folder: Path) -> None:
    pattern = f"{folder}/{{device}}/{{model}}/{{build}}.etdp"
    result = run_etq("push", url, str(folder), "--label-from", pattern, env={"ETQ_TOKEN": token})
    assert result.exit_code == 0, result.stderr


def test_from_the_push_to_the_accepted_change(browser: WebDriver, tmp_path: Path) -> None:
    lab, folder, hooks = tmp_path / "lab.duckdb", TeamFolder(tmp_path / "lab.duckdb.team"), Hooks()
    etq.open(lab).close()
    folder.make()
    machine, person = added(folder, "ci", Role.PUSH), added(folder, "ada", Role.LABEL)
    with receiving(hooks) as address, serving(lab, folder=folder, webhook=address) as server:
        write_commits(tmp_path / "morning", range(1, NOON + 1))
        pushed(server.url, machine, tmp_path / "morning")
        with etq.open(lab, wait=30) as warehouse:
            warehouse.watch("team")
        until(lambda: noted(folder) == 1)
        write_commits(tmp_path / "afternoon", range(NOON + 1, COMMITS + 1))
        pushed(server.url, machine, tmp_path / "afternoon")
        with etq.open(lab, read_only=True, wait=30) as warehouse:
            assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(len(DEVICES) * len(MODELS) * COMMITS,)]
        until(lambda: bool(hooks.taken))
        [begun] = hooks.taken
        assert begun["event"] == "regression began"
        change = begun["change"]
        assert "addmm" in change["name"] and change["first_bad"] == f"{SLOWER_FROM:02}"
        assert abs(change["change_percent"] - 100 * (FACTOR - 1)) < 2

        browser.get(server.url + begun["link"].removeprefix(server.url))
        asks_to_sign_in(browser)
        complaints(browser)  # the browser notes the status 401
        fill_in(browser, person)
        settled(browser)
        assert text(browser, "h1") == "team"
        [row] = cells(browser, "changes")
        assert row[1] == "addmm" and f"device={SLOW[0]},model={SLOW[1]}" in row
        commented(browser, "button[aria-label^='Comment on addmm@0']", "new tokenizer")
        [accepted] = cells(browser, "accepted")
        assert "new tokenizer" in accepted[-1]
        until(lambda: len(hooks.taken) == 2)
        assert hooks.taken[1]["event"] == "regression ended"
        assert complaints(browser) == []
    with etq.open(lab, read_only=True) as warehouse:
        assert warehouse.rows("FROM regressions()")[1] == []
        assert warehouse.rows("SELECT author, text FROM change_comments")[1] == [("ada", "new tokenizer")]
