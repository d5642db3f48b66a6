"""A lake of somebody else's has nothing of its reader's: what it links to, or names elsewhere, is not read."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import etq
from etq.errors import EtqError, WarehouseError
from etq.lake import compact
from tests.lake.test_lake import FLEET, one_of

pytestmark = pytest.mark.long

deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two loads, with a checkpoint."""
    lake = tmp_path_factory.mktemp("received") / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    deltalake.DeltaTable(str(lake / "captures")).create_checkpoint()
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


DOORS: dict[str, Callable[[Path], object]] = {
    "open": etq.open,
    "compact": compact,
    "add": lambda lake: one_of(FLEET[2:3], lake),
}
PLACES: dict[str, Callable[[Path], Path]] = {
    "table": lambda lake: lake / "runs",
    "root table": lambda lake: lake / "captures",
    "log": lambda lake: lake / "runs/_delta_log",
    "commit": lambda lake: max((lake / "captures/_delta_log").glob("*.json")),
    "load": lambda lake: next((lake / "runs").glob("load_id=*")),
    "file": lambda lake: next((lake / "runs").glob("load_id=*/*.parquet")),
}


@pytest.mark.parametrize("place", PLACES)
def test_links_are_refused(lake: Path, place: str) -> None:
    at = PLACES[place](lake)
    outside = lake.parent / "outside"
    at.rename(outside)
    at.symlink_to(outside)
    for door, enter in DOORS.items():
        if (place, door) != ("file", "add"):  # which reads no file of the table
            with pytest.raises(WarehouseError, match=f"^{at}: a link"):
                enter(lake)


def test_a_pipe_is_not_waited_for(lake: Path) -> None:
    os.mkfifo(lake / "captures/_delta_log" / f"{99:020}.json")
    with pytest.raises(WarehouseError, match=f"{99:020}.json: a link, or not a file"):
        etq.open(lake)
    (lake / "captures/_delta_log" / f"{99:020}.json").unlink()
    data = next((lake / "runs").glob("load_id=*/*.parquet"))
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(WarehouseError, match=f"{data.name}: a link, or not a file"), etq.open(lake) as warehouse:
        warehouse.rows("FROM runs")


@pytest.mark.parametrize("table", ["captures", "event_ticks"])
@pytest.mark.parametrize("named", ["{}", "file://{}", "../../secret.parquet", "load_id=ab/../../../secret.parquet"])
def test_files_elsewhere_are_not_read(lake: Path, named: str, table: str) -> None:
    """A log that names a file of the reader, which has the columns of the table."""
    secret = lake.parent / "secret.parquet"
    shutil.copy(next((lake / table).glob("load_id=*/*.parquet")), secret)
    commit = max((lake / table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    added = next(action["add"] for action in actions if "add" in action) | {"path": named.format(secret)}
    new = commit.with_name(f"{int(commit.stem) + 1:020}.json")
    new.write_text(json.dumps({"add": added}) + "\n")
    for door, enter in DOORS.items():
        if (table, door) != ("event_ticks", "add"):
            with pytest.raises(WarehouseError, match=f"{table}/?: its log names a file that is not in a load's folder"):
                enter(lake)


def test_rows_that_others_hide_are_not_shown(lake: Path) -> None:
    """A log that needs a reader of deletion vectors, which may be files anywhere."""
    log = lake / "runs/_delta_log"
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    new = log / f"{int(max(log.glob('*.json')).stem) + 1:020}.json"
    new.write_text(json.dumps({"protocol": {**protocol, **features}}) + "\n")
    with pytest.raises(WarehouseError, match="runs: needs deletionVectors of Delta Lake, which etq doesn't read"):
        etq.open(lake)


def test_queries_read_no_other_files(lake: Path) -> None:
    (lake / "secret.csv").write_text("text\nmine\n")
    with etq.open(lake) as warehouse:
        assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(2,)]
        for path in (lake / "secret.csv", lake / "*.csv", "/etc/hostname"):
            with pytest.raises(EtqError, match="disabled by configuration"):
                warehouse.rows(f"FROM read_text('{path}')")


def test_a_size_that_lies_is_one_line_for_writers_too(lake: Path) -> None:
    for checkpoint in (lake / "captures/_delta_log").glob("*checkpoint*"):
        checkpoint.unlink()
    for commit in (lake / "captures/_delta_log").glob("*.json"):
        commit.write_text(re.sub(r'"size":\d+', '"size":0', commit.read_text()))
    with pytest.raises(WarehouseError, match=r"^[^\n]*captures: can't be read: [^\n]*$"):
        one_of(FLEET[4:5], lake)


@pytest.mark.parametrize("damage", ["junk", "missing"])
def test_damage_is_one_line(lake: Path, damage: str) -> None:
    log = lake / "event_ticks/_delta_log"
    first = min(log.glob("*.json"))
    first.write_bytes(b"junk\n") if damage == "junk" else first.unlink()
    with pytest.raises(WarehouseError, match=r"^[^\n]*event_ticks[^\n]*$"):
        etq.open(lake)
    file = next((lake / "runs").glob("load_id=*/*.parquet"))
    shutil.rmtree(lake / "event_ticks")
    file.write_bytes(b"junk")
    with pytest.raises(EtqError, match=r"^[^\n]*lake[^\n]*$"), etq.open(lake) as warehouse:
        warehouse.rows("FROM runs")
