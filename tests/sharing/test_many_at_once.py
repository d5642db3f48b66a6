"""Several processes on one warehouse: writers and readers wait for each other, and nothing is lost, doubled or torn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq.database import contents
from etq.errors import WarehouseError
from etq.maintenance.merge import merge
from tests.conftest import CAPTURES
from tests.processes import ROOT, held, process
from tests.sampling import IS_WHOLE
from tests.sharing import captures

pytestmark = pytest.mark.long
SHIM = "held_back.c"

WRITER = "import sys; from tests.sharing.captures import ingest; ingest(sys.argv[1], sys.argv[2], list(map(int, sys.argv[3:])))"
# As a command would, opens the file, queries it and closes it, every second until its input ends.
# Prints how often, and which captures were not whole.
READER = """
import select, sys
import etq
from tests.sharing.captures import torn
times, wrong = 0, []
while not times or not select.select([sys.stdin], [], [], 1)[0]:
    with etq.open(sys.argv[1], read_only=True) as warehouse:
        wrong += torn(warehouse)
    times += 1
print(times, wrong)
"""


def started(code: str, *arguments: object) -> AbstractContextManager[subprocess.Popen[Any]]:
    return process(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "ETQ_WAIT": "300"},
    )  # fmt: skip


def test_many_writers_and_two_readers(tmp_path: Path) -> None:
    """Writers put different captures, and a common one, into a warehouse while readers query it."""
    writers, each, shared = 8 if IS_WHOLE else 3, 8 if IS_WHOLE else 1, 1
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    total = shared + writers * each
    captures.write(tmp_path, range(total))
    counts = Counter[tuple[str, str]]()
    with ExitStack() as processes:
        asking = [processes.enter_context(started(READER, path)) for _ in range(2)]
        writing = []
        for writer in range(writers):
            own = range(shared + writer * each, shared + (writer + 1) * each)
            writing.append(processes.enter_context(started(WRITER, path, tmp_path, *range(shared), *own)))
        for one in writing:
            printed = one.communicate()[0]
            assert one.returncode == 0
            counts.update((line.split()[0], line.split()[1]) for line in printed.splitlines())
        for one in asking:
            times, wrong = one.communicate("end\n")[0].split(" ", 1)
            assert one.returncode == 0 and int(times) > 0 and wrong == "[]\n"
    # Each capture was new to one writer, and known to all others that had it.
    assert {number for number, is_new in counts if is_new == "1"} == {str(number) for number in range(total)}
    assert all(times == 1 for (_, is_new), times in counts.items() if is_new == "1")
    assert sum(counts.values()) == writers * (shared + each)
    with etq.open(path, read_only=True) as warehouse:
        names = [name for (name,) in warehouse.rows("SELECT name FROM captures ORDER BY capture_id")[1]]
        assert sorted(names) == sorted(f"c{number}" for number in range(total))
        assert captures.torn(warehouse) == []


def test_the_second_process_waits(tmp_path: Path) -> None:
    """So does a merge for its sources."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(captures.content(1), name="c1")
    for read_only in (False, True):
        with held(path, read_only=not read_only, seconds=0.5):
            etq.open(path, read_only=read_only, wait=300).close()
    with held(path, seconds=0.5):
        assert merge([path], tmp_path / "all.duckdb").captures == 1


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of a command that fails because another process has locked the file."""
    command = [sys.executable, "-m", "etq", *arguments]
    settings = {**os.environ, "ETQ_WAIT": "2.3"}
    output = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT, check=False)
    assert output.returncode == 1 and output.stdout == ""
    return output


def test_commands_say_who_they_wait_for_and_end_in_time(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with held(path) as holder:
        output = run_command("captures", "--db", str(path))
        name = f"another process, {Path(sys.executable).name} -c"
        note, error = [line for line in output.stderr.splitlines() if line.startswith(("Note: ", "Error: "))]
        assert note.startswith(f"Note: {path}: held by {name}") and note.endswith("; waiting up to 2.3 s")
        assert error.startswith(f"Error: {path}: held by {name}")
        assert f" with PID {holder.pid}; waited 2.3 s for it: end it, or wait longer (etq --wait SECONDS" in error
        # The option of the command takes precedence.
        output = run_command("--wait", "0", "captures", "--db", str(path))
        assert "; waited 0 s for it" in output.stderr and "Note" not in output.stderr
        with pytest.raises(WarehouseError, match=f"PID {holder.pid}; waited 0.1 s"):
            etq.open(path, wait=0.1)


def test_invalid_times_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in ("soon", "-1", "inf", "nan"):
        monkeypatch.setenv("ETQ_WAIT", seconds)
        with pytest.raises(WarehouseError, match=f"'{seconds}' is not a number of seconds to wait"):
            etq.open(tmp_path / "lab.duckdb")


def test_opening_a_file_that_is_replaced_gets_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As compacting does: between finding the file and locking it, another one is put there."""
    path, fresh = tmp_path / "lab.duckdb", tmp_path / "fresh.duckdb"
    etq.open(path).close()
    with etq.open(fresh) as warehouse:
        warehouse.ingest(captures.content(1), name="c1")
    connect = duckdb.connect

    def connect_and_replace(*arguments: object, **options: object) -> duckdb.DuckDBPyConnection:
        connection = connect(*arguments, **options)  # type: ignore[arg-type]
        if fresh.exists():
            fresh.replace(path)
        return connection

    monkeypatch.setattr(duckdb, "connect", connect_and_replace)
    with etq.open(path) as warehouse:
        assert warehouse.rows("SELECT name FROM captures")[1] == [("c1",)]


def test_threads_share_a_warehouse(tmp_path: Path) -> None:
    """Each gets its own answers, while others ask and write."""
    models = ("mlp", "convnet", "cond", "bf16")
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        for model in models:
            warehouse.ingest(CAPTURES / model / f"{model}.etdp", name=model)

        def ask(model: str) -> list[object]:
            answers: list[object] = []
            for number in range(40):
                answers.append(warehouse.capture(model).name)
                answers += warehouse.rows("SELECT c.name FROM captures AS c WHERE c.name = $name", name=model)[1][0]
                if number % 10 == 0:
                    answers.append(warehouse.label(model, number=str(number))["number"] == str(number) and model)
            return answers

        with ThreadPoolExecutor(4) as pool:
            for model, answers in zip(models, pool.map(ask, models), strict=True):
                assert answers == [model] * 84


def test_a_file_that_is_open_opens_again_without_its_note(tmp_path: Path) -> None:
    """Another process may replace the note that the file is this version's own, as two files can have the same one."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with etq.open(path, read_only=True):
        assert contents.has_own(str(path))
        contents._note_of(str(path)).write_text("another file")
        with etq.open(path, read_only=True) as again:
            assert again.rows("SELECT count(*) FROM captures")[1] == [(0,)]


def test_a_commit_before_the_lock_stays(shim: Path, tmp_path: Path) -> None:
    """A commit between DuckDB's reading of a file's headers and its lock on the file."""
    path, held_back = tmp_path / "lab.duckdb", tmp_path / "held_back"
    etq.open(path).close()
    captures.write(tmp_path, range(2))
    command = [sys.executable, "-c", WRITER, str(path), str(tmp_path)]
    environment = os.environ | {"LD_PRELOAD": str(shim), "HELD_BACK": str(held_back)}
    with process([*command, "0"], cwd=ROOT, env=environment) as late:
        while not held_back.exists():
            assert late.poll() is None
            time.sleep(0.01)
        # The other process has read the headers, and has no lock.
        subprocess.run([*command, "1"], cwd=ROOT, check=True)
        held_back.unlink()
        assert late.wait() == 0
    with etq.open(path, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name FROM captures AS c ORDER BY c.capture_id")[1] == [("c1",), ("c0",)]
        assert captures.torn(warehouse) == []
