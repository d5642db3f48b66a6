"""Reading the files of stored captures anew: what is kept, what becomes new, and what stays as it was."""

from __future__ import annotations

import shutil
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.ingest import stores
from etq.storage import again
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace

pytestmark = pytest.mark.long

ONE = dump(run("Execute", kernel("add", 1, 2), execute(0, 3)), run("Execute", kernel("add", 10, 12), execute(9, 14)))


def contents(warehouse: Warehouse) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables."""
    return {table.name: warehouse.rows(f"FROM {table.name} ORDER BY ALL")[1] for table in catalog.tables()}


def distort(warehouse: Warehouse, *names: str) -> None:
    """Change facts that files have, as an older version of etq would have read them."""
    keys = f"(SELECT c.capture_id FROM captures AS c WHERE list_contains({[*names]}, c.name))"
    warehouse.connection.execute(
        f"""
        UPDATE signatures SET label = 'old', family = 'old' WHERE capture_id IN {keys};
        UPDATE captures SET etq_version = '0.0.1' WHERE capture_id IN {keys};
        DELETE FROM all_op_totals WHERE capture_id IN {keys};
        INSERT INTO findings SELECT c.capture_id, 'old', 'of an old version' FROM captures AS c WHERE c.capture_id IN {keys};
        """
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump in a folder, with all that is attached; one with logged values; a trace of a job; one more dump."""
    folder = tmp_path_factory.mktemp("again")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "raw").mkdir()
        for file in ("mlp_100runs.etdp", "mlp.etrecord", "mlp_debug.etdp", "mlp_debug.bin"):
            shutil.copy(CAPTURES / "mlp" / file, "raw")
        (folder / "raw/one.etdp").write_bytes(ONE)
        (folder / "raw/t.pt.trace.json").write_bytes(trace(event("cpu_op", "aten::add", 5, 8)))
        with etq.open("lab.duckdb") as lab:
            when, record = datetime(2026, 1, 2, 3), "raw/mlp.etrecord"
            labels = {"build": "7", "device": "a"}
            lab.ingest("raw/mlp_100runs.etdp", name="run", labels=labels, captured_at=when, etrecord=record)
            lab.ingest("raw/one.etdp", labels={**labels, "build": "8"}, time_scale="us", captured_at=when)
            lab.ingest("raw/t.pt.trace.json", name="rank", labels={"job": "j", "rank": "0"})
            lab.ingest("raw/mlp_debug.etdp", name="values", debug_buffer="raw/mlp_debug.bin", etrecord=record)
            lab.metric("run", "temperature", 41.0)
            lab.phase("one", "decode", runs=[1])
            lab.comment("8", "a slower add", "device=a", over="build", accepted=True)
    return folder


@pytest.fixture
def lab(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """A copy of it."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return etq.open(tmp_path / "lab.duckdb")


def test_facts_become_new_and_all_else_stays(lab: Warehouse) -> None:
    """After facts are distorted, each table is again as before: with names, labels, phases, times, links, comments."""
    lab.ingest_again()  # rollups follow the phase
    before = contents(lab)
    assert len(before["labels"]) >= 6 and len(before["change_comments"]) == 1
    distort(lab, "run", "one", "rank", "values")
    assert contents(lab)["signatures"] != before["signatures"]
    outcomes = lab.ingest_again()
    assert [(each.capture.name, each.left) for each in outcomes] == [
        (name, None) for name in ("run", "one", "rank", "values")
    ]
    assert contents(lab) == before
    assert lab.rows("SELECT c.name, time_scale, phase FROM captures AS c JOIN runs USING (capture_id) WHERE phase NOT NULL")[1] == [
        ("one", "us", "decode")
    ]  # fmt: skip
    lab.close()


def test_a_selector_and_files_elsewhere(lab: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path below the present folder, or the warehouse's; in a given folder; by name alone."""
    distort(lab, "run", "one")
    assert [each.capture.name for each in lab.ingest_again("build=8")] == ["one"]
    assert lab.rows("SELECT DISTINCT label FROM signatures WHERE capture_id = 1")[1] == [("old",)]
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    [beside] = lab.ingest_again("run")
    assert (beside.left, beside.path) == (None, str(tmp_path / "raw/mlp_100runs.etdp"))
    (tmp_path / "raw").rename(tmp_path / "moved")
    [missing] = lab.ingest_again("run")
    assert (missing.left, missing.path) == ("raw/mlp_100runs.etdp: not found", None)
    [moved] = lab.ingest_again("run", folders=[tmp_path / "moved"])
    assert moved.left is None
    assert lab.rows("SELECT uri FROM captures WHERE name = 'run'")[1] == [("raw/mlp_100runs.etdp",)]
    lab.close()


def test_what_stays_as_it_is(lab: Warehouse, tmp_path: Path) -> None:
    """Files that changed, are gone, or can't be read; a capture whose events were pruned, and a path that leads away."""
    lab.prune(0, selectors=["run"], keep_rollups=True)
    (tmp_path / "raw/one.etdp").write_bytes(ONE[:-1] + bytes([ONE[-1] ^ 1]))
    (tmp_path / "raw/t.pt.trace.json").unlink()
    before = contents(lab)
    assert [each.left for each in lab.ingest_again()] == [
        "its events were pruned; etq ingest FILE brings them back",
        "./raw/one.etdp: has other content than the file that was read",
        "raw/t.pt.trace.json: not found",
        None,
    ]
    assert contents(lab) == before
    (tmp_path.parent / "t.pt.trace.json").write_bytes(b"x")
    lab.connection.execute("UPDATE captures SET uri = '../t.pt.trace.json' WHERE name = 'rank'")
    assert lab.ingest_again("rank")[0].left == "../t.pt.trace.json: not found"
    lab.close()


def test_a_file_that_fails_keeps_the_old_rows(lab: Warehouse, tmp_path: Path) -> None:
    """A file with the hash that was stored, but that this version can't read: the others are read."""
    broken = dump(run("Execute", kernel("add", 1, 2), execute(0, 3)))[:-40]
    (tmp_path / "raw/one.etdp").write_bytes(broken)
    change = f"sha256 = '{sha256(broken).hexdigest()}', size_bytes = {len(broken)}"
    lab.connection.execute(f"UPDATE captures SET {change} WHERE name = 'one'")
    before = contents(lab)
    lab.close()
    result = run_etq("ingest", "--again", "--db", "lab.duckdb")
    lines = result.stderr.splitlines()
    assert result.exit_code == 1 and lines[0] == "run: read anew" and lines[2] == "rank: read anew"
    assert lines[1].startswith("Error: one: stays as it is: ") and "one.etdp" in lines[1]
    assert lines[3] == "values: read anew" and lines[4] == "4 captures: 3 read anew, 1 failed"
    with etq.open("lab.duckdb") as warehouse:
        assert contents(warehouse)["event_ticks"] == before["event_ticks"]
        assert contents(warehouse)["captures"] == before["captures"]


def test_the_command(lab: Warehouse, tmp_path: Path) -> None:
    lab.close()
    (tmp_path / "raw/one.etdp").rename(tmp_path / "one.etdp")
    (tmp_path / "raw/t.pt.trace.json").unlink()
    result = run_etq("ingest", "--again", "--db", "lab.duckdb")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "run: read anew", "one: read anew", "Note: rank: stays as it is: raw/t.pt.trace.json: not found",
        "values: read anew", "4 captures: 3 read anew, 1 left as they are",
    ]  # fmt: skip
    quiet = run_etq("ingest", "--again", "--quiet", "--db", "lab.duckdb", "raw")
    assert quiet.stderr.splitlines()[0] == "Note: one: stays as it is: raw/one.etdp: not found"
    for arguments, message in (
        (("none",), "none: not a folder; --again takes folders in which the files of captures are"),
        (
            ("--name", "x"),
            "--again can't be used with --name, only with --db, --verbose, --quiet, --megabytes, --classes",
        ),
    ):
        assert message in run_etq("ingest", "--again", "--db", "lab.duckdb", *arguments).stderr
    assert "Missing argument 'FILE...'" in run_etq("ingest").stderr
    lake = run_etq("lake", "add", "--help").stdout
    assert "--again" not in lake and "--label " in lake


def test_an_address_leads_out_of_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may have written the stored address; the credentials are the reader's. No file has its name."""
    monkeypatch.setattr(stores, "size_of", lambda address: None)
    places = {
        uri: [*again._places(uri, ["s3://lab/raw/"])]
        for uri in ("s3://lab/raw/day/a.etdp", "s3://lab/raw/../secret/a.etdp", "s3://lab/rawer/a.etdp", "s3://other/a")
    }
    assert places == {uri: [uri] if "/day/" in uri else [] for uri in places}
