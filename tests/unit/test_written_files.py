"""Files that commands write: whole or the one before, CSV as Python's; Markdown in which names are no links or mentions."""

from __future__ import annotations

import csv
import datetime
import errno
import io
import json
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq import report
from etq.database.publishing import new_file
from etq.errors import EtqError, QueryError
from etq.render.delimited import delimited, write_delimited
from etq.render.display import shown_as
from etq.render.markdown import inline, markdown
from etq.render.writers import Output, write, write_rows, write_text
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import examples, thinned

MANY = 25_000

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
COLUMNS = {
    "whole": ("BIGINT", st.integers(-(2**63), 2**63 - 1)),
    "part": ("DOUBLE", st.floats(width=64)),
    "flag": ("BOOLEAN", st.booleans()),
    "text, quoted": ("VARCHAR", TEXTS | st.sampled_from(["", "a,b", 'a"b', "a\rb", "a\nb", " a ", "\t", "=1", "-x", "NULL"])),
    "bytes": ("BLOB", st.binary(max_size=4)),
    "moment": ("TIMESTAMP", st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)).map(lambda each: each.replace(microsecond=0))),
    "day": ("DATE", st.dates(datetime.date(1900, 1, 1))),
    "list": ("VARCHAR[]", st.lists(TEXTS | st.none(), max_size=3)),
}  # fmt: skip


@st.composite
def results(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]]]:
    names = draw(st.lists(st.sampled_from([*COLUMNS]), min_size=1, unique=True))
    row = st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    return names, draw(st.lists(row, max_size=4))


@pytest.mark.long
@examples(60)
@given(results(), st.sampled_from([",", "\t"]), st.booleans())
def test_duckdb_writes_csv_as_python_does(
    result: tuple[list[str], list[tuple[Any, ...]]], delimiter: str, escapes: bool
) -> None:
    names, rows = result
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}" {COLUMNS[name][0]}' for name in names)
        connection.execute(f"CREATE TABLE results ({columns})")
        if rows:
            connection.executemany(f"INSERT INTO results VALUES ({', '.join('?' * len(names))})", rows)
        stream = io.StringIO(newline="")
        with shown_as(escapes_formulas=escapes):
            assert write_delimited(connection, connection.sql("FROM results"), delimiter, stream) == bool(rows)
            expected = delimited(names, connection.execute("FROM results").fetchall(), delimiter)
    read = cells(stream.getvalue(), delimiter)
    assert read == cells(expected, delimiter)
    assert len(read) == 1 + len(rows)


def cells(text: str, delimiter: str) -> list[list[Any]]:
    """The cells of each line; lists are decoded from JSON, which may contain \\u001f or \\u001F."""
    head, *lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    is_list = [name.endswith("list") for name in head]
    return [head] + [
        [json.loads(cell) if cell and json_ else cell for cell, json_ in zip(line, is_list, strict=True)]
        for line in lines
    ]


QUERY = f"SELECT range AS number, 'text ' || range AS text FROM range({MANY})"


@pytest.mark.long
@pytest.mark.parametrize("format", ["csv", "json", "markdown"])
def test_results_of_many_parts_are_whole(format: str, warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert write(warehouse, QUERY, Output(format, str(path)))
    text = path.read_text()
    if format == "json":
        assert json.loads(text) == [{"number": each, "text": f"text {each}"} for each in range(MANY)]
        return
    lines = text.splitlines()
    head = {"csv": 1, "markdown": 2}[format]
    assert [line.strip("| ").replace("|", " ").replace(",", " ").split() for line in lines[head:]] == [
        [str(each), "text", str(each)] for each in range(MANY)
    ]


FAILS = "SELECT CASE WHEN range = 20000 THEN error('row 20000') ELSE range END AS number FROM range(30000)"


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "arrow"])
def test_what_fails_leaves_the_file_as_it_was(format: str, warehouse: Warehouse, tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("before")
    for path in (new, old):
        with pytest.raises(QueryError, match="^row 20000$"):
            write(warehouse, FAILS, Output(format, str(path), True))
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and old.read_text() == "before"


HOSTILE = [
    "[x](http://evil.example)", "![i](https://evil.example/i.png)", "<img src=x onerror=alert(1)>", "<!--", "&lt;",
    "@torvalds", "fixes #1", "GH-12", "`code`", "``two`", "**bold**", "_softmax_", "~~gone~~", "www.evil.example",
    "http://evil.example", ":smile:", "$x$", "[x][y]", "a@b.example",
]  # fmt: skip
PLAIN = [
    "native_layer_norm", "aten.add.Tensor", "layers.0", "+3.1 %, 20.1 to 23.5 us", "~", "(framework)", "a|b\\c",
    "a\\|b",
]  # fmt: skip
_CODE = re.compile(r"(`+) ?(.*?) ?\1(?!`)")


def cells_of_line(line: str) -> list[str]:
    """The cells of a line, split as by GitHub: at bars without a backslash, also in code."""
    parts = re.findall(r"(?:\\.|[^|\\])*", line.strip().removeprefix("|").removesuffix("|"))
    return [part.strip() for part in parts if part]


def test_hostile_names_are_code_and_others_stay() -> None:
    for name in HOSTILE:
        for text in (inline(name), cells_of_line(markdown(["name"], [[name]]).splitlines()[2])[0]):
            match = _CODE.fullmatch(text)
            assert match is not None and match[2] == name, name
            assert match[1] not in name.strip("`") or len(match[1]) > max(map(len, re.findall("`+", name)))
    for name in PLAIN:
        assert "`" not in inline(name)
        for text in (inline(name), cells_of_line(markdown(["name"], [[name]]).splitlines()[2])[0]):
            assert re.sub(r"\\(.)", r"\1", text) == name


MLP = CAPTURES / "mlp" / "mlp.etdp"
WRITERS: dict[str, Callable[[Warehouse, str], object]] = {
    "table": lambda warehouse, path: write(warehouse, "FROM captures", Output(None, path, True)),
    "csv": lambda warehouse, path: write(warehouse, "FROM captures", Output("csv", path, True)),
    "parquet": lambda warehouse, path: write(warehouse, "FROM captures", Output("parquet", path, True)),
    "arrow": lambda warehouse, path: write(warehouse, "FROM captures", Output("arrow", path, True)),
    "rows": lambda _, path: write_rows(["a"], [["b"]], Output("json", path, True)),
    "text": lambda _, path: write_text("text", Output(None, path, True)),
    "report": lambda warehouse, path: report.write(warehouse, ["mlp"], path),
    "export": lambda warehouse, path: warehouse.export("mlp", "chrome", path),
}


@pytest.fixture
def mlp(warehouse: Warehouse) -> Warehouse:
    warehouse.ingest(MLP)
    return warehouse


@pytest.mark.parametrize("writer", thinned(WRITERS, [*WRITERS][:3]))
def test_a_full_disk_leaves_the_old_file(
    mlp: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(EtqError, match="out: can't be written: no space left on device"):
            WRITERS[writer](mlp, str(path))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    WRITERS[writer](mlp, str(path))
    assert path.read_bytes() != b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_file_that_is_made_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(EtqError, match="out: exists; overwrite it with overwrite=True"):  # noqa: SIM117
        with new_file(str(path), overwrite=False) as written:
            Path(written).write_text("new")
            path.write_text("another's")
    assert path.read_text() == "another's"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.long
def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """Only folders that etq made on this machine: a folder of the user may have such a name, and a file within."""
    kept = (".etq-lab-data", ".etq-1-12345678", ".etq-1-short", ".etq-1-ofothers")
    for name in (*kept, ".etq-1-abcdefgh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out").write_text("half")
    for name in (".etq-lab-data", ".etq-1-short", ".etq-1-abcdefgh"):
        (tmp_path / name / ".made-by-etq").write_text(platform.node())
    (tmp_path / ".etq-1-ofothers/.made-by-etq").write_text("another")
    for name in (".etq-3-unmarked", ".etq-4-justmade"):  # killed before it was marked, and not marked yet
        (tmp_path / name).mkdir()
    for name in (".etq-1-12345678", ".etq-3-unmarked"):
        os.utime(tmp_path / name, (0, 0))
    etq.open(tmp_path / "lab.duckdb").close()
    expected = sorted([*kept, ".etq-4-justmade", "lab.duckdb"])
    assert sorted(each.name for each in tmp_path.iterdir()) == expected
    (tmp_path / ".etq-1-abcdefgh").mkdir()
    (tmp_path / ".etq-1-abcdefgh/.made-by-etq").write_text(platform.node())
    etq.open(tmp_path / "lab.duckdb").close()  # by who writes to a warehouse that is there, too
    assert sorted(each.name for each in tmp_path.iterdir()) == expected
