"""Work of devices whose category etq doesn't know, as of a vendor's own profiler, is work of devices."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import catalog
from etq.ingest.trace.classes import classified
from tests.command_line import run_etq
from tests.conftest import shared_file
from tests.launch_traces import training
from tests.trace_builders import event

ROOT = Path(__file__).parents[2]


def reads_categories(view: str) -> bool:
    used = (catalog.named(name) for name in catalog.in_order([view]))
    return any(each.kind != "table" and re.search(r"\bcategory\b", each.statement) for each in used)


# Views of a trace that take nothing else, and need more than the rows that tables have but for categories.
VIEWS = [
    each.name
    for each in catalog.public_objects()
    if each.file.startswith("traces/")
    and each.kind == "table macro"
    and [parameter.name for parameter in each.parameters if parameter.default is None] in (["capture"], ["trace"])
    and reads_categories(each.name)
]


def trace(category: str) -> bytes:
    text = json.dumps({"traceEvents": training(1).events})
    return text.replace('"cat": "kernel"', f'"cat": {json.dumps(category)}').encode()


def metadata_event(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def answer(warehouse: etq.Warehouse, view: str, name: str) -> Any:
    try:
        return warehouse.rows(f"FROM {view}($name)", name=name)
    except etq.EtqError as error:
        return str(error).replace(name, "")


@pytest.mark.long
def test_an_unknown_category_is_work_of_the_device(warehouse: etq.Warehouse) -> None:
    """Every answer is that of the same trace with the category of kernels."""
    known, unknown = (
        warehouse.ingest(trace(each), name=name) for each, name in (("kernel", "known"), ("my_accelerator", "unknown"))
    )
    for table in catalog.tables():
        if "capture_id" in {each.name for each in table.columns} and table.name not in ("captures", "findings"):
            left_out = "capture_id, category" if table.name == "signatures" else "capture_id"
            query = f"SELECT * EXCLUDE ({left_out}) FROM {table.name} WHERE capture_id = $key ORDER BY ALL"
            rows = [warehouse.rows(query, key=each.capture_id)[1] for each in (known, unknown)]
            assert rows[0] == rows[1], table.name
    assert len(VIEWS) > 10
    for view in VIEWS:
        assert answer(warehouse, view, "known") == answer(warehouse, view, "unknown"), view
    assert warehouse.rows("SELECT count(*) > 1 FROM kernel_table('unknown')")[1] == [(True,)]
    found = "SELECT rule, detail FROM findings JOIN captures USING (capture_id) WHERE name = 'unknown'"
    [(rule, detail)] = [row for row in warehouse.rows(found)[1] if row[0] == "unknown category"]
    assert rule and detail.endswith("of the unknown category my_accelerator are taken as kernels")


def test_calls_of_an_unknown_category_are_not(warehouse: etq.Warehouse) -> None:
    """Calls share an id with what they launch, but name no device or stream; most categories of other tools have
    neither.
    """
    events = [
        event("cpu_op", "aten::add", 0, 100),
        event("my_api", "launch", 10, 20, correlation=5),
        event("kernel", "add_kernel", 50, 60, 7, correlation=5, device=0, stream=7),
        *(event(f"tool {number}", "a span", 70, 80) for number in range(7)),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("SELECT kernel FROM kernel_table('run')")[1] == [("add_kernel",)]
    assert warehouse.rows("SELECT detail FROM findings WHERE rule = 'unknown category'")[1] == [
        (
            "of unknown categories: my_api (1 event), tool 0 (1 event), tool 1 (1 event), tool 2 (1 event), "
            "tool 3 (1 event) and 3 more",
        )
    ]


def test_a_device_or_stream_tells_work_without_an_id(warehouse: etq.Warehouse) -> None:
    events = [event("cpu_op", "aten::add", 0, 100), event("npu", "matmul_7", 30, 40, 7, stream=7)]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("SELECT kernel, total FROM kernel_table('run')")[1] == [("matmul_7", 10)]
    assert warehouse.rows("SELECT activity, on_device FROM signatures WHERE label = 'matmul_7'")[1] == [
        ("kernel", True)
    ]


def test_tasks_of_ascend(warehouse: etq.Warehouse) -> None:
    """By hand: one kernel of 100 us and one collective of 50 us, which the rows of the analysis repeat."""
    warehouse.ingest(shared_file("captures/reports/13b_ascend_real.json"), name="run")
    assert warehouse.rows("SELECT kernel, family, total FROM kernel_table('run', unit := 'us')")[1] == [
        ("aclnnMatmul_MatMulCommon_MatMulV2", "GEMM", 100),
        ("hcom_allReduce__661_0_1", "communication", 50),
    ]
    assert warehouse.rows("SELECT category, time FROM step_breakdown('run') WHERE time > 0 ORDER BY ALL")[1] == [
        ("CPU Exec", 20), ("Communication", 50), ("Kernel", 100), ("Other", 130),
    ]  # fmt: skip
    assert not warehouse.rows("SELECT * FROM findings")[1]


def test_tracks_by_names_and_arguments(warehouse: etq.Warehouse) -> None:
    """A task is what its type says; the tasks that a collective is made of, and the parts in planes, count nowhere."""
    names = [(2, 0, "Ascend Hardware"), (3, 0, "Communication"), (4, 0, "Overlap Analysis")]
    threads = [(3, 1, "Group 5 Communication"), (3, 2, "Plane 0")]
    common = {"ph": "X", "dur": 10}
    events = [
        *(metadata_event("process_name", pid, tid, name) for pid, tid, name in names),
        *(
            common | {"name": name, "pid": pid, "tid": tid, "ts": ts, "args": {"Task Type": task} if task else {}}
            for name, pid, tid, ts, task in (
                ("add", 2, 1, 0, "MIX_AIV"), ("copy_in", 2, 1, 10, "SDMA_SQE"), ("wait", 2, 1, 20, "NOTIFY_WAIT_SQE"),
                ("untold", 2, 1, 30, None), ("hcom_send__1", 3, 1, 40, None), ("Notify_Wait", 3, 2, 40, None),
                ("Computing", 4, 1, 0, None), ("add", 5, 1, 50, "MIX_AIV"),
            )
        ),
        # Names may follow what they name.
        *(metadata_event("thread_name", pid, tid, name) for pid, tid, name in threads),
    ]  # fmt: skip
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    query = "SELECT label, category, activity, on_device, kernel_family FROM signatures ORDER BY ALL"
    assert warehouse.rows(query)[1] == [
        ("add", "", "other", False, None), ("add", "kernel", "kernel", True, None),
        ("copy_in", "gpu_memcpy", "copy", True, None), ("hcom_send__1", "kernel", "kernel", True, "communication"),
        ("untold", "cuda_sync", "device_wait", True, None), ("wait", "cuda_sync", "device_wait", True, None),
    ]  # fmt: skip


OWN = """
[[category]]
activity = "call"
names = ["my_api"]

[[call]]
purpose = "launch"
waits = false
names = ["Go"]

[call_names]
prefixes = ["my"]

[[family]]
name = "GEMM"
patterns = ["^zz_"]
"""


@pytest.mark.long
def test_a_file_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an accelerator's profiler writes is known by its own rules; all others stay."""
    file, own = str(tmp_path / "run.pt.trace.json"), str(tmp_path / "own.toml")
    Path(own).write_text(OWN)
    events = [
        event("cpu_op", "aten::add", 0, 100),
        event("my_api", "myGo", 10, 20, correlation=5),
        event("kernel", "zz_product", 50, 60, 7, correlation=5, device=0, stream=7),
        event("kernel", "volta_sgemm_32x128_nn", 60, 70, 7, correlation=5, device=0, stream=7),
    ]
    Path(file).write_text(json.dumps({"traceEvents": events}))
    query = "SELECT s.label, s.activity, s.purpose, s.kernel_family FROM signatures AS s ORDER BY ALL"
    done = run_etq("ingest", file, "--classes", own, "--db", str(tmp_path / "lab.duckdb"))
    assert done.exit_code == 0, done.stderr
    with etq.open(tmp_path / "lab.duckdb", read_only=True) as warehouse:
        assert warehouse.rows(query)[1] == [
            ("aten::add", "op", None, None),
            ("myGo", "call", "launch", None),
            ("volta_sgemm_32x128_nn", "kernel", None, "GEMM"),
            ("zz_product", "kernel", None, "GEMM"),
        ]
        owned = "SELECT count(*) FROM device_events WHERE op_index IS NOT NULL AND call_index IS NOT NULL"
        assert warehouse.rows(owned)[1] == [(2,)]
    done = run_etq("kernels", file, "--by", "family", "--classes", own)
    assert "GEMM" in done.stdout and "unknown" not in done.stdout
    assert "unknown" in run_etq("kernels", file, "--by", "family").stdout
    monkeypatch.setenv("ETQ_CLASSES", own)
    assert "unknown" not in run_etq("kernels", file, "--by", "family").stdout


@pytest.mark.long
def test_steps_by_a_file_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: etq.Warehouse) -> None:
    """Annotations by their names; what comes after them belongs to none."""
    own = tmp_path / "own.toml"
    own.write_text('[[name]]\nactivity = "step"\nof = ["annotation"]\npatterns = ["^sample_[0-9]+$"]')
    monkeypatch.setenv("ETQ_CLASSES", str(own))
    events = [event("cpu_op", "aten::mm", 400, 420)]
    for step in (0, 1, 2):
        events += [event("user_annotation", f"sample_{step}", 100 * step, 100 * step + 90)]
        events += [event("cpu_op", "aten::mm", 100 * step + 10, 100 * step + 20 + step)]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="t")
    rows = "SELECT step, run_index FROM trace_steps ORDER BY ALL"
    assert warehouse.rows(rows)[1] == [(0, 0), (1, 1), (2, 2)]
    times = "SELECT calls, steps, outside_steps FROM op_efficiency('t', unit := 'us') WHERE op = 'aten::mm'"
    assert warehouse.rows(times)[1] == [(4, 3, 20)]


def test_the_documentation_s_file_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = re.findall(r"^```toml$(.*?)^```$", (ROOT / "docs/how-to/pytorch-traces.md").read_text(), re.M | re.S)
    (tmp_path / "npu.toml").write_text(text)
    monkeypatch.setenv("ETQ_CLASSES", str(tmp_path / "npu.toml"))
    kinds = [("npu_task", "npu_matmul_3"), ("npu_task", "memset_1"), ("npu_api", "npuEnqueue"), ("cpu_op", "aten::mm")]
    assert [(each.activity, each.on_device, each.purpose, each.kernel_family) for each in classified(kinds)] == [
        ("kernel", True, None, "GEMM"),
        ("kernel", True, None, "copy"),
        ("call", False, "launch", None),
        ("op", False, None, None),
    ]


def test_a_wrong_file_of_classes_is_one_line(tmp_path: Path) -> None:
    wrong: dict[str | None, str] = {
        "[[family]]\nname = 'GEMM'": "an entry has no 'patterns'",
        "[[family]]\nname = 'GEMM'\npatterns = ['(']": "unterminated subpattern",
        "[[family]]\nname = 'GEMM'\npatterns = ['x{99999999999999999999}']": "",
        "[[kernel]]\nname = 'GEMM'": "kernel is not known",
        "family = 1": "isn't a list",
        "[[category]]\nactivity = 'kernle'\nnames = ['x']": "activity 'kernle' is not known; known are annotation, call,",
        "[[call]]\npurpose = 'lunch'\nwaits = false\nnames = ['x']": "purpose 'lunch' is not known; known are allocation,",
        "[[track]]\ncategory = 'npu_task'\nprocess = ['NPU']": "category 'npu_task' of a track is not known",
        "not toml": "Expected '='",
        "x = " + "[" * 20_000: "",
        "#" * (1 << 21): "",
        None: "can't be read: no such file",
    }
    files = {}
    for number, (text, why) in enumerate(wrong.items()):
        files[tmp_path / f"{number}.toml"] = why
        if text is not None:
            (tmp_path / f"{number}.toml").write_text(text)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "run.pt.trace.json").write_bytes(trace("kernel"))
    for own, why in (files | {tmp_path / "pipe": "", tmp_path / "folder": ""}).items():
        done = run_etq("kernels", str(tmp_path / "run.pt.trace.json"), "--classes", str(own))
        assert done.exit_code == 1 and done.stdout == ""
        assert done.stderr.startswith(f"Error: {own}: ") and why in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("category", ["xpu_sync", "mtia_sync", "cuda_sync"])
@pytest.mark.parametrize("transfer", ["dma_request", "odma_read_tile"])
def test_transfers_and_waits_do_not_compute(warehouse: etq.Warehouse, category: str, transfer: str) -> None:
    """By hand: 30 us of 100 compute; the counter's value at a moment is kept, and takes no time."""
    of_device: dict[str, Any] = {"device": 0, "stream": 7, "correlation": 3}
    events = [
        event("mtia_runtime", "runFunction", 5, 10, correlation=3),
        event("mtia_ccp_events", transfer, 0, 70, 7, **of_device),
        event("mtia_ccp_events", "fc", 70, 100, 7, **of_device),
        event(category, "Stream Sync", 0, 100, 9, **of_device),
        {"ph": "C", "cat": "mtia_counters", "name": "use", "pid": 0, "tid": 3, "ts": 40, "args": {"DRAM": 3.5}},
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("SELECT compute, non_compute FROM device_breakdown('run')")[1] == [(30, 70)]
    assert warehouse.rows("SELECT family, total FROM kernel_families('run') ORDER BY 2")[1] == [
        (None, 30),
        ("memcpy", 70),
    ]
    assert warehouse.rows("SELECT counter, value FROM event_counters")[1] == [("DRAM", 3.5)]
    assert warehouse.rows("SELECT rule FROM findings")[1] == [("unknown kernels",)]


def test_counters_that_are_sampled(warehouse: etq.Warehouse) -> None:
    """Kineto writes a value of NVIDIA's PM sampling as an event of the counter's name, of MTIA's with all of a track."""
    common = {"ph": "C", "cat": "hardware_counters", "pid": "GPU 1 Counters", "tid": 0}
    values = {"sm__throughput": (10, 30, 50.5), "dram__bytes": (7, 7, 1)}
    events: list[dict[str, Any]] = [
        common | {"name": name, "ts": 100 * at, "args": {"": value}}
        for name, of_name in values.items()
        for at, value in enumerate(of_name)
    ]
    events += [
        {
            "ph": "C",
            "cat": "mtia_counters",
            "name": "use",
            "pid": 0,
            "tid": 3,
            "ts": 40,
            "args": {"DRAM": 3.5, "SFU": 2},
        },
        event("cpu_op", "aten::mm", 0, 100),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("FROM sampled_counters('run', unit := 'us')")[1] == [
        (0, "use: DRAM", 1, 3.5, 3.5, 3.5, None, "us"), (0, "use: SFU", 1, 2, 2, 2, None, "us"),
        (1, "dram__bytes", 3, 5, 1, 7, 100, "us"), (1, "sm__throughput", 3, pytest.approx(90.5 / 3), 10, 50.5, 100, "us"),
    ]  # fmt: skip
    assert warehouse.rows("SELECT sum(elapsed_ticks), count(*) FROM device_events")[1] == [(0, 7)]
    assert not warehouse.rows("FROM kernel_counters('run')")[1] and not warehouse.rows("FROM findings")[1]


def test_a_value_that_is_no_number_is_left_out(warehouse: etq.Warehouse) -> None:
    common = {"ph": "C", "cat": "hardware_counters", "pid": "GPU 0 Counters", "tid": 0, "name": "sm__throughput"}
    events = [
        common | {"ts": 1, "args": {"": None}},
        common | {"ts": 2, "args": {"": 4}},
        event("cpu_op", "aten::mm", 0, 9),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("SELECT samples, mean FROM sampled_counters('run')")[1] == [(1, 4)]
    assert warehouse.rows("SELECT detail FROM findings")[1] == [("values that are not numbers, or can't be true: 1",)]


@pytest.mark.parametrize("vendor", ["mlu", "gcu", "npu"])
def test_vendors_add_kinds_of_their_own(warehouse: etq.Warehouse, vendor: str) -> None:
    """Of 100 us, a kernel has 30, a copy 50 and a fill 10; annotations of the device, and marks, have none."""
    of_device: dict[str, Any] = {"device": 0, "stream": 7}
    events = [
        event("cpu_op", "aten::mm", 0, 10, external=1),
        event(f"{vendor}_runtime", "launchKernel", 2, 5, correlation=3),
        event("kernel", "matmul", 10, 40, 7, correlation=3, **of_device),
        event(f"{vendor}_memcpy", "HtoD", 40, 90, 7, **of_device),
        event(f"{vendor.upper()}_MEMSET", "fill", 90, 100, 7, **of_device),
        event(f"{vendor}_user_annotation", "part", 0, 100, 7, **of_device),
        event(f"{vendor}_sync", "wait", 0, 100, 7, **of_device),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    found = """SELECT activity, sum(t.elapsed_ticks) FROM device_events AS t
        JOIN signatures AS s ON s.signature_index = t.event_signature GROUP BY ALL ORDER BY ALL"""
    assert warehouse.rows(found)[1] == [
        ("copy", 50_000), ("device_annotation", 100_000), ("device_wait", 100_000), ("fill", 10_000), ("kernel", 30_000),
    ]  # fmt: skip
    assert not warehouse.rows("SELECT * FROM findings WHERE rule = 'unknown category'")[1]


def test_calls_of_hpus_are_no_work(warehouse: etq.Warehouse) -> None:
    """Habana's profiler writes its runtime's calls, and in some versions its kernels, as hpu_op."""
    events = [
        event("cpu_op", "aten::mm", 0, 50),
        event("hpu_op", "synLaunch", 10, 40),
        event("hpu_op", "gemm_bf16", 60, 100, 7, device=0, stream=7),
        event("hpu_meta_op", "process_name", 0, 0),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    query = "SELECT label, activity, on_device, purpose FROM signatures ORDER BY ALL"
    assert warehouse.rows(query)[1] == [
        ("aten::mm", "op", False, None), ("gemm_bf16", "kernel", True, None), ("process_name", "other", False, None),
        ("synLaunch", "call", False, "launch"),
    ]  # fmt: skip
    query = "SELECT name, self_cpu_time FROM key_averages('run', unit := 'us') WHERE calls > 0 AND NOT is_device ORDER BY ALL"
    assert warehouse.rows(query)[1] == [
        ("aten::mm", 20), ("process_name", 0), ("synLaunch", 30),
    ]  # fmt: skip
    assert not warehouse.rows("SELECT * FROM findings WHERE rule = 'unknown category'")[1]
