"""PyTorch traces on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.trace_builders import event, trace

TRACES = CAPTURES / "torch"


def test_a_folder_of_workers(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "deep"
    folder.mkdir(parents=True)
    shutil.copy(TRACES / "steps_7.pt.trace.json.gz", folder / "host_41.1790857026000000000.pt.trace.json.gz")
    shutil.copy(TRACES / "steps_12.pt.trace.json.gz", folder / "host_42.1790857026000000001.pt.trace.json.gz")
    (folder / "notes.txt").write_text("nothing")
    shutil.copy(CAPTURES / "mlp" / "mlp.etdp", tmp_path / "log")
    db = str(tmp_path / "lab.duckdb")
    result = run_etq("ingest", str(tmp_path / "log"), "--label", "model=toy", "--db", db)
    assert result.exit_code == 0
    assert sorted(result.stderr.splitlines()) == [
        *("Note: not read as profiling files: 1 other file (notes.txt)", "host_41.1790857026000000000: ingested"),
        *("host_42.1790857026000000001: ingested", "mlp: ingested"),
    ]
    with etq.open(db, read_only=True) as warehouse:
        labels = warehouse.rows("SELECT value FROM labels WHERE key = 'worker' ORDER BY value")[1]
        assert labels == [("host_41",), ("host_42",)]
        assert warehouse.key_averages("worker=host_42").filter("name = 'ProfilerStep*'").project(
            "calls"
        ).fetchall() == [(3,)]


def test_ops_without_python_functions() -> None:
    trace = str(CAPTURES / "torch_2_15" / "python_functions.pt.trace.json.gz")
    every, some = (
        {row["name"] for row in json.loads(run_etq("ops", trace, "--format", "json", *more).stdout)}
        for more in ((), ("--no-python-functions",))
    )
    assert some < every and "nn.Module: Linear_0" in every - some and {"aten::addmm", "forward"} <= some
    refused = run_etq("ops", str(CAPTURES / "mlp" / "mlp.etdp"), "--no-python-functions")
    assert refused.exit_code == 1 and "an ETDump has no Python functions" in refused.stderr


def test_ranks_of_a_job(tmp_path: Path) -> None:
    """The folder's ranks get the job as a label; missing and duplicate ranks of the job are listed."""
    folder, db = tmp_path / "ranks", str(tmp_path / "lab.duckdb")
    folder.mkdir()
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8}]

    def write(name: str, size: int = 8, **rank: int) -> None:
        info = {"world_size": size, "pg_config": groups, **rank}
        events = [event("cpu_op", "aten::mm", 0, 5 + len(name))]
        (folder / f"{name}.pt.trace.json").write_bytes(trace(*events, distributedInfo=info))

    for rank in (0, 1, 2, 5):
        write(f"host{'_' * rank}", rank=rank)
    result = run_etq("ingest", str(folder), "--job", "train", "--db", db)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[4:] == ["Note: job train: of 8 processes, ranks 3 to 4 and 6 to 7 are missing"]
    with etq.open(db, read_only=True) as warehouse:
        rows = warehouse.rows("SELECT value, count(*) FROM labels WHERE key IN ('job', 'process_groups') GROUP BY ALL")[
            1
        ]
        assert sorted(rows) == [("default_pg:8", 4), ("train", 4)]
    write("again", rank=5)
    write("unknown")
    pattern = str(folder / "*n*.json")
    result = run_etq("ingest", pattern, "--job", "train", "--db", db)
    assert result.stderr.splitlines()[2:] == [
        "Note: job train: rank 5 has several traces, again and host_____; remove one, or give them different jobs",
        "Note: job train: 1 trace has no rank; give it by --label-from 'rank{rank}.pt.trace.json.gz'",
        "Note: job train: of 8 processes, ranks 3 to 4 and 6 to 7 are missing",
    ]
    write("of_another_size", size=4, rank=3)
    other = ("ingest", str(folder / "of_another_size.pt.trace.json"), "--job", "train", "--db", db)
    assert run_etq(*other).stderr.splitlines()[-1] == "Note: job train: its traces are of jobs with 4 and 8 processes"
    assert run_etq(*other, "--quiet").stderr == ""
    differing = run_etq(*other, "--label", "job=x")
    assert (differing.exit_code, "--job train and --label job=x differ" in differing.stderr) == (2, True)
    assert run_etq(*other, "--label", "job=train").exit_code == 0


def test_a_folder_without_any(tmp_path: Path) -> None:
    result = run_etq("ingest", str(tmp_path), "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 1 and "a folder without profiling files" in result.stderr


def test_inspect_knows_traces() -> None:
    rows = json.loads(run_etq("inspect", str(TRACES / "steps_12.pt.trace.json.gz"), "--format", "json").stdout)
    steps = [row for row in rows if row["event_name"].startswith("ProfilerStep#")]
    # In the file: "dur": 165.247, in microseconds.
    assert steps[0]["event_name"] == "ProfilerStep#9" and steps[0]["p50"] == 0.165247


def test_commands_of_devices(tmp_path: Path) -> None:
    """The commands print the rows of their views, for a file and for a warehouse."""
    file, db = str(CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz"), str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", file, "--name", "gpu", "--label", "job=train", "--db", db).exit_code == 0
    with etq.open(db, read_only=True) as warehouse:
        for command, query in (
            (("idle", "gpu", "--by", "stream"), "device_idle_causes('gpu', \"by\" := 'stream')"),
            (("critical-path", "gpu", "--step", "6"), "critical_ops('gpu', step := 6)"),
            (("critical-path", "gpu", "--step-name", "aten::mm"), "critical_ops('gpu', step_name := 'aten::mm')"),
            (("show", "launch_totals", "gpu", "--unit", "ms"), "launch_totals('gpu', unit := 'ms')"),
            (("kernels", "gpu"), "kernel_table('gpu')"),
            (("kernels", "gpu", "--by", "annotation", "--unit", "ns"), "annotation_kernels('gpu', unit := 'ns')"),
            (("copies", "gpu", "--unit", "ms"), "copy_totals('gpu', unit := 'ms')"),
            (("copies", "gpu", "--each"), "copies('gpu')"),
            (
                ("show", "kernel_sequences", "gpu", "--min-length", "1", "--op", "aten::add"),
                "kernel_sequences('gpu', op := 'aten::add', min_length := 1)",
            ),
            (("overlap", "gpu", "--by", "step"), "device_breakdown('gpu', \"by\" := 'step')"),
            (("collectives", "gpu"), "collectives('gpu')"),
            (("stragglers", "job=train", "--by", "step"), "rank_steps('job=train')"),
            (("stragglers",), "stragglers()"),
            (("clocks", "job=train", "--unit", "ms"), "clock_offsets('job=train', unit := 'ms')"),
        ):
            printed = json.loads(run_etq(*command, "--db", db, "--format", "json").stdout)
            columns, rows = warehouse.rows(f"FROM {query}")
            assert rows and [tuple(row.values()) for row in printed] == rows and [*printed[0]] == columns, command
            if command[0] not in ("stragglers", "clocks"):
                of_file = run_etq(*(file if word == "gpu" else word for word in command), "--format", "json").stdout
                assert json.loads(of_file) == printed, command
    steps = run_etq("kernels", file, "--by", "annotation", "--skip-first", "1")
    assert (steps.exit_code, "goes without options that select steps" in steps.stderr) == (2, True)
    assert "invalid" in run_etq("gaps", file, "--by", "rank").stderr.lower()


def test_files_without_rows_have_a_note(tmp_path: Path) -> None:
    """A file that is not stored has only the view's tables; the note is the same as in a warehouse."""
    host, dump = str(TRACES / "mlp_train.pt.trace.json.gz"), str(CAPTURES / "mlp" / "mlp.etdp")
    device = str(CAPTURES / "torch_steps" / "before.pt.trace.json.gz")
    none = "no device events: it was recorded without a device"
    for command, file, note in (
        *((command, host, f"{host} has {none}") for command in ("idle", "overlap")),
        *((command, host, f"{host} has {none}") for command in ("copies", "show kernel_sequences")),
        ("copies", device, f"{device} has no copies and fills"),
        ("show kernel_sequences", device, f"{device} has no calls of ops that launched so many kernels, copies and fills"),
        ("collectives", device, f"{device} has no collectives, on devices or of gloo"),
        ("show kernel_counters", device, f"{device} has no counters of CUPTI: record them with profiler_metrics of experimental_config"),
        ("show peak_memory", device, f"{device} has no allocations: record them with profile_memory=True"),
        ("steps", dump, f"etq steps has no rows for {dump}, of format etdump; for that there is etq breakdown"),
        ("show decode_trend", device, f"etq show decode_trend has no rows for {device}, of format torch_trace; for that there is etq serving"),
        ("show launch_totals", dump, f"etq show launch_totals is for PyTorch traces, and {dump} is of format etdump"),
        ("advice", host, f"no rule of advice applies to {host}"),
        ("show slow_runs", host, f"no run of {host} took longer than typical runs"),
        ("values", host, f"{host} has no logged values"),
        ("memory", dump, f"{dump} has no allocations; for the memory that a program plans: etq program"),
    ):  # fmt: skip
        result = run_etq(*command.split(), file)
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, f"Note: {note}"), command
    result = run_etq("show", "backward_times", device, "--by", "op")
    assert result.stderr.endswith(f"Note: {device} has no backward pass\n")
    result = run_etq("delegates", dump, "--runs", "all")
    assert result.stderr == f"Note: {dump} called no delegate; for its kernels: etq ops\n"
    result = run_etq("tax", dump, "--skip-first", "99")
    assert result.stderr == f"Note: no run of {dump} is left: skip_first=99 leaves out all 6\n"
    db = str(tmp_path / "lab.duckdb")
    run_etq("ingest", host, "--name", "host", "--db", db)
    assert run_etq("kernels", "host", "--db", db).stderr == f"Note: host has {none}\n"
    # Stragglers need several captures with ranks: a file, and captures without a rank, have none.
    result = run_etq("stragglers", host, "--db", db)
    assert result.exit_code == 1 and f"{host} is a file; ingest the traces of all ranks" in result.stderr
    assert "no trace of host has a label rank" in run_etq("stragglers", "host", "--db", db).stderr


def test_ranks_without_collectives_have_a_note(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    for rank in (0, 1):
        path = tmp_path / f"rank{rank}.json"
        path.write_bytes(trace(event("cpu_op", "aten::add", 0, 5 + rank)))
        run_etq("ingest", str(path), "--label", f"rank={rank}", "--label", "job=a", "--db", db)
    waits = "Note: job a: no rank ran a collective (NCCL, RCCL, gloo), so that nothing is known of what ranks 0, 1 waited for"
    for options in ((), ("--by", "step")):
        result = run_etq("stragglers", "job=a", *options, "--db", db)
        assert result.stderr == f"{waits}\n" and len(result.stdout.splitlines()) == 4
    result = run_etq("clocks", "job=a", "--format", "json", "--db", db)
    assert [row["clock_offset"] for row in json.loads(result.stdout)] == [None, None]
    assert result.stderr.startswith(
        "Note: job a: the clock of ranks 0, 1 isn't known: no collective that ends for several"
    )


def test_stragglers_note_clocks_that_differ(tmp_path: Path) -> None:
    """Two ranks with a collective in each of two steps, the second one's clock 5 ms ahead; alone, a rank has no note."""
    db = str(tmp_path / "lab.duckdb")
    for rank in (0, 1):
        made = Machine(rank, 2, now=1000 + 5000 * rank)
        for step in (0, 1):
            with made.frame(f"ProfilerStep#{step}", "user_annotation"):
                made.launch(ALL_REDUCE, 100, 24, **message("allreduce", "0", "Float", 10, 10, 2))
                made.synchronize()
        path = tmp_path / f"rank{rank}.pt.trace.json"
        path.write_bytes(made.trace())
        assert run_etq("ingest", str(path), "--label", "job=a", "--db", db).exit_code == 0
        notes = run_etq("stragglers", "job=a", "--db", db).stderr
        if rank == 0:
            assert notes == ""
    assert notes == (
        "Note: job a: clocks of ranks differ by up to 5000 us, see etq clocks; steps are matched by number\n"
    )


def test_traces_of_several_jobs_are_not_one_job(tmp_path: Path) -> None:
    """Two traces of rank 0 without a label job can't be of one job."""
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        for number, rank in enumerate((0, 0, 1)):
            path = tmp_path / f"t{number}.pt.trace.json"
            path.write_bytes(trace(event("cpu_op", "aten::add", 0, 5 + number)))
            warehouse.ingest(path, labels={"rank": str(rank)})
    for command in ("stragglers", "clocks"):
        result = run_etq(command, "--db", db)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "several traces without a label job are of rank 0: t0, t1; choose those" in result.stderr
    run_etq("label", "t0", "job=other", "--db", db)
    assert run_etq("stragglers", "--db", db).exit_code == 0
