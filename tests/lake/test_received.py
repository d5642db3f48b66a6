"""A lake of somebody else's has nothing of its reader's: what it links to is neither read nor deleted nor written."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import etq
from etq.errors import EtqError, WarehouseError
from etq.ingest import memory
from etq.lake import check, compact, export, is_lake, restore
from etq.lake.reading import checkpoints
from etq.lake.reading.tables import Lake
from etq.lake.writing import commits, compacting
from tests.lake.test_lake import FLEET, one_of

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two loads, with a checkpoint."""
    lake = tmp_path_factory.mktemp("received") / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    deltalake = pytest.importorskip("deltalake")
    deltalake.DeltaTable(str(lake / "captures")).create_checkpoint()
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


def tree(folder: Path) -> dict[str, bytes | None]:
    """All below a folder, and the bytes of files."""
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None for each in folder.rglob("*")}


def linked(lake: Path, place: Path) -> Path:
    """Put a link in the place of what is there, which is then outside of the lake."""
    outside = lake.parent / "outside"
    outside.mkdir()
    place.rename(outside / place.name)
    if (outside / place.name).is_dir():
        (outside / place.name / "mine.parquet").write_bytes(b"mine")
        (outside / place.name / "load_id=ab-1").mkdir()
        (outside / place.name / "load_id=ab-1/mine.parquet").write_bytes(b"mine")
    place.symlink_to(outside / place.name)
    return outside


DOORS: dict[str, Callable[[Path], object]] = {
    "open": etq.open,
    "check": check,
    "compact": lambda lake: compact(lake, leave_seconds=-1),
    "add": lambda lake: one_of(FLEET[2:3], lake),
}
# Opening a lake reads the last commit of captures alone.
READS_LOGS = [door for name, door in DOORS.items() if name != "open"]
PLACES: dict[str, Callable[[Path], Path]] = {
    "table": lambda lake: lake / "runs",
    "root table": lambda lake: lake / "captures",
    "log": lambda lake: lake / "runs/_delta_log",
    "log of captures": lambda lake: lake / "captures/_delta_log",
    "commit": lambda lake: max((lake / "captures/_delta_log").glob("*.json")),
    "checkpoint": lambda lake: lake / "captures/_delta_log/_last_checkpoint",
    "load": lambda lake: next((lake / "runs").glob("load_id=*")),
    "file": lambda lake: next((lake / "runs").glob("load_id=*/*.parquet")),
}


@pytest.mark.parametrize("place", PLACES)
def test_links_are_refused_by_all_commands(lake: Path, place: str) -> None:
    at = PLACES[place](lake)
    outside = linked(lake, at)
    before, inside = tree(outside), sorted(lake.rglob("*"))
    for door in DOORS.values():
        with pytest.raises(WarehouseError, match=f"^{at}: a link; a lake's folders and files must be in it$"):
            door(lake)
        assert tree(outside) == before and sorted(lake.rglob("*")) == inside


@pytest.mark.parametrize("name", ["notes", "labels", "labels/_delta_log", "runs/load_id=ab-1", "runs/x.parquet"])
def test_links_that_no_log_names_are_refused(lake: Path, name: str) -> None:
    """The vacuum of the library deletes what it finds below them, and a table is made where one leads to."""
    outside = lake.parent / "outside"
    (outside / "load_id=ab-1").mkdir(parents=True)
    (outside / "load_id=ab-1/mine.parquet").write_bytes(b"mine")
    (lake / name).parent.mkdir(exist_ok=True)
    if (lake / name).exists():
        (lake / name).rmdir()  # of a table without rows
    (lake / name).symlink_to(outside)
    before = tree(outside)
    for door in DOORS.values():
        with pytest.raises(WarehouseError, match=f"^{lake / name}: a link"):
            door(lake)
        assert tree(outside) == before


@pytest.mark.parametrize("place", ["table", "log", "load"])
def test_a_link_that_appears_meanwhile_is_refused(lake: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After compaction has read the lake, and before it deletes."""
    found = []

    def late(of: Lake) -> None:
        outside = linked(lake, PLACES[place](lake))
        found.append((outside, tree(outside)))
        commits.note_others(of)

    monkeypatch.setattr(compacting, "note_others", late)
    with pytest.raises(WarehouseError, match="a link; a lake's folders and files must be in it"):
        compact(lake, leave_seconds=-1)
    [(outside, before)] = found
    assert tree(outside) == before


@pytest.mark.parametrize(
    "path", ["../", "../../outside/", "/etc/", "file:///etc/", "..%2F", "%2e%2e/", "%2Fetc%2F", "s3://other/", "..\\\\"]
)
def test_paths_that_lead_out_of_a_lake_are_refused(made: Path, lake: Path, path: str) -> None:
    """In the log of any table, in what is added as in what is taken out."""
    outside = lake.parent / "load_id=ab-1"
    outside.mkdir()
    (outside / "mine.parquet").write_bytes(b"mine")
    for table in ("captures", "runs"):
        shutil.rmtree(lake)
        shutil.copytree(made, lake)
        last = max((lake / table / "_delta_log").glob("*.json"))
        whole = last.read_bytes()
        (lake / "captures/_delta_log/_last_checkpoint").unlink(missing_ok=True)
        for each in (lake / "captures/_delta_log").glob("*.checkpoint.parquet"):
            each.unlink()
        last.write_bytes(whole.replace(b'"path":"load_id=', f'"path":"{path}load_id='.encode()))
        for name in ("check", "compact"):
            with pytest.raises(WarehouseError, match="log is damaged: a file is called "):
                DOORS[name](lake)
        removed = f'{{"remove":{{"path":"{path}load_id=ab-1/mine.parquet","dataChange":true,"deletionTimestamp":1}}}}'
        last.write_bytes(whole + b"\n" + removed.encode())
        compact(lake, leave_seconds=-1)
        assert (outside / "mine.parquet").read_bytes() == b"mine"


def fifo(place: Path) -> None:
    os.mkfifo(place)


def device(place: Path) -> None:
    try:
        os.mknod(place, 0o020600, os.makedev(1, 5))  # /dev/zero
    except OSError:
        pytest.skip("devices can't be made")


def listener(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(place.parent)  # the path of a socket is short
        made.bind(place.name)


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes in folders")
@pytest.mark.parametrize("make", [fifo, device, listener])
def test_what_is_no_file_is_not_waited_for(
    lake: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake)
    commands = (["captures", "--db", "."], ["lake", "check", "."], ["lake", "compact", "."], ["lake", "add", ".", "x"])
    others = [lake / "runs/_delta_log/_last_checkpoint", lake / "notes"]
    for number, place in enumerate([*(at(lake) for at in PLACES.values()), *others]):
        if place.exists():
            place.rename(lake.parent / "aside")
        make(place)
        command = [sys.executable, "-m", "etq", *commands[number % len(commands)]]
        command = [str(FLEET[2]) if each == "x" else str(lake) if each == "." else each for each in command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
        assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(f"Error: {place}: not a plain f"), done
        place.unlink()
        if (lake.parent / "aside").exists():
            (lake.parent / "aside").rename(place)
    assert check(lake) == []


@pytest.mark.parametrize("name", ["l?ke", "l*", "lak[e]", "[l]ake"])
def test_a_lake_whose_path_is_a_pattern_is_itself(made: Path, tmp_path: Path, name: str) -> None:
    """Its neighbour, which the pattern fits, has files of the same names."""
    for each in ("lake", name):
        shutil.copytree(made, tmp_path / each)
    with etq.open(tmp_path / name) as opened:
        assert opened.rows("SELECT count(*) FROM captures")[1] == [(2,)]
        runs = opened.rows("SELECT count(*) FROM runs")[1]
    compact(tmp_path / name)
    assert all(fault.is_left_over for fault in check(tmp_path / name))
    shutil.rmtree(tmp_path / "lake")
    with etq.open(tmp_path / name) as opened:
        assert opened.rows("SELECT count(*) FROM captures")[1] == [(2,)]
        assert opened.rows("SELECT count(*) FROM runs")[1] == runs


def test_a_lake_whose_path_the_library_takes_for_another_is_refused(made: Path, tmp_path: Path) -> None:
    """It would read the folder `lakeA`."""
    named = Path(shutil.copytree(made, tmp_path / "lake%41"))
    others: list[Callable[[Path], object]] = [is_lake, lambda lake: restore(lake, 1), lambda lake: export(lake, named)]
    for door in [*DOORS.values(), *others]:
        with pytest.raises(WarehouseError, match=f"^{named}: the path of a lake can't have '%'; rename the f"):
            door(named)
    assert [each.name for each in tmp_path.iterdir()] == ["lake%41"]


def captures_of(lake: Path) -> int:
    with etq.open(lake) as opened:
        return int(opened.rows("SELECT count(*) FROM captures")[1][0][0])


def test_a_checkpoint_that_names_other_files_is_refused(lake: Path) -> None:
    """The library would open them, wherever they are."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    log = lake / "captures/_delta_log"
    [checkpoint] = log.glob("*.checkpoint.parquet")
    rows = parquet.read_table(checkpoint)
    sidecar = pyarrow.array(
        [{"path": "/etc/hostname", "sizeInBytes": 1, "modificationTime": 0}] + [None] * (len(rows) - 1)
    )
    replaced = rows.drop_columns(["sidecar"]).append_column("sidecar", sidecar)
    for table, what in ((replaced, "that names other files"), (rows.append_column("sidecar", sidecar), "with two col")):
        parquet.write_table(table, checkpoint)
        for door in READS_LOGS:
            with pytest.raises(WarehouseError, match=f"^{checkpoint}: the log is damaged: a checkpoint {what}"):
                door(lake)
    checkpoint.unlink()
    named = log / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    named.write_text('{"sidecar":{"path":"/etc/hostname","sizeInBytes":1,"modificationTime":0}}')
    for door in READS_LOGS:
        with pytest.raises(WarehouseError, match=f"^{named}: the log is damaged: a checkpoint that etq doesn't write$"):
            door(lake)
    assert captures_of(lake) == 2


def test_of_checkpoints_the_newest_alone_is_read(lake: Path) -> None:
    """By the library, wherever the pointer leads; older ones are not checked either."""
    deltalake = pytest.importorskip("deltalake")
    log = lake / "captures/_delta_log"
    [older] = log.glob("*.checkpoint.parquet")
    one_of(FLEET[2:3], lake)
    deltalake.DeltaTable(str(lake / "captures")).create_checkpoint()
    older.write_bytes(b"damaged")
    version = int(older.name.split(".")[0])
    for pointer in (f'{{"version":{version},"size":1}}', f'{{"version":{version},"size":1,"parts":2}}', None):
        if pointer is None:
            (log / "_last_checkpoint").unlink()
        else:
            (log / "_last_checkpoint").write_text(pointer)
        assert check(lake) == [] and captures_of(lake) == 3
        assert deltalake.DeltaTable(str(lake / "captures")).version() == version + 1


def test_a_checkpoint_larger_than_the_memory_is_refused(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    [checkpoint] = (lake / "captures/_delta_log").glob("*.checkpoint.parquet")
    rows = parquet.read_table(checkpoint).slice(0, 1)
    parquet.write_table(pyarrow.concat_tables([rows] * 50_000), checkpoint)
    monkeypatch.setattr(memory, "available", lambda: 10**7)
    for door in READS_LOGS:
        with pytest.raises(EtqError, match=f"^{checkpoint}: to read it would take 25.0 MB of memory"):
            door(lake)


@pytest.mark.parametrize("where", ["stats", "partitionValues", "tags"])
def test_long_texts_of_a_checkpoint_are_refused(lake: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may have a text once for all its rows."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    [checkpoint] = (lake / "captures/_delta_log").glob("*.checkpoint.parquet")
    rows = parquet.read_table(checkpoint)
    schema = rows.schema
    if where == "tags":
        tags = pyarrow.struct([*schema.field("add").type, ("more", pyarrow.list_(pyarrow.string()))])
        schema = schema.set(schema.get_field_index("add"), pyarrow.field("add", tags))
    added = next(row for row in rows.to_pylist() if row["add"])
    text = "x" * 1_000_000
    long = {"stats": text, "partitionValues": [("load_id", text)], "tags": None}[where]
    more = {"more": [text]} if where == "tags" else {where: long}
    parquet.write_table(
        pyarrow.Table.from_pylist([{**added, "add": {**added["add"], **more}}] * 40, schema), checkpoint
    )
    assert checkpoint.stat().st_size < 200_000
    monkeypatch.setattr(memory, "available", lambda: 3 * 10**7)
    for door in READS_LOGS:
        with pytest.raises(EtqError, match=f"^{checkpoint}: to read it would take 160.[01] MB of memory"):
            door(lake)
    monkeypatch.setattr(checkpoints, "_MOST_TEXT", 10**7)
    for door in READS_LOGS:
        with pytest.raises(
            EtqError,
            match=f"^{checkpoint}: .*damaged: .* checkpoints of the lake would take 160.[01] MB of memory, and at most 40.0 MB",
        ):
            door(lake)


def test_a_folder_in_a_log_is_refused(lake: Path) -> None:
    """A writer would try again and again to make the commit of its name."""
    folder = lake / f"captures/_delta_log/{9:020}.json"
    folder.mkdir()
    for door in DOORS.values():
        with pytest.raises(WarehouseError, match=f"^{folder}: a folder in a log; a log has files alone$"):
            door(lake)


def test_equal_rows_of_captures_are_refused(lake: Path) -> None:
    """A small file may have any number of them."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    first, second = sorted((lake / "captures").glob("load_id=*/*.parquet"))
    rows = parquet.read_table(first)
    parquet.write_table(pyarrow.concat_tables([rows] * 1000), second)
    for name in ("add", "compact"):
        with pytest.raises(
            WarehouseError, match=f"^{lake}: damaged: the files of captures have 1,001 rows; expected 2; "
        ):
            DOORS[name](lake)
    shutil.copy(first, second)
    for name in ("add", "compact"):
        with pytest.raises(WarehouseError, match=f"^{lake}: damaged: capture [0-9a-f]{{64}} is there twice"):
            DOORS[name](lake)


@pytest.mark.parametrize("door", ["add", "compact"])
def test_captures_with_more_text_than_memory_are_refused(lake: Path, door: str) -> None:
    """A dictionary has a text once, for any number of rows."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = min((lake / "captures").glob("load_id=*/*.parquet"))
    rows = parquet.read_table(file, partitioning=None)
    place = rows.schema.get_field_index("name")
    # As one row: the note says so.
    rows = rows.set_column(place, "name", pyarrow.array(["x" * 3_000_000]))
    parquet.write_table(rows, file, compression="zstd")
    assert file.stat().st_size < 100_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "available", lambda: 2_000_000)
        with pytest.raises(
            WarehouseError, match=f"^{lake}: to read captures would take 3.0 MB of memory, and at most 2.0"
        ):
            DOORS[door](lake)
