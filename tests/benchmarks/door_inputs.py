"""Inputs of several sizes for commands, and the cost of a command on one, in a separate process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Final

import duckdb

import etq
from tests.benchmarks import make_dump, make_fleet, make_gpu_trace
from tests.benchmarks.door_calls import Call

MODEL: Final = Path(__file__).parents[1] / "captures/transformer"
_LAYER: Final = (
    "native_layer_norm permute_copy addmm split_with_sizes_copy permute_copy permute_copy permute_copy permute_copy"
    " expand_copy expand_copy bmm mul _softmax expand_copy expand_copy bmm permute_copy _clone_dim_order permute_copy"
    " addmm add native_layer_norm permute_copy addmm gelu permute_copy addmm add"
)
# The operators of MODEL, so that its record fits the dumps: all commands that need a record have one.
OPERATORS: Final = (*_LAYER.split() * 2, "native_layer_norm")
KINDS: Final = ("dump", "trace", "fleet")
# What a library loads when it is first used: done once, before processes are forked.
PRELOADED: Final = ("duckdb", "pyarrow.compute", "etq.storage.capture", "etq.report.single", "etq.warehouse.ephemeral")
# Runs a command, and writes its status, CPU seconds and peak memory in kB to a pipe.
LAUNCHER: Final = """
import os, sys
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(process, 0)
os.write(int(sys.argv[1]), f"[{status}, {usage.ru_utime + usage.ru_stime}, {usage.ru_maxrss}]".encode())
"""


@dataclass(frozen=True)
class Cost:
    """What a process took: CPU seconds and seconds from start to end, megabytes at its peak; and why it failed."""

    cpu: float
    wall: float
    peak_mb: float
    failure: str | None = None


@dataclass(frozen=True)
class Input:
    """Files and a warehouse that holds them: of so many events, or captures."""

    kind: str
    size: int
    folder: Path
    names: dict[str, str]  # what fills the arguments of a call: names of captures in the warehouse
    files: dict[str, str] = field(default_factory=dict)  # the same, as files
    ingest: list[str] = field(default_factory=list)  # the command that ingests the first file into `ingested`

    @property
    def warehouse(self) -> str:
        return str(self.folder / "lab.duckdb")

    @property
    def ingested(self) -> Path:
        """A warehouse into which `ingest` stores."""
        return self.folder / "ingested.duckdb"

    def opened(self) -> etq.Warehouse:
        """The warehouse, opened in this process; by one thread its CPU times differ less."""
        warehouse = etq.open(self.warehouse, read_only=True)
        warehouse.connection.execute("SET threads = 1")
        return warehouse

    def command_line(self, call: Call, *, of_file: bool, with_record: bool = False) -> list[str]:
        names = self.files if of_file else self.names
        arguments = [each.format_map(names) for each in call.arguments]
        record = ["--etrecord", str(MODEL / "transformer.etrecord")] if with_record else []
        return arguments + record + (["--db", self.warehouse] if call.takes_db and not of_file else [])


def asked(warehouse: etq.Warehouse, query: str) -> Cost:
    """The cost of a query in this process, without its peak of memory."""
    cpu, wall, failure = time.process_time(), time.perf_counter(), None
    try:
        warehouse.connection_for(query).sql(query).to_arrow_table()
    except duckdb.Error as error:
        failure = f"Error: {error}"
    return Cost(time.process_time() - cpu, time.perf_counter() - wall, 0, failure)


@dataclass
class Runner:
    """Runs command lines of etq, one at a time.

    Attributes:
        forks: whether a process begins with all modules imported, and keeps to one processor: growth, which is without
            the start, is measured with less noise so
        limit: seconds after which a process is ended
    """

    forks: bool
    limit: float

    def __post_init__(self) -> None:
        if self.forks:
            from etq.cli.commands import COMMANDS

            modules = {f"etq.cli.{command if isinstance(command, str) else 'views'}" for command in COMMANDS.values()}
            for name in (*sorted(modules), *PRELOADED):
                import_module(name)

    def run(self, arguments: Sequence[str], folder: Path) -> Cost:
        """The cost of `etq ARGUMENTS` in that folder; its output is not kept."""
        with tempfile.TemporaryFile() as errors, open(os.devnull, "wb") as nowhere:
            begin = time.perf_counter()
            process_id, result = (self._fork if self.forks else self._launch)(
                arguments, folder, nowhere.fileno(), errors.fileno()
            )
            ended = threading.Event()
            timer = threading.Timer(self.limit, lambda: None if ended.is_set() else os.killpg(process_id, 9))
            timer.start()
            _, status, usage = os.wait4(process_id, 0)
            wall = time.perf_counter() - begin
            ended.set()
            timer.cancel()
            timer.join()
            cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
            if result is not None:
                with os.fdopen(result) as pipe:
                    status, cpu, peak = json.loads(pipe.read() or f"[{status}, {cpu}, {peak}]")
            errors.seek(0)
            failure = self._failure(os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace"))
        return Cost(cpu, wall, peak / 1024, failure)

    def _failure(self, status: int, text: str) -> str | None:
        """Why a process failed. A status of 1 without an error is an answer, such as that of a gate."""
        if status == -9:
            return f"ended after {self.limit:g} s"
        lines = [line for line in text.splitlines() if line.startswith(("Error:", "Traceback"))]
        if status == 0 or not (lines or status not in (1, 2)):
            return None
        return text.splitlines()[-1] if lines[:1] == ["Traceback"] or not lines else lines[-1]

    def _launch(self, arguments: Sequence[str], folder: Path, output: int, errors: int) -> tuple[int, int]:
        """Start a process by a small one, as a process's peak of memory counts that of the one that it was forked from."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ETQ_")}
        path = os.pathsep.join(filter(None, (str(Path.cwd()), environment.get("PYTHONPATH"))))
        result, written = os.pipe()
        command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(written), sys.executable, "-m", "etq", *arguments]
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=errors, env=environment | {"PYTHONPATH": path},
            pass_fds=(written,), start_new_session=True,
        )  # fmt: skip
        os.close(written)
        process.returncode = 0  # It is waited for elsewhere.
        return process.pid, result

    def _fork(self, arguments: Sequence[str], folder: Path, output: int, errors: int) -> tuple[int, None]:
        sys.stdout.flush()
        sys.stderr.flush()
        process_id = os.fork()
        if process_id == 0:
            try:
                os.setsid()
                gc.freeze()  # Memory that is only read is shared.
                os.chdir(folder)
                os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
                os.dup2(output, 1)
                os.dup2(errors, 2)
                sys.argv = ["etq", *arguments]
                from etq.cli import run

                run()
            finally:
                os._exit(70)
        return process_id, None


def make_dump_file(path: Path, size: int, seed: int) -> int:
    return make_dump.write(path, size, seed, OPERATORS)


def make(kind: str, size: int, folder: Path, runner: Runner) -> Input:
    """Make the files and the warehouse of a kind and about that size, in a new folder."""
    folder.mkdir()
    if kind == "fleet":
        make_fleet.make(folder / "lab.duckdb", size)
        base, new = (f"device={device}" for device in make_fleet.DEVICES[:2])
        return Input(kind, size, folder, {"capture": base, "base": base, "new": new, "etdump": base, "trace": base})
    own, other = ("etdp", "json") if kind == "dump" else ("json", "etdp")
    makers: dict[str, Callable[[Path, int, int], int]] = {"etdp": make_dump_file, "json": make_gpu_trace.make_gpu_trace}
    size, _ = (makers[own](folder / f"{name}.{own}", size, seed) for seed, name in enumerate(("base", "new"), 1))
    makers[other](folder / f"other.{other}", 100, 1)
    dump, trace = ("base", "other") if kind == "dump" else ("other", "base")
    names = {"capture": "base", "base": "base", "new": "new", "etdump": dump, "trace": trace}
    endings = {"base": own, "new": own, "other": other}
    files = {each: str(folder / f"{name}.{endings[name]}") for each, name in names.items()}
    linked = ["--etrecord", str(MODEL / "transformer.etrecord"), "--pte", str(MODEL / "transformer.pte")]
    labelled = ["--label", "device=pixel8", "--db"]
    of_own, of_other = (linked, []) if own == "etdp" else ([], linked)
    made = Input(kind, size, folder, names, files)
    made = replace(made, ingest=["ingest", files["base"], *of_own, *labelled, str(made.ingested)])
    calls = [["ingest", files[each], *of_own, *labelled, made.warehouse] for each in ("base", "new")]
    calls.append(["ingest", str(folder / f"other.{other}"), *of_other, *labelled, made.warehouse])
    if own == "etdp":
        phase = ["--phase", "decode", "--runs", "0-", "--db", made.warehouse]
        calls += [["label", each, *phase] for each in ("base", "new")]
    for call in calls:
        if failure := runner.run(call, folder).failure:
            raise SystemExit(f"{folder}: {failure}")
    return made
