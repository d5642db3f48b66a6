"""The progress that a command prints while it reads many files."""

from __future__ import annotations

import io
from pathlib import Path

from click.testing import CliRunner

from etq import cli
from etq.render.progress import Progress
from tests.builders import dump, execute, run


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
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

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
