"""The progress that a command prints while it reads many files."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq import cli
from etq.render.progress import Progress, stage, working
from tests.builders import dump, execute, run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_of_many_files_a_line_has_the_numbers(tmp_path: Path) -> None:
    for number in range(21):
        (tmp_path / f"f{number:02}.etdp").write_bytes(dump(run("Execute", execute(0, 60 + number))))
    (tmp_path / "f07.etdp").write_bytes(b"")
    db = ("--db", str(tmp_path / "lab.duckdb"))
    pattern = str(tmp_path / "*.etdp")
    failure = f"Error: {tmp_path}/f07.etdp: the file is empty; expected an ETDump\n"
    first = CliRunner().invoke(cli.main, ["ingest", pattern, *db])
    assert (first.exit_code, first.stderr) == (1, f"{failure}21 files: 20 new, 1 failed\n")
    second = CliRunner().invoke(cli.main, ["ingest", str(tmp_path), "--quiet", *db])
    assert (second.exit_code, second.stderr) == (1, failure)
    listed = CliRunner().invoke(cli.main, ["ingest", pattern, "--verbose", *db]).stderr.splitlines()
    assert len(listed) == 22 and listed[0] == "f00: known already, options applied"
    assert listed[-1] == "21 files: 20 known already, 1 failed"
    few = CliRunner().invoke(cli.main, ["ingest", str(tmp_path / "f0[1-3].etdp"), *db]).stderr.splitlines()
    assert few == [f"f0{number}: known already, options applied" for number in (1, 2, 3)]
    assert CliRunner().invoke(cli.main, ["ingest", str(tmp_path / "f0[1-3].etdp"), "--quiet", *db]).stderr == ""
    none = CliRunner().invoke(cli.main, ["ingest", str(tmp_path / "*.none"), *db])
    assert (none.exit_code, none.stderr) == (1, f"Error: {tmp_path}/*.none: no such files\n")


def test_messages_go_above_the_progress_line() -> None:
    terminal = Terminal()
    with Progress("Ingesting", 3, terminal) as progress:
        progress.advance()
        progress.clear()
        terminal.write("a message\n")
        progress.advance()
    lines = [""]
    for each in terminal.getvalue():
        lines[-1:] = [lines[-1] + each] if each != "\n" else [lines[-1], ""]
    # A terminal shows the text that was written last to a line, from its start on.
    assert [line.split("\r")[-1] for line in lines] == ["a message", ""]
    drawn = [part for line in lines for part in line.split("\r") if part.strip()]
    assert [part.split()[-1] for part in drawn] == ["0/3", "message", "2/3"]
    assert max(map(len, drawn)) < 80
    silent = Terminal()
    with Progress("Ingesting", 3, silent, is_quiet=True) as progress:
        progress.advance()
    assert silent.getvalue() == ""


def test_the_bar_moves_with_each_file_that_is_read(tmp_path: Path) -> None:
    """All of these share a transaction, so none is finished before the last one is read."""
    for number in range(5):
        (tmp_path / f"f{number}.etdp").write_bytes(dump(run("Execute", execute(0, 60 + number))))
    seen: list[tuple[str, int]] = []
    with etq.open() as warehouse:
        warehouse.ingest_many(
            sorted(tmp_path.glob("*.etdp")),
            on_read=lambda: seen.append(("read", len(seen))),
            progress=lambda *_: seen.append(("stored", len(seen))),
        )
    assert [what for what, _ in seen] == ["read"] * 5 + ["stored"] * 5
    terminal = Terminal()
    with Progress("Ingesting", 5, terminal) as progress:
        for move in (progress.begin, progress.advance, progress.begin, progress.clear, progress.begin):
            move()
    assert re.findall(r"\d/5", terminal.getvalue()) == ["0/5", "3/5"]


def test_what_takes_long_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.render.progress._SILENT", 0.05)
    terminal = Terminal()
    with working("Reading a\x1bb", terminal):
        time.sleep(0.2)
        stage("part 2")
        time.sleep(0.2)
    shown = [part.strip() for part in terminal.getvalue().split("\r")]
    assert "Reading a\\x1bb, 0 s" in shown and "Reading a\\x1bb: part 2, 0 s" in shown and shown[-1] == ""
    quick, pipe = Terminal(), io.StringIO()
    with working("Reading", quick):
        pass
    with working("Reading", pipe):
        time.sleep(0.2)
    stage("of nothing")
    assert quick.getvalue() == pipe.getvalue() == ""
