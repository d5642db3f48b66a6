"""Each command that prints a view, of a warehouse and of a file; what people see of it; times per execute and step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, memory, trace, two_steps
from tests.warehouses import copy_of

MLP = str(CAPTURES / "mlp/mlp.etdp")
XNN, XNN_RECORD, XNN_PROGRAM = (str(CAPTURES / f"mlp_xnn/mlp_xnn.{end}") for end in ("etdp", "etrecord", "pte"))
NET, NET_RECORD = (str(CAPTURES / f"convnet/convnet.{end}") for end in ("etdp", "etrecord"))
NET_OF_TWO = str(CAPTURES / "multimethod/multimethod.pte")
GPU = str(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz")
CPU = str(CAPTURES / "torch/mlp_train.pt.trace.json.gz")
BLOB = str(CAPTURES / "prof_result/iterations.prof_result.bin")
PEAKS = ("--peak-flops", "20G", "--peak-bandwidth", "15GB/s")


@pytest.fixture(scope="module")
def asked(lab: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, str]]:
    """The shared warehouse, with a delegated program and a trace of a GPU too; not to be written to."""
    path = tmp_path_factory.mktemp("commands") / "lab.duckdb"
    copy_of(lab, path)
    with etq.open(path) as warehouse:
        warehouse.ingest(XNN, name="xnn", etrecord=XNN_RECORD, pte=XNN_PROGRAM)
        warehouse.ingest(GPU, name="gpu", labels={"job": "train"})
    with etq.open(path, read_only=True) as warehouse:
        yield warehouse, str(path)


PATHS = {"gpu": GPU, "run": MLP, "trace": CPU}
# A command, and the query whose rows are its own. Those in FROM_FILES are the same of the file.
SAME = [
    ("captures", "FROM capture_summary"),
    ("show framework_tax run", "FROM framework_tax('run')"),
    ("ops --by module xnn --columns module,total", "SELECT CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module, total FROM module_totals('xnn')"),
    ("ops --by source xnn", "FROM source_totals('xnn')"),
    ("delegates xnn", "FROM delegate_totals('xnn')"),
    ("steps gpu --wide", "FROM wide_steps('gpu')"),
    ("idle gpu --by stream", "FROM device_idle_causes('gpu', \"by\" := 'stream')"),
    ("idle --each gpu --columns start,cause", "SELECT start, cause FROM device_idle('gpu')"),
    ("critical-path gpu --step 6", "FROM critical_ops('gpu', step := 6)"),
    ("critical-path gpu --step-name aten::mm", "FROM critical_ops('gpu', step_name := 'aten::mm')"),
    ("kernels gpu --by annotation --unit ns", "FROM annotation_kernels('gpu', unit := 'ns')"),
    ("show copy_totals gpu --unit ms", "FROM copy_totals('gpu', unit := 'ms')"),
    ("show device_breakdown gpu --by step", "FROM device_breakdown('gpu', \"by\" := 'step')"),
    ("show collectives gpu", "FROM collectives('gpu')"),
    ("show stragglers job=train", "FROM stragglers('job=train')"),
    ("show collective_waits job=train --link-bandwidth 450GB/s --columns ranks,total", "SELECT group_size AS ranks, total FROM collective_waits('job=train')"),
    ("show clock_offsets job=train --unit ms", "FROM clock_offsets('job=train', unit := 'ms')"),
    ("memory trace", "FROM peak_memory('trace')"),
    ("show compare_graphs xnn xnn --columns op,change", "SELECT coalesce(new_op, base_op) AS op, change FROM compare_graphs('xnn', 'xnn')"),
    # Of views that have no command, or have one that shows less of it: their parameters are arguments and options.
    ("show op_totals run --by instance --unit ms", "FROM op_totals('run', \"by\" := 'instance', unit := 'ms')"),
    ("show percentiles run --quantiles [0.25,0.75]", "FROM percentiles('run', quantiles := [0.25, 0.75])"),
    ("show key_averages trace --include-python-functions false", "FROM key_averages('trace', include_python_functions := false)"),
    ("show kernel_sequences gpu --min-length 1 --op aten::add", "FROM kernel_sequences('gpu', op := 'aten::add', min_length := 1)"),
]  # fmt: skip
FROM_FILES = ("show framework_tax", "idle", "critical-path", "kernels", "show copies", "memory", "show op_totals")


@pytest.mark.long
@pytest.mark.parametrize(("command", "query"), SAME)
def test_rows_are_those_of_the_view(asked: tuple[Warehouse, str], command: str, query: str) -> None:
    warehouse, db = asked
    columns, expected = warehouse.rows(query)
    if command != "captures":
        found = rows(*command.split(), "--db", db)
        assert expected and [tuple(row.values()) for row in found] == expected and [*found[0]] == columns
    else:
        found = rows("captures", "--db", db)
        assert [row["name"] for row in found] == [row[columns.index("name")] for row in expected]
    if command.startswith(FROM_FILES):
        assert rows(*(PATHS.get(word, word) for word in command.split())) == found


def printed(*arguments: str) -> list[list[str]]:
    """The words of each line that people see."""
    result = run_etq(*arguments)
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def columns_of(*arguments: str) -> set[str]:
    """The columns that people see."""
    return {*run_etq(*arguments, "--format", "markdown").stdout.split("\n")[0].strip("| ").split(" | ")}


@pytest.mark.long
def test_people_see_times_of_an_execute_in_a_unit_that_suits(tmp_path: Path) -> None:
    """Two executes, of 20 and 40 ms, all of it in a kernel; sums are shown if asked for."""
    path = tmp_path / "two.etdp"
    path.write_bytes(
        dump(*(run("Execute", kernel("add", 0, end), execute(0, end)) for end in (20_000_000, 40_000_000)))
    )
    two = str(path)
    lines = printed("ops", two)
    assert " ".join(lines[0]) == "In all rows: calls = 2, unit = ms; no value: instruction_id; share % of the executes"
    assert lines[1] == ["op", "kind", "per_execute", "per_call", "share", "%", "min", "max"]
    assert lines[3] == ["add", "kernel", "30", "30", "100", "20", "40"]
    [add] = [line for line in printed("ops", two, "--unit", "us") if line[0] == "add"]
    assert add[2] == "30000"
    [first, *_] = csv_rows(run_etq("ops", two, "--format", "csv").stdout)
    assert (first["total"], first["per_execute"], first["unit"]) == ("60000.0", "30000.0", "us")
    assert (
        " ".join(printed("ops", two, "--total")[0])
        == "In all rows: calls = 2, executes = 2, unit = ms; no value: instruction_id; share % of the executes"
    )
    assert printed("ops", two, "--total")[1][-1] == printed("ops", two, "--sort-by", "total")[1][-1] == "total"


@pytest.mark.long
def test_traces_have_times_of_a_step_if_they_have_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps.pt.trace.json"
    path.write_bytes(trace(*two_steps()))
    for command, of_step, sums in (
        ("ops", "self_cpu_per_step", {"self_cpu_time", "steps"}),
        ("show copy_totals", "per_step", {"total", "steps"}),
    ):
        shown = columns_of(*command.split(), str(path))
        assert of_step in shown and not sums & shown, command
        assert {of_step} | sums <= columns_of(*command.split(), str(path), "--total")
    path.write_bytes(trace(*(each for each in two_steps() if not each["name"].startswith("ProfilerStep"))))
    for command in ("ops", "kernels", "show copy_totals"):
        shown = columns_of(*command.split(), str(path))
        assert not {"per_step", "self_cpu_per_step", "bytes_per_step", "steps"} & shown
        assert {"total", "self_cpu_time"} & shown


def test_ops_and_steps_of_a_trace() -> None:
    path = str(CAPTURES / "torch_2_15/python_functions.pt.trace.json.gz")
    every, some = ({row["name"] for row in rows("ops", path, *more)} for more in ((), ("--no-python-functions",)))
    assert some < every and "nn.Module: Linear_0" in every - some and {"aten::addmm", "forward"} <= some
    # By the time on devices, if the trace has any.
    found = rows("ops", GPU, "--by", "module")
    expected = sorted(found, key=lambda row: (-row["self_device_per_step"], -row["self_cpu_time"], row["name"]))
    assert found == expected and found[0]["name"].startswith("ampere_sgemm")
    steps = rows("inspect", str(CAPTURES / "torch/steps_12.pt.trace.json.gz"))
    [first, *_] = [row for row in steps if row["event_name"].startswith("ProfilerStep#")]
    # In the file: "dur": 165.247, in microseconds.
    assert (first["event_name"], first["p50"]) == ("ProfilerStep#9", 0.165247)


# Costs: flops, roofline


@pytest.mark.long
def test_flops_of_a_record_before_any_run(lab: str) -> None:
    """By eye: 2 * 8*32*32 * 3*3*3 + 2 * 16*16*16 * 8*3*3 + 2 * 32*8*8 * 16*3*3 are the convolutions'."""
    costs = rows("show", "op_costs", NET_RECORD)
    [first, *_] = found = [row for row in costs if row["stage"] == "edge_dialect_exported_program"]
    assert (first["op_type"], first["nodes"], first["flops"]) == ("aten.convolution.default", 3, 1_622_016)
    assert {row["reason"] for row in found} == {None} and sum(row["flops"] for row in found) == 1_709_216
    assert rows("show", "op_costs", "convnet", "--db", lab) == costs


@pytest.mark.long
def test_roofline_of_a_file_and_of_a_warehouse(copied: str) -> None:
    of_file = rows("roofline", NET, "--etrecord", NET_RECORD, *PEAKS)
    # A metric is a peak, too; numbers may be written in other ways.
    given = ("--metric", "peak_flops=20e9", "--metric", "peak_bandwidth=15:GB/s")
    assert run_etq("label", "net", *given, "--db", copied).exit_code == 0
    assert rows("roofline", "net", "--db", copied) == of_file
    for flops, bandwidth in (("0.02T", "1.5e4 MB/s"), ("20 GFLOP/s", "15e9"), ("20000MFLOPS", "15000 MB/s")):
        peaks = ("--peak-flops", flops, "--peak-bandwidth", bandwidth)
        assert rows("roofline", NET, "--etrecord", NET_RECORD, *peaks) == of_file
    [first] = [row for row in of_file if row["instruction_id"] == 4]
    # 589,824 operations: at 20 G a second 29.4912 us; 29,248 bytes would take less.
    assert (first["flops"], first["bound"]) == (589_824, "compute")
    assert first["roof_percent"] == pytest.approx(100 * 29.4912 / first["per_call"])


# Memory, programs, delegates, old profiles


def test_a_leak_on_a_device(tmp_path: Path) -> None:
    """Each of 4 steps holds 1 MiB more and is a quarter of the time line; the last one is the highest."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        middle = 1000 + 100 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", middle - 50, middle + 50),
            event("cpu_op", "aten::mse_loss", middle, middle + 10),
        ]
        grown = memory(middle, 2**20, (step + 1) * 2**20, type=1, device=0)
        grown["args"]["Addr"] = step
        events.append(grown)
    last = memory(1400, 8, 4 * 2**20 + 8, type=1, device=0)
    last["args"]["Addr"] = 99
    path = tmp_path / "leak.pt.trace.json"
    path.write_bytes(trace(*events, last))
    lines = run_etq("memory", str(path)).stdout.splitlines()
    assert lines[0] == "GPU0: at most 4 MiB in use, first at 450 us"
    bars = lines[1]
    assert len(bars) == 72 and len({*bars[:18]}) == len({*bars[18:36]}) == len({*bars[36:54]}) == 1
    assert len({bars[0], bars[18], bars[36], bars[54]}) == 4
    assert lines[3:5] == ["Held at the peak:", "In all rows: device = GPU0, allocations = 1"]
    assert lines[7].split()[0] == "aten::mse_loss"
    assert "Grows with every step:" in lines
    assert lines[-1].split() == ["aten::mse_loss", "GPU0", "1048576", "1048576", "4194304", "4", "3", "4"]
    without = run_etq("memory", CPU, "--limit", "1", "--sort-by", "op").stdout
    assert "Held at the peak:" in without and "Grows" not in without
    assert without.splitlines()[-1].split()[0] == "aten::empty"


def test_a_program() -> None:
    parts = rows("show", "program_size", NET_OF_TWO)
    assert [row["part"] for row in parts] == ["program", "constants", "padding"]
    assert sum(row["bytes"] for row in parts) == 9760
    planned = rows("show", "planned_memory", NET_OF_TWO)
    assert {row["method"]: row["planned_bytes"] for row in planned} == {"decode": 2432, "encode": 2432}


def test_the_ops_of_a_delegate() -> None:
    found = rows("show", "delegate_graph", XNN, "--etrecord", XNN_RECORD, "--pte", XNN_PROGRAM)
    assert [row["op"] for row in found] == ["FullyConnected", "FullyConnected", "Add"] * 3 + ["FullyConnected"]
    names = [row["node_name"] for row in found[:3]]
    assert names == ["aten_linear_default", "aten_linear_default_1", "aten_add_tensor"]


@pytest.mark.long
def test_a_program_that_did_not_run_and_times_below_the_clocks_resolution() -> None:
    """XNNPACK's clock counts microseconds: of 11 ops, 6 take less on average (their sum is below 1000 ns a call)."""
    folder = CAPTURES / "convnet_xnn"
    dumped, net = str(folder / "convnet_xnn_100runs.etdp"), str(folder / "convnet_xnn.etrecord")
    foreign = f"Note: no event of {dumped} matches the graphs of this program's delegates: is it the program that ran?"
    own = str(folder / "convnet_xnn.pte")
    for program, is_noted in ((XNN_PROGRAM, True), (own, False)):
        result = run_etq("show", "delegate_graph", dumped, "--etrecord", net, "--pte", program, "--format", "json")
        assert {row["calls"] is not None for row in json.loads(result.stdout)} == {not is_noted}
        assert (foreign in result.stderr) == is_noted
    below = "Note: the clock of the delegates has steps of"
    assert f"{below} 1 us: " in run_etq("show", "delegate_graph", dumped, "--etrecord", net, "--pte", own).stderr
    # What the delegates' events don't explain is unaccounted time elsewhere, for the same reason.
    for command, unit, step in (("delegates", "us", "1 us"), ("show execute_breakdown", "ns", "1000 ns")):
        assert f"{below} {step}: " in run_etq(*command.split(), dumped, "--unit", unit).stderr
    assert "the clock of" not in run_etq("show", "execute_breakdown", NET).stderr


@pytest.mark.long
def test_an_old_profile(tmp_path: Path) -> None:
    first = rows("inspect", BLOB)[0]
    assert (first["event_block_name"], first["max"], first["unit"]) == ("run_model_loop", 2.340869, "ms")
    planned = run_etq("memory", BLOB, "--format", "csv").stdout
    assert planned.splitlines()[1:] == ["planned_memory,5,5,5120,1024,1024", "method_allocator,5,10,480,64,96"]
    differing = run_etq("inspect", str(CAPTURES / "prof_result/bad_lengths.prof_result.bin"))
    assert differing.stderr == (
        "Note: iterations of other lengths: block 'b', iteration 1: 3 entries, 5 in the iteration before; "
        "entry 3 is in one of them only\n"
    )
    db = str(tmp_path / "lab.duckdb")
    run_etq("ingest", BLOB, "--clock-bits", "32", "--time-scale", "cycles", "--db", db)
    with etq.open(db, read_only=True) as warehouse:
        kept = warehouse.rows("SELECT c.name, c.format, c.clock_bits, c.time_scale FROM captures AS c")[1]
    assert kept == [("iterations", "prof_result", 32, "cycles")]
