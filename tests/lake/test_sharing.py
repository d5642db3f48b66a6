"""Overviews and comments of a lake: as those of a file, and none is lost among several writers."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import etq
from etq.annotations.comments import Comment, add_comment
from etq.errors import EtqError, WarehouseError
from etq.lake import check, compact, export, repair, restore
from etq.lake.reading.tables import SHARED
from etq.lake.writing import commits, sharing
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.lake import moto_server
from tests.lake.test_lake import FLEET, one_of
from tests.sql.test_trends import capture

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

# All that comments and overviews change, and they themselves but for the time.
QUERIES = (
    "FROM regressions()",
    "FROM regressions(with_accepted := true)",
    "FROM regressions('device=a', with_accepted := true)",
    "FROM regressions(\"by\" := 'model', with_accepted := true)",
    "FROM trend()",
    "FROM trend('op', 'addmm')",
    "FROM trend('op', 'add', \"by\" := 'model')",
    "FROM trend('metric', 'tokens_per_second')",
    "SELECT * EXCLUDE (written_at) FROM change_comments ORDER BY comment_id",
    "FROM overview_items ORDER BY ALL",
    "FROM overview_comparisons ORDER BY ALL",
)
EDITS: tuple[Callable[[Warehouse], object], ...] = (
    lambda lab: lab.accept("16", "new tokenizer", "model=net,device=a", what="op", item="addmm@0", author="ann"),
    lambda lab: lab.comment("16", "a slower kernel?", "device=b"),
    lambda lab: lab.accept("16", "wanted", "device=b", what="all", author="bob"),
    lambda lab: lab.watch("kernels", "device=a", what="op", item="addmm"),
    lambda lab: lab.watch("kernels"),
    lambda lab: lab.watch("kernels", "device=a", what="op", item="addmm"),
    lambda lab: lab.watch("totals", over="build", by="device"),
    lambda lab: lab.watch_comparison("kernels", "build<16", "build>=16", min_effect=0.05),
    lambda lab: lab.remove_comment(1),
    lambda lab: lab.accept("31", "a faster clock", what="metric", item="tokens_per_second"),
    lambda lab: lab.unwatch("kernels", 1),
    lambda lab: lab.remove_comment(3),
    lambda lab: lab.accept("31", "all that", what="all"),
    lambda lab: lab.watch_comparison("kernels", "device=a", "device=b"),
    lambda lab: lab.unwatch_comparison("kernels", 1),
    lambda lab: lab.unwatch("totals", 1),
)
WRONG: tuple[Callable[[Warehouse], object], ...] = (
    lambda lab: lab.remove_comment(99),
    lambda lab: lab.unwatch("kernels", 99),
    lambda lab: lab.accept("99", "no such build"),
    lambda lab: lab.comment("16", ""),
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two devices, 45 builds each, with steps at builds 16 and 31."""
    path = tmp_path_factory.mktemp("fleet") / "fleet.duckdb"
    with etq.open(path) as lab:
        for number, device in enumerate("ab"):
            made = []
            for build in range(1, 46):
                scale = {"addmm": (1.0, 1.3, 1.6)[(build - 1) // 15], "add": 1.2 if build > 15 and number else 1.0}
                labels = {"build": str(build), "device": device, "model": "net"}
                made.append(Labelled(f"{device}{build}", capture(build + 100 * number, scale), labels))
            ingest_all(lab, made)
            for build in range(1, 46):
                value = (50.0 if build < 31 else 40.0) + build % 3 / 10
                lab.metric(f"{device}{build}", "tokens_per_second", value)
    return path


def answers(lab: Warehouse) -> list[Any]:
    return [lab.rows(query) for query in QUERIES]


def test_comments_and_overviews_are_as_in_a_file(fleet: Path, tmp_path: Path) -> None:
    """Row for row, after each of some edits; and so they are in a lake that is opened anew, or made of the file."""
    export(tmp_path / "lake", fleet)
    assert not any((tmp_path / "lake" / table).exists() for table in SHARED)
    with etq.open(fleet) as file:
        for edit in EDITS:
            with etq.open(tmp_path / "lake") as lake:
                assert edit(file) == edit(lake)
                found = answers(file)
                assert answers(lake) == found
        with etq.open(tmp_path / "lake") as lake:
            for wrong in WRONG:
                said = []
                for lab in (file, lake):
                    with pytest.raises(EtqError) as caught:
                        wrong(lab)
                    said.append(str(caught.value))
                assert said[0] == said[1]
        assert len({str(row) for row in found}) == len(QUERIES) and all(rows for _, rows in found[1:])
    with etq.open(tmp_path / "lake", read_only=True) as again:
        assert answers(again) == found
    export(tmp_path / "made", fleet)
    with etq.open(tmp_path / "made") as made:
        assert answers(made) == found
        times = "SELECT comment_id, written_at FROM change_comments ORDER BY ALL"
        with etq.open(fleet, read_only=True) as file:
            assert made.rows(times) == file.rows(times)
    export(tmp_path / "made", fleet)
    with etq.open(tmp_path / "made") as made:
        assert answers(made) == found, "nothing is there twice"


def lake_of(tmp_path: Path, captures: int = 2) -> Path:
    one_of(FLEET[:captures], tmp_path / "lake", build="1")
    return tmp_path / "lake"


def comments(lake: Path | str) -> list[tuple[int, str]]:
    with etq.open(lake, read_only=True) as opened:
        return opened.rows("SELECT comment_id, text FROM change_comments ORDER BY ALL")[1]


def write_comments(lake: str, name: str, number: int, sent: Any) -> None:
    """Tell each comment that was written. A process of its own."""
    with etq.open(lake) as opened:
        for each in range(number):
            sent.send((opened.comment("1", f"{name} {each}"), f"{name} {each}"))
            if each % 5 == 4:
                opened.watch(f"{name}{each}")


def running(lake: Path | str, number: int, each: int, prefix: str = "w") -> Iterator[tuple[Any, Any]]:
    spawn = multiprocessing.get_context("spawn")
    for name in range(number):
        got, sent = spawn.Pipe(duplex=False)
        process = spawn.Process(target=write_comments, args=(str(lake), f"{prefix}{name}", each, sent))
        process.start()
        sent.close()
        yield process, got


def told(got: Any) -> list[tuple[int, str]]:
    found = []
    try:
        while True:
            found.append(got.recv())
    except EOFError:
        return found


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    """Also where the tables are made; captures are added meanwhile."""
    lake = lake_of(tmp_path)
    writers = [*running(lake, 3, 10)]
    one_of(FLEET[2:5], lake, build="2")
    written = sorted(each for _, got in writers for each in told(got))
    for process, _ in writers:
        process.join()
        assert process.exitcode == 0
    assert [number for number, _ in written] == list(range(1, 31))
    assert comments(lake) == written
    with etq.open(lake) as opened:
        names = opened.rows("SELECT overview FROM overview_items ORDER BY ALL")[1]
        assert names == sorted((f"w{name}{each}",) for name in range(3) for each in (4, 9))
        assert opened.rows("SELECT count(*) FROM captures")[1] == [(5,)]
    assert [fault for fault in check(lake) if not fault.is_left_over] == []


def test_several_writers_of_a_store_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go by its conditional puts."""
    with moto_server.serving() as endpoint:
        for name, value in moto_server.made(endpoint, "lab").items():
            monkeypatch.setenv(name, value)
        one_of(FLEET[:2], "s3://lab/fleet", build="1")  # type: ignore[arg-type]
        writers = [*running("s3://lab/fleet", 3, 5)]
        written = sorted(each for _, got in writers for each in told(got))
        for process, _ in writers:
            process.join()
            assert process.exitcode == 0
        assert comments("s3://lab/fleet") == written and [number for number, _ in written] == list(range(1, 16))
        assert [fault for fault in check("s3://lab/fleet") if not fault.is_left_over] == []


@pytest.mark.long
def test_killed_writers_lose_nothing_that_was_told(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    chance = random.Random(3)
    written: list[str] = []
    for turn in range(4):
        writers = [*running(lake, 2, 400, f"{turn}w")]
        written += [got.recv()[1] for _, got in writers for _ in range(2)]
        time.sleep(chance.random())
        for process, _ in writers:
            os.kill(process.pid, signal.SIGKILL)
        for process, got in writers:
            process.join()
            written += [text for _, text in told(got)]
    there = comments(lake)
    assert {*written} <= {text for _, text in there} and len(written) >= 16
    # Each writer may have been killed between its last commit and its word of it.
    assert len({text for _, text in there}) == len(there) <= len(written) + 8
    assert [number for number, _ in there] == list(range(1, len(there) + 1))
    assert [fault for fault in check(lake) if not fault.is_left_over] == []


def overtaken(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> list[int]:
    """Do this work just before the next commit. Returns the list of the numbers of commits since."""
    commit, count = commits.commit, [0]

    def later(*arguments: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] == 1:
            work()
        commit(*arguments, **options)

    monkeypatch.setattr(commits, "commit", later)
    return count


@pytest.mark.parametrize("is_first", [True, False], ids=["table", "row"])
def test_a_writer_that_is_overtaken_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    lake = lake_of(tmp_path)
    if not is_first:
        with etq.open(lake) as opened:
            opened.comment("1", "before")

    def other() -> None:
        with etq.open(lake) as opened:
            opened.comment("1", "other")

    with etq.open(lake) as opened:
        count = overtaken(monkeypatch, other)
        assert opened.comment("1", "mine") == (2 if is_first else 3)
    assert count == [3], "of the other, of this one in vain, and again"
    expected = ["other", "mine"] if is_first else ["before", "other", "mine"]
    assert comments(lake) == [*enumerate(expected, 1)]


def test_a_table_that_others_make_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the writer has seen that there is none."""
    lake, make_table, count = lake_of(tmp_path), commits.make_table, [0]

    def made(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 1:
            with etq.open(lake) as opened:
                opened.comment("1", "other")
        return make_table(*arguments)

    monkeypatch.setattr("etq.lake.writing.sharing.make_table", made)
    with etq.open(lake) as opened:
        assert opened.comment("1", "mine") == 2
    assert comments(lake) == [(1, "other"), (2, "mine")]


def test_lakes_without_are_as_before(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    with etq.open(lake) as opened:
        with pytest.raises(EtqError, match="no comment has the number 1"):
            opened.remove_comment(1)
        assert opened.rows("FROM change_comments")[1] == opened.rows("FROM overview_items")[1] == []
    one_of(FLEET[2:3], lake)
    compact(lake, leave_seconds=-1)
    assert not any((lake / table).exists() for table in SHARED)


def test_what_may_not_be_written(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    with etq.open(lake, read_only=True) as opened, pytest.raises(WarehouseError, match="opened read-only"):
        opened.comment("1", "x")
    version = etq.lake.reading.state.read(etq.lake.reading.tables.Lake.at(lake)).version
    with etq.open(lake, version=version) as opened, pytest.raises(WarehouseError, match="an older version of a lake"):
        opened.watch("x")
    with etq.open(lake) as opened, pytest.raises(WarehouseError, match="captures of a lake are read-only"):
        opened.label("00", a="b")


def test_maintenance_keeps_them(tmp_path: Path) -> None:
    """Compacting deletes former files, going back to a version leaves them, and each reader has them."""
    lake = lake_of(tmp_path)
    for number in range(12):
        made = Comment("", "total", None, None, "build", "1", "step", "note", f"n{number}", None)
        sharing.edit(lake, "change_comments", partial(add_comment, comment=made))
    version = max(int(each.stem) for each in (lake / "captures/_delta_log").glob("*.json"))
    one_of(FLEET[2:4], lake, build="2")
    expected = [(number + 1, f"n{number}") for number in range(12)]
    compact(lake, leave_seconds=-1)
    assert check(lake) == []
    assert len([*(lake / "change_comments").glob("load_id=*/*.parquet")]) == 1
    assert comments(lake) == expected
    one_of(FLEET[4:6], lake, build="2")
    restore(lake, max(int(each.stem) for each in (lake / "captures/_delta_log").glob("*.json")) - 1)
    assert version > 0 and comments(lake) == expected
    with etq.open(lake, read_only=True) as opened:
        assert opened.safe_sql("SELECT text FROM change_comments WHERE comment_id = 3")[1] == [("n2",)]
    from deltalake import DeltaTable

    texts = DeltaTable(str(lake / "change_comments")).to_pyarrow_table().column("text").to_pylist()
    assert sorted(texts) == sorted(text for _, text in expected), "as other programs read it"


def test_a_lost_file_is_mended_by_the_one_before(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    with etq.open(lake) as opened:
        opened.comment("1", "a")
        [first] = (lake / "change_comments").glob("load_id=*/*.parquet")
        opened.comment("1", "b")
    [last] = {*(lake / "change_comments").glob("load_id=*/*.parquet")} - {first}
    last.unlink()
    [fault] = [fault for fault in check(lake) if not fault.is_left_over]
    assert (fault.table, fault.what) == ("change_comments", "missing")
    assert repair(lake) == []
    assert comments(lake) == [(1, "a")]
    with etq.open(lake) as opened:
        opened.comment("1", "c")
    assert comments(lake) == [(1, "a"), (2, "c")]


def test_somebody_elses_tables(tmp_path: Path) -> None:
    """Rows that the log doesn't note, and links, are refused."""
    from pyarrow import parquet

    lake = lake_of(tmp_path)
    with etq.open(lake) as opened:
        opened.comment("1", "a")
    [file] = (lake / "change_comments").glob("load_id=*/*.parquet")
    whole = file.read_bytes()
    rows = parquet.read_table(file)
    parquet.write_table(pa.concat_tables([rows] * 50), file)
    with etq.open(lake) as opened, pytest.raises(WarehouseError, match="have 50 rows; expected 1"):
        opened.comment("1", "b")
    assert any("has 50 rows; expected 1" in fault.what for fault in check(lake))
    file.write_bytes(whole)
    (tmp_path / "secret").write_bytes(whole)
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(WarehouseError, match="a link; a lake's folders and files must be in it"):
        etq.open(lake)


def test_no_more_rows_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(tmp_path)
    monkeypatch.setattr(sharing, "MOST_ROWS", 2)
    with etq.open(lake) as opened:
        opened.comment("1", "a")
        opened.comment("1", "b")
        with pytest.raises(WarehouseError, match="has 2 rows, and takes no more; remove some"):
            opened.comment("1", "c")
        opened.remove_comment(1)
        assert opened.comment("1", "c") == 3
    with duckdb.connect() as other:
        files = str(lake / "change_comments/*/*.parquet")
        assert other.execute(f"SELECT max(comment_id) FROM '{files}'").fetchall() == [(3,)]
