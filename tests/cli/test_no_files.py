"""Pipes, sockets and devices in place of files: a command ends with one line, and waits for nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import etq
from etq.errors import EtqError
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.warehouses import copy_of

MLP = str(CAPTURES / "mlp/mlp.etdp")
# Seconds after which a command is considered waiting.
WAITS = 120
# {no} is what isn't a regular file; {run} is a capture's file.
COMMANDS = """
inspect {no}
inspect {run} --etrecord {no}
ops {no}
values {run} --debug-buffer {no}
report {no}
compare {no} {run}
export {no} --to chrome
ingest {no} --db {db}
ingest {run} --pte {no} --db {db}
ingest {run} --debug-buffer {no} --db {db}
ingest {run} --metrics {no} --db {db}
link run {no} --db {db}
label run --metrics {no} --db {db}
captures --db {no}
ingest {run} --db {no}
sql "FROM captures" --db {no}
sql --safe "FROM captures" --db {no}
db merge {db} -o {no}
serve --db {no}
""".strip().splitlines()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("no-files")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        (folder / "device").symlink_to("/dev/zero")
        with etq.open(folder / "lab.duckdb") as warehouse:
            warehouse.ingest(MLP, name="run")
        yield {each.name: each for each in folder.iterdir()}


@contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    def end(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("commands", [COMMANDS[:4], pytest.param(COMMANDS[4:], marks=pytest.mark.long)])
def test_it_ends_with_an_error(places: dict[str, Path], tmp_path: Path, commands: list[str]) -> None:
    """A pipe, a socket or a device, in turns; a pipe always, as opening one may wait."""
    db = copy_of(places["lab.duckdb"], tmp_path / "lab.duckdb")
    for at, command in enumerate(commands):
        for kind in ("pipe", ("socket", "device")[at % 2]):
            arguments = [each.format(no=places[kind], run=MLP, db=db) for each in shlex.split(command)]
            with ended_after(WAITS):
                done = run_etq(*arguments)
            assert done.exit_code == 1 and isinstance(done.exception, SystemExit), (command, done.output)
            errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
            assert len(errors) == 1 and str(places[kind]) in errors[0], done.stderr


@pytest.mark.parametrize(("kind", "ending"), [("pipe", "json"), ("socket", "toml"), ("device", "json")])
def test_a_sidecar_that_is_no_file_is_refused(places: dict[str, Path], tmp_path: Path, ending: str, kind: str) -> None:
    """Without it, the capture would lack its labels."""
    run = shutil.copy(MLP, tmp_path / "run.etdp")
    (tmp_path / f"run.etdp.{ending}").symlink_to(places[kind])
    with ended_after(WAITS), etq.open() as warehouse:
        with pytest.raises(EtqError, match=rf"^{run}\.{ending}: .*; sidecar=False leaves sidecars out$"):
            warehouse.ingest(run)
        assert warehouse.ingest(run, sidecar=False).is_new


def test_statements_come_through_a_pipe(places: dict[str, Path], tmp_path: Path) -> None:
    """As from a shell's <(command)."""
    reader, writer = os.pipe()
    os.write(writer, b"SELECT count(*) AS n FROM captures")
    os.close(writer)
    done = run_etq("sql", "-f", f"/dev/fd/{reader}", "--db", str(places["lab.duckdb"]), "--format", "csv")
    os.close(reader)
    assert done.output == "n\n1\n"


def test_a_pipe_that_nobody_reads_is_not_waited_for(places: dict[str, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "page.html"
    os.mkfifo(pipe)
    for arguments in (["report", "run", "--force"], ["export", "run", "--to", "chrome", "--force"]):
        with ended_after(WAITS):
            done = run_etq(*arguments, "-o", str(pipe), "--db", str(places["lab.duckdb"]))
        assert done.exit_code == 1 and f"{pipe}: can't be written: no such device or address" in done.stderr
