"""Retention by rule: what `etq prune` would remove is removed, once a day, and noted."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import datetime, time
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq.cli import main
from etq.serve.pool import QuestionPool
from etq.serve.pruning import Daily
from etq.serve.settings import Settings
from etq.serve.site import Site
from etq.team.folder import TeamFolder
from tests.sql.test_trends import capture

RULE = "--keep-last 2 --by device --over build"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pruning") / "lab.duckdb"
    with etq.open(path) as lab:
        for build in range(1, 5):
            for device in ("phone", "watch"):
                seed = 10 * build + len(device) + (device == "watch")
                lab.ingest(capture(seed), name=f"{device}{build}", labels={"device": device, "build": str(build)})
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    shutil.copy(made, path)
    return path


def names(path: Path) -> list[str]:
    with etq.open(path, read_only=True) as lab:
        return [name for (name,) in lab.rows("SELECT name FROM captures ORDER BY name")[1]]


class Clock:
    def __init__(self, *times: str) -> None:
        self.times = [datetime.fromisoformat(each) for each in times]

    def __call__(self) -> datetime:
        return self.times.pop(0)


def applied(path: Path, clock: Clock, *rules: str, folder: TeamFolder | None = None, at: time = time(3)) -> Daily:
    """What has been done when the clock has shown all of its times."""
    daily = Daily(Site(str(path), QuestionPool(str(path)), Settings(prune=rules, folder=folder)), at, clock)

    async def tick() -> None:
        while clock.times:
            await daily.tick()

    asyncio.run(tick())
    return daily


def test_what_a_dry_run_shows_is_removed_and_noted(path: Path) -> None:
    folder = TeamFolder(Path(f"{path}.team"))
    folder.make()
    shown = CliRunner().invoke(main, ["prune", *RULE.split(), "--dry-run", "--db", str(path)]).stdout.split()
    assert sorted(shown) == ["phone1", "phone2", "watch1", "watch2"]
    before = names(path)
    daily = applied(path, Clock("2026-11-25T02:59:50", "2026-11-25T03:00:10"), RULE, folder=folder)
    assert names(path) == sorted({*before} - {*shown})
    with folder.reading() as connection:
        [(user, action, details)] = connection.execute("SELECT user, action, details FROM audit").fetchall()
    assert (user, action) == ("etq serve", "pruned")
    result = "4 captures pruned; etq compact gives the space back"
    assert json.loads(details) == {"rule": RULE, "result": result, "status": 0}
    told = {each.name: [*each.samples][0].value for each in asyncio.run(daily.families())}
    assert told["etq_last_prune_failed"] == 0 and told["etq_last_prune_timestamp_seconds"] > 1.7e9


def test_selectors_rollups_and_several_rules(path: Path) -> None:
    rules = ["--keep-last 0 'device=watch,build=1'", "--keep-last 3 --by device --over build --keep-rollups"]
    applied(path, Clock("2026-11-25T02:59:50", "2026-11-25T03:00:10"), *rules)
    assert "watch1" not in names(path) and len(names(path)) == 7
    with etq.open(path, read_only=True) as lab:
        pruned = "SELECT c.name FROM findings AS f JOIN captures AS c USING (capture_id) WHERE f.rule = 'events pruned'"
        assert lab.rows(pruned)[1] == [("phone1",)]


@pytest.mark.parametrize(
    ("times", "at", "runs"),
    [
        (["2026-11-25T03:00:10", "2026-11-25T03:00:30", "2026-11-25T23:59:59"], "03:00", 0),  # it started after
        (["2026-11-25T02:00", "2026-11-25T03:00", "2026-11-25T03:01"], "03:00", 1),
        (["2026-11-25T02:00", "2026-11-25T03:01", "2026-11-26T02:59", "2026-11-26T03:00"], "03:00", 2),
        # The machine slept.
        (["2026-11-25T01:00", "2026-11-25T09:00", "2026-11-25T09:01"], "03:00", 1),
        (["2026-11-24T23:00", "2026-11-26T01:00"], "03:00", 0),
        # The clock was set back, as at the end of daylight saving.
        (["2026-11-25T01:59", "2026-11-25T02:31", "2026-11-25T02:00", "2026-11-25T02:31"], "02:30", 1),
        (["2026-11-25T23:59:50", "2026-11-26T00:00:10"], "00:00", 1),
        (["2026-11-25T23:59:40", "2026-11-26T00:00:00"], "23:59:50", 1),
    ],
)
def test_once_a_day(times: list[str], at: str, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []

    async def note(_: Daily, rule: str) -> None:
        done.append(rule)

    monkeypatch.setattr(Daily, "_apply", note)
    applied(tmp_path / "none.duckdb", Clock(*times), "--keep-last 1", at=time.fromisoformat(at))
    assert len(done) == runs


def test_a_rule_that_fails_is_told(path: Path) -> None:
    folder = TeamFolder(Path(f"{path}.team"))
    folder.make()
    before = names(path)
    daily = applied(path, Clock("2026-11-25T02:00", "2026-11-25T03:00"), "--keep-last 1 --by nothing", folder=folder)
    assert names(path) == before
    with folder.reading() as connection:
        [(text,)] = connection.execute("SELECT details FROM audit").fetchall()
    assert json.loads(text)["status"] == 1 and "no capture has a label 'nothing'" in json.loads(text)["result"]
    assert [*asyncio.run(daily.families())][1].samples == [etq_sample(1)]


def etq_sample(value: float) -> object:
    from etq.serve.meters import Sample

    return Sample(value, {})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--prune", "--keep 3"], "No such option"),
        (["--prune", "--by model"], "Missing option '--keep-last'"),
        (["--prune", "--keep-last 3 'open"], "No closing quotation"),
        (["--prune", "--keep-last 3 --db other.duckdb"], "leave out --db"),
        (["--prune", "--keep-last 3 -y"], "leave out --yes"),
        (["--prune", "--keep-last 3 --dry-run"], "leave out --dry-run"),
        (["--prune-at", "25:00"], "'25:00' is not a time of day"),
        (["--prune-at", "03:00+01:00"], "is not a time of day"),
    ],
)
def test_rules_are_checked_before_the_server_starts(options: list[str], why: str) -> None:
    result = CliRunner().invoke(main, ["serve", *options])
    assert result.exit_code == 2 and why in result.stderr
