"""Lakes of each released schema are upgraded, and then answer as if today's etq had made them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

import etq
from etq import catalog
from etq.errors import WarehouseError
from etq.lake.reading.tables import KINDS, kind_of
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.upgrades.make_lake import FIRST, SECOND, fill

pytestmark = [pytest.mark.long]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
EARLIER = sorted(FOLDER.glob("lake_*.tar.gz"))
OF_A_MAKING = {"ingested_at", "uri", "created_at"}


def unpacked(packed: Path, folder: Path) -> Path:
    with tarfile.open(packed) as file:
        file.extractall(folder, filter="data")
    return folder / "lake"


def rows(lake: Path) -> dict[str, list[Any]]:
    with etq.open(lake) as opened:
        found = {}
        for table in catalog.tables():
            if kind_of(table.name) in KINDS:
                columns = ", ".join(f't."{each.name}"' for each in table.columns if each.name not in OF_A_MAKING)
                found[table.name] = opened.rows(f"SELECT {columns} FROM {table.name} AS t ORDER BY ALL")[1]
        return found


@pytest.mark.parametrize("packed", EARLIER, ids=lambda path: path.name.split(".")[0])
def test_an_upgraded_lake_is_as_one_made_today(packed: Path, tmp_path: Path) -> None:
    lake = unpacked(packed, tmp_path)
    version = re.sub(r"\D", "", packed.name.split(".")[0])
    with pytest.raises(WarehouseError, match=rf"schema {version}; this is \d+\); upgrade it: etq upgrade {lake}$"):
        etq.open(lake)
    done = run_etq("lake", "add", str(lake), str(CAPTURES / SECOND[0]))
    assert done.exit_code == 1 and f"upgrade it: etq upgrade {lake}" in done.stderr
    assert run_etq("upgrade", str(lake)).exit_code == 0
    fill(tmp_path / "today", CAPTURES)
    upgraded = rows(lake)
    assert upgraded == rows(tmp_path / "today")
    assert len(upgraded["captures"]) == len(FIRST) + len(SECOND)
    with etq.open(lake) as opened:
        for name in ("owner_index", "wait_index"):
            assert opened.rows(f"SELECT d.{name} FROM device_events AS d WHERE d.{name} IS NOT NULL LIMIT 1")[1]
    assert etq.lake.upgrade(lake) == 0
    assert [each for each in etq.lake.check(lake) if not each.is_left_over] == []
    assert run_etq("lake", "add", str(lake), str(CAPTURES / "convnet" / "convnet.etdp")).exit_code == 0
    etq.lake.compact(lake, leave_seconds=0)
    assert len(rows(lake)["captures"]) == len(upgraded["captures"]) + 1


KILLED = """
import os, sys
from etq.lake.writing import upgrading
done = upgrading.change
upgrading.change = lambda lake, kind, plan: os._exit(9) if kind == "capture" else done(lake, kind, plan)
upgrading.upgrade(sys.argv[1])
"""


def test_a_killed_upgrade_is_taken_up_again(tmp_path: Path) -> None:
    lake = unpacked(EARLIER[-1], tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(lake)], cwd=ROOT, check=False)
    assert done.returncode == 9
    with pytest.raises(WarehouseError, match=re.escape(f"upgrade it: etq upgrade {lake}")):
        etq.open(lake)
    assert etq.lake.upgrade(lake) == len(FIRST) + len(SECOND)
    fill(tmp_path / "today", CAPTURES)
    assert rows(lake) == rows(tmp_path / "today")


def changed(lake: Path, table: str, change: str) -> None:
    """Rewrite all files of a table, with their rows changed by a query on `t`."""
    for path in sorted((lake / table).glob("load_id=*/*.parquet")):
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t AS FROM read_parquet('{path}', hive_partitioning = false)")
            connection.execute(f"COPY ({change}) TO '{path}' (FORMAT parquet)")


@pytest.mark.parametrize(
    ("table", "change", "why"),
    [
        ("event_ticks", "SELECT t.* REPLACE (event_index AS parent_index) FROM t", "contain each other"),
        ("event_ticks", "FROM t UNION ALL FROM t", "the files of event_ticks have"),
        ("captures", "SELECT t.* FROM t, range(1000000)", "the files of captures have"),
    ],
)
def test_a_damaged_lake_is_not_upgraded(tmp_path: Path, table: str, change: str, why: str) -> None:
    """Nothing of it is committed, so that a lake whose files are mended is upgraded later, also for other engines."""
    lake = unpacked(EARLIER[-1], tmp_path)
    kept = tmp_path / "kept"
    shutil.copytree(lake, kept)
    changed(lake, table, change)
    with pytest.raises(WarehouseError, match=why):
        etq.lake.upgrade(lake)
    before = {path.relative_to(kept) for path in kept.rglob("*") if path.is_file()}
    assert {path.relative_to(lake) for path in lake.rglob("*") if path.is_file()} == before
    shutil.copytree(kept / table, lake / table, dirs_exist_ok=True)
    assert etq.lake.upgrade(lake) == len(FIRST) + len(SECOND)
    for name in ("event_ticks", "signatures"):
        from_log = DeltaTable(str(lake / name))
        assert all(Path(path.removeprefix("file://")).exists() for path in from_log.file_uris())
        assert {"activity"} <= {each.name for each in from_log.schema().fields} or name != "signatures"
