"""`etq ingest` of folders of any names, of workers and ranks of a job; the progress that it prints."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import time
from pathlib import Path

import pytest

import etq
from etq.render.progress import Progress, stage, working
from tests.builders import dump, execute, run
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.trace_builders import event, trace, two_steps

MLP = CAPTURES / "mlp"


def ingest(*arguments: str | Path, status: int = 0) -> list[str]:
    """Ingest into `lab.duckdb` of the current folder, and return the lines of stderr."""
    result = run_etq("ingest", *map(str, arguments), "--db", "lab.duckdb")
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    return result.stderr.splitlines()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_every_profiling_file_of_a_folder_is_read_and_the_others_are_counted(here: Path) -> None:
    """Two traces and a dump of unusual names, and what else lies around them; damaged files are errors."""
    folder = here / "job"
    for name in ("rank1", ".git"):
        (folder / name).mkdir(parents=True)
    (folder / "rank0.json.gz").write_bytes(gzip.compress(trace(*two_steps())))
    (folder / "rank1/trace.json").write_bytes(trace(event("cpu_op", "aten::add", 0, 10)))
    shutil.copy(MLP / "mlp.etdp", folder / "profile.bin")
    for name in ("mlp.etrecord", "mlp.pte"):
        shutil.copy(MLP / name, folder)
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        (folder / name).write_text("op,calls\n")
    (folder / ".git/index").write_bytes(b"DIRC")
    assert ingest(folder)[0] == (
        "Note: not read as profiling files: 1 ETRecord, for --etrecord (mlp.etrecord); "
        "4 other files (a.csv, b.csv, c.csv, …); 1 program, for --pte (mlp.pte)"
    )
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name, c.format FROM captures AS c ORDER BY c.name")[1] == [
            ("profile", "etdump"), ("rank0", "torch_trace"), ("trace", "torch_trace"),
        ]  # fmt: skip
    assert "(a.csv, b.csv, c.csv, d.csv)" in "".join(ingest(folder, "-v"))
    assert ingest(folder, "--quiet") == []
    (folder / "cut_off.json").write_bytes(trace(*two_steps())[:-40])
    (folder / "other.etdp").write_bytes(b"nothing of the kind")
    lines = ingest(folder, status=1)
    errors = [line for line in lines if line.startswith("Error: ")]
    assert [Path(line.split(": ")[1]).name for line in errors] == ["cut_off.json", "other.etdp"]
    assert lines[-1] == "2 of 5 files could not be ingested"
    assert [line[:6] for line in ingest(folder / "other.etdp", status=1)] == ["Error:"]


def test_the_latest_of_a_folder_is_that_of_the_highest_number(here: Path) -> None:
    (here / "runs").mkdir()
    # After the dump, bytes that belong to none: files of equal content would be one capture.
    for number in (30, 9, 10, 1):
        (here / f"runs/b{number}.etdp").write_bytes((MLP / "mlp.etdp").read_bytes() + bytes(number * 8 + 1))
    ingest("runs")
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        assert [warehouse.capture(which).name for which in ("@latest", "@previous")] == ["b30", "b10"]


def test_a_folder_without_any_says_what_it_has(here: Path) -> None:
    (here / "mlp").mkdir()
    assert "mlp: a folder without profiling files" in ingest("mlp", status=1)[0]
    shutil.copy(MLP / "mlp.pte", here / "mlp")
    [line] = ingest("mlp", status=1)
    assert "mlp: a folder without profiling files; it has 1 program, for --pte (mlp.pte)" in line
    assert ingest("none.etdp", status=1) == ["Error: none.etdp: no such file"]


@pytest.mark.long
def test_a_folder_of_workers(here: Path) -> None:
    folder = here / "log/deep"
    folder.mkdir(parents=True)
    for worker, steps in ((41, "steps_7"), (42, "steps_12")):
        shutil.copy(
            CAPTURES / f"torch/{steps}.pt.trace.json.gz", folder / f"host_{worker}.1790857026000000000.pt.trace.json.gz"
        )
    ingest("log", "--label", "model=toy")
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        labels = "SELECT key, value FROM labels WHERE key IN ('worker', 'model') ORDER BY ALL"
        assert warehouse.rows(labels)[1] == [("model", "toy")] * 2 + [("worker", "host_41"), ("worker", "host_42")]
        steps = "SELECT calls FROM key_averages('worker=host_42') WHERE name = 'ProfilerStep*'"
        assert warehouse.rows(steps)[1] == [(3,)]


@pytest.mark.long
def test_ranks_of_a_job(here: Path) -> None:
    """The folder's ranks get the job as a label; missing and duplicate ranks of the job are listed."""
    (here / "ranks").mkdir()
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8}]

    def write(name: str, size: int = 8, **rank: int) -> None:
        info = {"world_size": size, "pg_config": groups, **rank}
        events = [event("cpu_op", "aten::mm", 0, 5 + len(name))]
        (here / f"ranks/{name}.pt.trace.json").write_bytes(trace(*events, distributedInfo=info))

    for rank in (0, 1, 2, 5):
        write(f"host{'_' * rank}", rank=rank)
    missing = "Note: job train: of 8 processes, ranks 3 to 4 and 6 to 7 are missing"
    assert ingest("ranks", "--job", "train")[4:] == [missing]
    with etq.open("lab.duckdb", read_only=True) as warehouse:
        counted = "SELECT value, count(*) FROM labels WHERE key IN ('job', 'process_groups') GROUP BY ALL ORDER BY ALL"
        assert warehouse.rows(counted)[1] == [("default_pg:8", 4), ("train", 4)]
    write("again", rank=5)
    write("unknown")
    assert ingest("ranks/*n*.json", "--job", "train")[2:] == [
        "Note: job train: rank 5 has several traces, again and host_____, added up; give them different jobs",
        "Note: job train: 1 trace has no rank; give it by --label-from 'rank{rank}.pt.trace.json.gz'",
        missing,
    ]
    write("of_another_size", size=4, rank=3)
    other = ("ranks/of_another_size.pt.trace.json", "--job", "train")
    assert ingest(*other)[-1] == "Note: job train: its traces are of jobs with 4 and 8 processes"
    assert ingest(*other, "--quiet") == ingest(*other, "--quiet", "--label", "job=train") == []


@pytest.mark.long
def test_what_is_unknown_of_ranks_has_a_note(here: Path) -> None:
    """Ranks without collectives."""
    for rank in (0, 1):
        (here / f"rank{rank}.json").write_bytes(trace(event("cpu_op", "aten::add", 0, 5 + rank)))
        ingest(f"rank{rank}.json", "--label", f"rank={rank}", "--label", "job=a")
    asked = ("job=a", "--db", "lab.duckdb")
    result = run_etq("show", "rank_steps", *asked)
    assert result.stderr == (
        "Note: job a: nothing is known of what ranks 0, 1 waited for: that needs traces of several ranks with a collective "
        "that all end together (NCCL, RCCL, gloo)\n"
    )
    assert len(result.stdout.splitlines()) == 6
    assert [row["clock_offset"] for row in rows("show", "clock_offsets", *asked)] == [None, None]
    unknown = "Note: job a: the clock of ranks 0, 1 isn't known: no collective that ends for several"
    assert run_etq("show", "clock_offsets", *asked).stderr.startswith(unknown)
    for name in ("one", "two"):
        (here / f"{name}.json").write_bytes(trace(event("cpu_op", f"aten::{name}", 0, 5)))
        ingest(f"{name}.json", "--label", "rank=3")
    for view in ("stragglers", "rank_steps", "collective_waits", "clock_offsets"):
        refused = run_etq("show", view, "--db", "lab.duckdb")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "several traces without a label job are of rank 3: one, two; choose" in refused.stderr


@pytest.mark.long
def test_stragglers_note_clocks_that_differ(here: Path) -> None:
    """Two ranks with a collective in each of two steps, the second one's clock 5 ms ahead."""
    for rank in (0, 1):
        made = Machine(rank, 2, now=1000 + 5000 * rank)
        for step in (0, 1):
            with made.frame(f"ProfilerStep#{step}", "user_annotation"):
                made.launch(ALL_REDUCE, 100, 24, **message("allreduce", "0", "Float", 10, 10, 2))
                made.synchronize()
        (here / f"rank{rank}.pt.trace.json").write_bytes(made.trace())
        ingest(f"rank{rank}.pt.trace.json", "--label", "job=a")
    assert run_etq("show", "stragglers", "job=a", "--db", "lab.duckdb").stderr == (
        "Note: job a: clocks of ranks differ by up to 5000 us, see etq show clock_offsets; steps are matched by number\n"
    )


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.long
def test_of_many_files_a_line_has_the_numbers(here: Path) -> None:
    for number in range(21):
        (here / f"f{number:02}.etdp").write_bytes(dump(run("Execute", execute(0, 60 + number))))
    (here / "f07.etdp").write_bytes(b"")
    failure = "Error: f07.etdp: the file is empty; copy or record it again"
    assert ingest("*.etdp", status=1) == [failure, "21 files: 20 new, 1 failed"]
    assert ingest(".", "--quiet", status=1) == [failure]
    listed = ingest("*.etdp", "--verbose", status=1)
    assert len(listed) == 22 and listed[0] == "f00: known already"
    assert listed[-1] == "21 files: 20 known already, 1 failed"
    assert ingest("f0[1-2].etdp") == ["f01: known already", "f02: known already"]
    assert ingest("*.none", status=1) == ["Error: *.none: no such files"]


def test_messages_go_above_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.render.progress._PAUSE", 3600)
    terminal = Terminal()
    with Progress("Ingesting", 3, terminal) as progress:
        progress.advance()
        progress.clear()
        terminal.write("a message\n")
        progress.advance()
    lines = terminal.getvalue().split("\n")
    for line in lines:  # a terminal shows each text over what was on the line, from its start on
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part) :]
        assert seen.rstrip() == ("a message" if line is lines[0] else "")
    drawn = [part for line in lines for part in line.split("\r") if part.strip()]
    assert [part.split()[-1] for part in drawn] == ["0/3", "message", "2/3"]
    assert max(map(len, drawn)) < 80


def test_the_bar_moves_with_each_file_that_is_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of these share a transaction, so none is finished before the last one is read."""
    monkeypatch.setattr("etq.render.progress._PAUSE", 3600)
    for number in range(5):
        (here / f"f{number}.etdp").write_bytes(dump(run("Execute", execute(0, 60 + number))))
    seen: list[str] = []
    with etq.open() as warehouse:
        warehouse.ingest_many(
            sorted(here.glob("*.etdp")), on_read=lambda: seen.append("read"), progress=lambda *_: seen.append("stored")
        )
    assert seen == ["read"] * 5 + ["stored"] * 5
    terminal = Terminal()
    with Progress("Ingesting", 5, terminal) as progress:
        for move in (progress.begin, progress.advance, progress.begin, progress.clear, progress.begin):
            move()
    assert re.findall(r"\d/5", terminal.getvalue()) == ["0/5", "3/5"]


def test_what_takes_long_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.render.progress._SILENT", 0.01)
    terminal, pipe = Terminal(), io.StringIO()

    def wait_for(text: str) -> None:
        end = time.monotonic() + 120
        while text not in terminal.getvalue():
            assert time.monotonic() < end, terminal.getvalue()
            time.sleep(0.01)

    with working("Reading a\x1bb", terminal):
        wait_for("Reading a\\x1bb, ")
        stage("part 2")
        wait_for("Reading a\\x1bb: part 2, ")
    assert terminal.getvalue().split("\r")[-1].strip() == ""
    with working("Reading", pipe):
        stage("of nothing")
    assert pipe.getvalue() == ""
