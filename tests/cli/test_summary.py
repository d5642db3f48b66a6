"""`etq FILE...` without a command."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import numpy as np
import pytest

import etq
from etq import cli
from tests.builders import dump, execute, framework, kernel, run
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.trace_builders import event, memory, trace

RUN = str(CAPTURES / "transformer/transformer_100runs.etdp")
MLP, RECORD = (str(CAPTURES / f"mlp/{name}") for name in ("mlp_alloc.etdp", "mlp.etrecord"))
TRACE = str(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz")
CPU_TRACE = str(CAPTURES / "torch/steps_12.pt.trace.json.gz")


def bars(text: str) -> list[tuple[str, str, str]]:
    """Names, times and shares of the lines with bars."""
    return re.findall(r"^  (\S.*\S) +([\d.]+ [mun]?s) +([\d.]+) %  [█▏▎▍▌▋▊▉]+$", text, re.MULTILINE)


def test_numbers_are_those_of_the_views() -> None:
    text = run_etq(RUN).stdout
    lines = text.splitlines()
    assert len(lines) <= 30 and [line for line in lines if len(line) > 120 and "/" not in line] == [], "one screen"
    [shown] = [row for row in rows("show", "headline", RUN) if row["number"] == "execute"]
    value, low, high = (f"{shown[name]:.1f} us" for name in ("value", "low", "high"))
    assert re.search(rf"execute +{value} +median of {shown['runs']} typical runs; p10 {low[:-3]}, p90 {high}\n", text)
    ops = [(row["op"], f"{row['per_execute']:.2f} us", f"{row['share_percent']:.1f}") for row in rows("ops", RUN)[:5]]
    assert bars(text) == ops
    for row in rows("advice", RUN, "--limit", "2"):
        assert f"{row['severity']} {row['rule']}: {row['finding']}" in re.sub(r"\s+", " ", text)


@pytest.mark.long
def test_each_total_is_the_statistic_that_its_line_names() -> None:
    """Of the durations of Method::execute by numpy: typical runs' median and mean, all runs' 25th percentile."""
    base, new = (str(CAPTURES / f"fleet/mlp/{name}.etdp") for name in ("01", "02"))
    with etq.open() as warehouse:
        warehouse.ingest(base, name="base")
        found = warehouse.rows(
            "SELECT e.duration_ticks, r.is_typical FROM events AS e JOIN runs AS r USING (capture_id, run_index) "
            "WHERE e.name = 'Method::execute'"
        )[1]
    times = np.array([time for time, _ in found]) / 1000
    typical = times[[is_typical for _, is_typical in found]]
    text = run_etq(base).stdout
    assert f"{np.median(typical):.1f} us  median of {len(typical)} typical runs;" in text
    assert re.search(rf"  mean +{typical.mean():.1f} us  of these runs", text)
    assert sum(row["per_execute"] for row in rows("ops", base)) == pytest.approx(typical.mean())
    assert re.search(rf"mean per execute us.*\ntotal +{typical.mean():.1f} ", run_etq("flame", base).stdout)
    p25 = f"p25 {np.quantile(times, 0.25):.1f} to "
    assert p25 in run_etq(base, new).stdout and p25 in run_etq("gate", base, new).stdout


def test_times_are_by_module_if_a_record_has_them() -> None:
    """Each module has its self time, so that none is counted twice. A record that is half-written has no modules."""
    file, net = (str(CAPTURES / f"convnet/convnet.{end}") for end in ("etdp", "etrecord"))
    modules = rows("ops", "--by", "module", file, "--etrecord", net)
    whole = sum(row["self_time"] for row in modules)
    most = sorted(modules, key=lambda row: -row["self_per_execute"])[:5]
    text = run_etq(file, net).stdout
    assert "\nMean self time in an execute by module, and % of it\n" in text and bars(text) == [
        (row["module_path"], f"{row['self_per_execute']:.1f} us", f"{100 * row['self_time'] / whole:.1f}")
        for row in most
    ]


def test_times_of_several_methods_name_them(tmp_path: Path) -> None:
    """By hand: encode takes 30 of its 50 in add, and decode 40 of its 50 in mul, in each execute."""
    path = tmp_path / "two.etdp"
    runs = [run("decode", kernel("add", 0, 10_000), kernel("mul", 10_000, 50_000), execute(0, 50_000))] * 3
    runs += [run("encode", kernel("add", 0, 30_000), kernel("mul", 30_000, 50_000), execute(0, 50_000))] * 2
    path.write_bytes(dump(*runs))
    assert bars(run_etq(str(path)).stdout) == [
        ("mul of decode", "40 us", "48.0"), ("add of encode", "30 us", "24.0"), ("mul of encode", "20 us", "16.0"),
        ("add of decode", "10 us", "12.0"),
    ]  # fmt: skip


@pytest.mark.long
def test_a_step_of_a_trace_and_its_devices() -> None:
    text = run_etq(TRACE).stdout
    totals = sorted(row["total"] for row in rows("steps", TRACE, "--wide"))
    mean, median = sum(totals) / 4, (totals[1] + totals[2]) / 2
    low, high = np.quantile(totals, [0.1, 0.9])
    assert f"step   {median:.0f} us  median of 4 steps; p10 {low:.0f}, p90 {high:.0f} us" in text and len(totals) == 4
    assert f"  mean   {mean:.0f} us  of these steps, as the times below" in text
    families = rows("kernels", TRACE, "--by", "family", "--limit", "5")
    # There are four steps.
    assert "Time of devices in a step by family of kernels" in text and bars(text) == [
        (row["family"], f"{row['total'] / 4:.1f} us", f"{row['share_percent']:.1f}") for row in families
    ]
    assert "Self time of the host's threads in a step by op, waits included" in run_etq(CPU_TRACE).stdout


def test_records_and_programs_have_methods_and_ops() -> None:
    """The ops of two methods of a program are counted by their instructions, those of a record as in its coverage."""
    xnn = str(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
    shown = dict(re.findall(r"^  (\S+)  +(\d+(?:, \d+ in \w+)?)$", run_etq(xnn).stdout, re.MULTILINE))
    ops = {row["op_type"]: (row["delegated"], row["not_delegated"]) for row in rows("coverage", xnn)}
    numbers = {"forward": tuple(map(sum, zip(*ops.values(), strict=True))), **ops}
    assert shown == {
        name: f"{in_all + rest}, {in_all} in XnnpackBackend" if in_all else str(rest)
        for name, (in_all, rest) in numbers.items()
    }
    program = str(CAPTURES / "multimethod/multimethod.pte")
    with etq.open() as warehouse:
        warehouse.ingest_program(program)
        counted = warehouse.rows("SELECT method, count(*) FROM instructions WHERE kind = 'kernel' GROUP BY ALL")[1]
    found = rows("summary", program)
    assert {(row["name"], row["value"]) for row in found if row["part"] == "method"} == {*counted}
    assert len(counted) == 2 and "\n  sigmoid of decode " in run_etq(program).stdout


def test_the_ops_in_a_backend_whose_data_has_no_known_format_are_unknown() -> None:
    """The program's own list has three kernels, XNNPACK's graph and a call of another backend."""
    program = str(CAPTURES / "delegation/conv_two_backends/conv_two_backends.pte")
    unknown = "an unknown number in OtherBackend"
    methods, *ops = rows("summary", program)
    assert (methods["value"], methods["text"]) == (None, f"{unknown}, XnnpackBackend; 3 in kernels")
    assert [(op["value"], op["text"]) for op in ops if op["name"] == "OtherBackend"] == [(None, unknown)]
    program = str(CAPTURES / "delegation/mlp_all/mlp_all.pte")
    assert f"\n  forward  {unknown}\n" in run_etq(program).stdout


@pytest.mark.long
def test_a_summary_as_rows() -> None:
    by_part: dict[str, list[dict[str, object]]] = {}
    for row in rows("summary", RUN):
        by_part.setdefault(str(row["part"]), []).append(row)
    [execute] = [row for row in rows("show", "headline", RUN) if row["number"] == "execute"]
    names = ("value", "low", "high", "unit")
    assert [by_part["time"][0][name] for name in names] == [execute[name] for name in names]
    assert [(row["name"], row["value"]) for row in by_part["op"]] == [
        (row["op"], row["per_execute"]) for row in rows("ops", RUN) if row["share_percent"]
    ]
    assert [row["text"] for row in by_part["advice"]] == [
        f"{row['severity']}: {row['finding']}" for row in rows("advice", RUN)
    ]
    allocated, *_ = [row for row in rows("summary", MLP) if row["part"] == "memory"]
    assert allocated["value"] in [row["largest_run_bytes"] for row in rows("memory", MLP)]


@pytest.mark.parametrize("files", [(RECORD,), ("FILE", RUN), pytest.param(("FOLDER",), marks=pytest.mark.long)])
def test_the_next_commands_can_be_typed(files: tuple[str, ...], tmp_path: Path) -> None:
    """Each is parsed, with names that a shell would split."""
    given = {"FILE": str(shutil.copy(MLP, tmp_path / "a run.etdp")), "FOLDER": str(tmp_path)}
    text = run_etq(*(given.get(each, each) for each in files)).stdout
    commands = re.findall(r"^  (etq .*?)(?:  +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        _, name, *words = shlex.split(command)
        known = cli.main.get_command(click.Context(cli.main), name)
        if known is None:
            assert Path(name).exists()
        else:
            known.make_context(name, words)


@pytest.mark.long
def test_memory_warehouses_two_files_and_folders(lab: str, tmp_path: Path) -> None:
    text = run_etq(MLP).stdout
    [line] = [line for line in text.splitlines() if line.startswith("Memory of one run at most: ")]
    for row in rows("memory", MLP):
        if row["largest_run_bytes"]:
            assert f"{row['allocator']} {row['largest_run_bytes'] / 1024:.4g} KiB" in line
    text = run_etq("summary", "run", "--db", lab).stdout
    assert text.startswith("run: ETDump, ") and "device=pixel8" in text and f"  etq advice run --db {lab}" in text
    assert run_etq(lab).stdout.startswith(f"{lab}: warehouse of 4 ETDumps, 1 ETRecord, 1 PyTorch trace\n")
    for number in range(3):
        shutil.copy(MLP, tmp_path / f"{number}.etdp")
    shutil.copy(RECORD, tmp_path)
    assert run_etq(str(tmp_path)).stdout.startswith(f"{tmp_path}: 3 ETDumps, 1 ETRecord\n")
    assert run_etq(str(tmp_path / "*.etdp")).stdout.startswith(f"{tmp_path}/*.etdp: 3 ETDumps\n")


@pytest.mark.long
def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(trace(event("cpu_op", "aten::add", 0, 30), event("cpu_op", "aten::mul", 40, 100)))
    text = run_etq(str(path)).stdout
    assert re.search(r"^recording +100 us$", text, re.MULTILINE) and " step" not in text
    assert "the trace has no steps: the whole recording counts as one" in run_etq("steps", str(path)).stderr
    assert "no steps" not in run_etq("steps", CPU_TRACE).stderr


@pytest.mark.long
def test_devices_without_a_time_in_steps(tmp_path: Path) -> None:
    """Work of unknown time leaves the times of ops; work that no step launched has a time all the same."""
    copy = event("gpu_memcpy", "Memcpy HtoD", 0, 0, 7, correlation=9, device=0) | {"ts": 0, "dur": 0}
    op = event("cpu_op", "aten::copy_", 10, 40, external=1)
    path = tmp_path / "t.json"
    path.write_bytes(trace(op, event("cuda_runtime", "cudaMemcpyAsync", 12, 20, correlation=9), copy))
    text = run_etq(str(path)).stdout
    assert bars(text)[0] == ("aten::copy_", "22 us", "73.3") and "Time of devices" not in text
    step = event("user_annotation", "ProfilerStep#1", 0, 100)
    launch = event("cuda_runtime", "cudaLaunchKernel", 110, 118, correlation=9)
    path.write_bytes(trace(step, launch, event("kernel", "gemm", 120, 160, 7, correlation=9, device=0)))
    text = run_etq(str(path)).stdout
    assert (
        "Time of devices in a step" in text
        and "  none, but 40 us in the whole trace, whose launch is in no recorded step\n" in text
    )


def test_steps_without_the_first_instruction_have_sums(tmp_path: Path) -> None:
    """No execute begins in the 40 runs, so there is no time per execute: of 60 ns each, a kernel takes 45."""
    steps = [
        run("Step", kernel("mm", at + 5, at + 50, 2), framework("Method::step", at, at + 60))
        for at in range(0, 4000, 100)
    ]
    path = tmp_path / "steps.etdp"
    path.write_bytes(dump(*steps))
    lines = run_etq("summary", str(path)).stdout.splitlines()
    at = lines.index("Time by op, and % of it")
    assert [line.split()[:3] for line in lines[at + 1 : at + 3]] == [
        ["mm", "1.8", "us"],
        ["(unattributed)", "0.6", "us"],
    ]


def test_runs_without_a_time_were_not_executed_in_no_time(tmp_path: Path) -> None:
    """A run without events of its execute is there, which is more than nothing."""
    path = tmp_path / "t.etdp"
    path.write_bytes(dump(run("Execute", kernel("add", 0, 10))))
    text = run_etq(str(path)).stdout
    assert "no execute has a time" in text and "nothing was executed" not in text


@pytest.mark.parametrize(("begin", "is_said"), [(0, True), (100, False)])
def test_work_launched_before_the_recording_is_no_slow_step(tmp_path: Path, begin: int, is_said: bool) -> None:
    """The first of four steps takes 400 us, where a kernel without a launch runs until 300: it was launched before, if
    nothing of its stream was launched earlier; else its launch is lost.
    """
    path = tmp_path / "t.json"
    events, at = [event("kernel", "gemm", begin, 300, 7, device=0, stream=7)], 0
    for number, length in enumerate((400, 100, 110, 90)):
        for stream, correlation in ((9, 2 * number + 1), (7, 2 * number + 2)):
            is_late = stream == 7 and number == 0 and is_said
            start = 310 if is_late else at + 20
            launch = event("cuda_runtime", "cudaLaunchKernel", at + 10, at + 15, correlation=correlation)
            kernel = event(
                "kernel", "gemm", start, start + 60, stream, correlation=correlation, device=0, stream=stream
            )
            events += [launch, kernel]
        events.append(event("user_annotation", f"ProfilerStep#{number}", at, at + length))
        at += length
    path.write_bytes(trace(*events))
    said = "; work launched before the recording runs for its first 300 us" if is_said else ""
    assert re.search(rf" without step 0, which takes 400 us{said}$", run_etq(str(path)).stdout, re.MULTILINE)


@pytest.mark.long
def test_a_step_far_from_the_others_and_one_name_for_one_device(tmp_path: Path) -> None:
    """Steps of 400, 100, 110 and 90 us: 175 in the mean, 100 without the first. Kernels are numbered 2, allocations 0."""
    path = tmp_path / "t.json"
    events, at = [memory(5, 4096, 4096, type=1, device=0)], 0
    for number, length in enumerate((400, 100, 110, 90)):
        launch = event("cuda_runtime", "cudaLaunchKernel", at + 10, at + 15, correlation=number + 1)
        kernel = event("kernel", "gemm", at + 20, at + length - 5, 7, correlation=number + 1, device=2)
        events += [event("user_annotation", f"ProfilerStep#{number}", at, at + length), launch, kernel]
        at += length
    devices = [{"id": 0, "name": "AMD Instinct MI300X"}]
    path.write_bytes(trace(*events, deviceProperties=devices))
    text = run_etq(str(path)).stdout
    assert re.search(r"^  mean +175 us  of .*\n  mean +100 us  without step 0, which takes 400 us$", text, re.MULTILINE)
    assert "Memory at the peak: GPU2 4 KiB" in text
    path.write_bytes(trace(*events, deviceProperties=[*devices, {"id": 1, "name": "AMD Instinct MI300X"}]))
    assert "Memory at the peak: GPU0 (as allocations number it) 4 KiB" in run_etq(str(path)).stdout


def test_memory_of_the_host_counts_earlier_recordings(tmp_path: Path) -> None:
    """The second recording of a schedule: torch's total has 3,072 bytes of the first, which are still in use."""
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(trace(event("cpu_op", "aten::empty", 0, 9), memory(5, 1024, 4096)))
    text = run_etq(str(path)).stdout
    assert "Memory at the peak: CPU 4 KiB allocated while memory was profiled" in text


@pytest.mark.long
def test_what_a_step_is_where_its_annotation_is_another_time(tmp_path: Path) -> None:
    """The annotation takes 100 us; its kernel ends at 260, and another, launched before, at 40: the step takes 220."""
    path = tmp_path / "t.json"
    early = event("kernel", "gemm", 10, 40, 7, correlation=1, device=0)
    step = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cuda_runtime", "cudaLaunchKernel", 50, 58, correlation=9),
    ]
    path.write_bytes(trace(early, *step, event("kernel", "gemm", 120, 260, 7, correlation=9, device=0)))
    text = run_etq(str(path)).stdout
    assert re.search(
        r"^step +220 us\n  annotation  100 us  the step is from its start, or the end of earlier steps' work",
        text,
        re.MULTILINE,
    )
    path.write_bytes(trace(*step, event("kernel", "gemm", 70, 90, 7, correlation=9, device=0)))
    assert "annotation" not in run_etq(str(path)).stdout


def test_a_step_that_waits_for_earlier_work(tmp_path: Path) -> None:
    """A kernel is launched until 108 us, and runs from 5,000 to 5,100: of the step's 5,100 us it waits for 4,892."""
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(
        trace(
            event("user_annotation", "ProfilerStep#1", 0, 300),
            event("cuda_runtime", "cudaLaunchKernel", 102, 108, correlation=1),
            event("kernel", "k", 5000, 5100, 7, correlation=1, device=0, stream=7),
        )
    )
    written = run_etq(str(path)).stdout
    assert re.search(r"^step +5100 us$", written, re.MULTILINE)
    assert (
        "  waits  4892 us  for what isn't recorded, such as earlier work; then the step goes on for 100 us" in written
    )
