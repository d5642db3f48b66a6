"""Advice about traces of a few events each, whose times are planted: what is said of them, and what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.advice.collecting import distinct
from etq.advice.contract import Claim, judged
from etq.advice.finding import Finding
from etq.advice.jobs import found_in
from etq.advice.remedies import Stretch, Traits, remedy
from etq.advice.trace_evidence import Evidence
from etq.advice.traces import findings
from etq.advice.words import percent
from etq.ingest.trace.classes import classified
from etq.ingest.trace.stored import parts_of
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import Machine
from tests.trace_builders import event, memory, trace

ITEM = "Avoid .item(), .cpu() and printing of tensors within steps."
LOADERS = ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter")


def advised(warehouse: Warehouse, folder: Path, *events: dict[str, Any], name: str = "t", **top: Any) -> list[Finding]:
    path = folder / f"{name}.json"
    path.write_bytes(trace(*events, **top))
    warehouse.ingest(path, name=name, labels={"job": "j"})
    [(key,)] = warehouse.rows("SELECT capture_id FROM captures WHERE name = $name", name=name)[1]
    evidence = Evidence(warehouse.connection, key)
    found = findings(evidence)
    evidence.drop()
    return found


def launched(number: int, at: float, start: float, end: float, op: str = "aten::mm") -> list[dict[str, Any]]:
    """An op that launches a kernel."""
    return [
        event("cpu_op", op, at, at + 10, external=number),
        event("cuda_runtime", "cudaLaunchKernel", at + 2, at + 8, external=number, correlation=number),
        event("kernel", "gemm_a", start, end, 7, external=number, correlation=number, device=0, stream=7),
    ]


def of(found: list[Finding], rule: str) -> list[Finding]:
    return [finding for finding in found if finding.rule == rule]


@pytest.mark.parametrize(("early", "by", "is_told"), [(1, 11, True), (1, 10, False), (2, 300, True), (0, 0, False)])
def test_work_before_its_launch_is_on_another_clock(
    warehouse: Warehouse, tmp_path: Path, early: int, by: int, is_told: bool
) -> None:
    """Of 100 launches every 1,000 us, some have kernels that start `by` us before the call, 2 us after the op's start.
    The others start 18 us after the call, and the device idles.
    """
    events = []
    for number in range(1, 101):
        at = 1000 * number
        start = at + 2 - by if number <= early else at + 20
        events += launched(number, at, start, start + 50)
    found = advised(warehouse, tmp_path, *events)
    told = [each.evidence.partition(":")[0] for each in of(found, "device clock")]
    assert told == [f"{early} of 100 kernels, copies and fills start before their launch, by up to {by} us"] * is_told
    assert bool(of(found, "device idle")) == (not is_told)
    assert not is_told or "critical path" not in "".join(f"{each.rule} {each.evidence}" for each in found)


def test_an_id_that_was_given_twice_is_no_other_clock(warehouse: Warehouse, tmp_path: Path) -> None:
    """One kernel of 101 starts before the call with its id."""
    events = [
        part
        for number in range(1, 102)
        for part in launched(number, 1000 * number, 1000 * number + 20, 1000 * number + 70)
    ]
    events[2] |= {"ts": 500}
    assert not of(advised(warehouse, tmp_path, *events), "device clock")


@pytest.mark.parametrize(
    ("steps", "late", "others", "told"),
    [
        (4, 3000, 0, "4 of 4 calls that wait for a device return before its work ends, by up to 3 ms"),
        (4, 15, 2, "4 of 6 calls that wait for a device return before its work ends, by up to 15 us"),
        (4, 10, 0, None),  # as inexact as the conversion of clocks
        (1, 3000, 0, None),  # a single call may be wrong by itself
        (4, 3000, 5, None),  # most calls return after the work
    ],
)
def test_work_after_a_wait_for_it_is_on_another_clock(
    warehouse: Warehouse, tmp_path: Path, steps: int, late: int, others: int, told: str | None
) -> None:
    """In each step of 1,000 us, a call waits for the kernel, and returns `late` us before that ends; in other steps, it
    returns 5 us after. If that is by 3 ms, kernels seem to wait for something before they start.
    """
    events = []
    for number in range(1, steps + others + 1):
        at, after = 10_000 * number, late if number <= steps else -5
        events += [
            event("user_annotation", f"ProfilerStep#{number}", at, at + 1000),
            *launched(number, at + 10, at + 90 + after, at + 900 + after),
            event("cuda_runtime", "cudaDeviceSynchronize", at + 30, at + 900, correlation=100 + number),
        ]
    found = advised(warehouse, tmp_path, *events)
    assert [each.evidence.partition(":")[0] for each in of(found, "device clock")] == [told] * (told is not None)
    assert told is None or not [each for each in found if each.rule in ("device idle", "critical path")]
    [(waited,)] = warehouse.rows("SELECT h.longest_wait FROM step_headline('t') AS h")[1]
    assert (waited is None) == (told is not None or late < 1000)


def test_a_call_waits_for_one_of_several_devices(warehouse: Warehouse, tmp_path: Path) -> None:
    """The kernels of another device end 2,000 us after the calls, which may wait for the first device only."""
    events = []
    for number in range(1, 5):
        at, ids = 10_000 * number, {"correlation": 50 + number}
        events += [
            *launched(number, at + 10, at + 90, at + 900),
            event("cuda_runtime", "cudaLaunchKernel", at + 22, at + 26, **ids),
            event("kernel", "gemm_a", at + 95, at + 2900, 7, device=1, stream=7, **ids),
            event("cuda_runtime", "cudaDeviceSynchronize", at + 30, at + 905, correlation=100 + number),
        ]
    assert not of(advised(warehouse, tmp_path, *events), "device clock")


def test_kernels_that_another_thread_waits_for_may_be_on_the_path(warehouse: Warehouse, tmp_path: Path) -> None:
    """Two threads launch in turns, and one waits for the device at the end of each step: kernels take 800 us of each,
    the host 400. The path ends in the last kernel of the other thread, of which nothing is recorded between its ops.
    """
    machine = Machine()
    for number in range(5):
        with machine.frame(f"ProfilerStep#{number}", "user_annotation"):
            for _ in range(20):
                for thread, stream in ((1, 7), (5, 13)):
                    with machine.frame("aten::mm", thread=thread):
                        machine.launch("mm_kernel", 40, stream, thread=thread)
            machine.synchronize()
    advised(warehouse, tmp_path, *machine.events)
    [(evidence,)] = warehouse.rows("SELECT a.evidence FROM advice('t') AS a WHERE a.rule = 'device time'")[1]
    assert evidence.startswith("200 calls of GEMM") and "faster kernels" not in evidence


@pytest.mark.parametrize("name", ["ProfilerStep#{}", "execute_context_0(0)_generation_{0}({0})", "my_iteration {}"])
def test_a_pause_between_steps_has_no_cause_from_within(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    """Two steps of 1,000 us, 9,000 us apart; each ends in a wait for its kernel, and the device idles 9,025 us."""
    events = []
    for number, at in ((1, 0), (2, 10_000)):
        events += [
            event("user_annotation", name.format(number), at, at + 1000),
            *launched(number, at + 10, at + 20, at + 995),
            event("cuda_runtime", "cudaStreamSynchronize", at + 30, at + 999, correlation=100 + number),
        ]
    [idle] = of(advised(warehouse, tmp_path, *events), "device idle")
    assert (idle.cause, idle.ticks, idle.remedy) == ("between_steps", 9_000_000, "")
    assert "the host was mostly" not in idle.evidence
    parts = warehouse.rows("SELECT cause, duration, host FROM idle_parts('t') WHERE duration > 100")[1]
    assert parts == [("between_steps", 9000, None)]
    gaps = warehouse.rows("SELECT cause, duration, host_op, call FROM device_idle('t')")[1]
    assert gaps == [("between_steps", 9025, None, None)]


def test_unknown_waits_are_no_known_idleness(warehouse: Warehouse, tmp_path: Path) -> None:
    """A kernel launched at 102 us runs at 5,000, the first of its stream: that may run what was launched before."""
    late = launched(2, 100, 5000, 5100)
    late[2]["args"]["stream"] = 9
    step = event("user_annotation", "ProfilerStep#1", 0, 300)
    found = advised(warehouse, tmp_path, step, *launched(1, 0, 20, 60), *late)
    [idle] = of(found, "device idle")
    assert (idle.severity, idle.text) == ("low", "Device 0 runs nothing that is recorded while launched kernels wait.")
    assert "launched before the recording" in idle.evidence and "before the recording starts" in idle.remedy
    assert not of(found, "gpu utilization")


def test_a_copy_that_waits_for_earlier_work(warehouse: Warehouse, tmp_path: Path) -> None:
    """A kernel is launched at 108 us and runs at 5,000, the first of its stream; from 120 us on the host waits in a copy."""
    late = launched(2, 100, 5000, 5100)
    late[2]["args"]["stream"] = 9
    copy = event("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 5101, 5105, 7, correlation=3, device=0, stream=9)
    call = event("cuda_runtime", "hipMemcpyWithStream", 120, 5110, correlation=3)
    step = event("user_annotation", "ProfilerStep#1", 0, 5200)
    found = advised(warehouse, tmp_path, step, *launched(1, 0, 20, 60), *late, call, copy)
    [idle] = [each for each in of(found, "device idle") if "launched kernels wait" in each.text]
    assert "the host waits in hipMemcpyWithStream for 4,880 us of it, and launches nothing ahead" in idle.evidence
    assert (idle.ticks, idle.severity) == (4_892_000, "low") and "Synchronize less within steps" in idle.remedy


@pytest.mark.parametrize(
    ("within", "name", "remedy"),
    [
        (None, "forward", "Python between the ops takes this time"),
        ("vllm::moe_forward", "forward", "Python within ops takes this time"),
        (
            "Torch-Compiled Region: 0/0",
            "/tmp/torchinductor_root/ov/cov.py(2533): call",
            "Let CUDA graphs run it as one",
        ),
    ],
)
def test_where_the_host_launches_from(
    warehouse: Warehouse, tmp_path: Path, within: str | None, name: str, remedy: str
) -> None:
    """Of each gap, the host is in a function for 60 us and in an op for 10: the function is in none, or in one around."""
    events = [event("user_annotation", "ProfilerStep#1", 0, 1000)]
    events += [event("cpu_op", within, 1, 990)] if within else []
    events.append(event("python_function", name, 2, 980))
    for number in range(1, 11):
        at = 90 * number
        events += launched(number, at, at + 10, at + 30)
    # From the end of each launch to its kernel are 2 us.
    [idle] = of(advised(warehouse, tmp_path, *events), "device idle")
    assert idle.text == "Device 0 idles: the host launches kernels too slowly."
    assert idle.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("synchronized", "severity", "lost", "remedy"),
    [
        ((), "low", "waits longer;", ""),
        ((10,), "low", "waits longer: at most 30.0 us;", ""),
        (range(11), "high", None, "Launch larger"),
    ],
)
def test_kernels_that_start_late(
    warehouse: Warehouse, tmp_path: Path, synchronized: range, severity: str, lost: str | None, remedy: str
) -> None:
    """Ten kernels start 30 us after their launches have returned. The host goes on, and waits for the last or for each."""
    events = []
    for number in range(1, 11):
        at = 60 * number
        events += launched(number, at, at + 38, at + 48)
        if number in synchronized:
            events.append(event("cuda_runtime", "cudaStreamSynchronize", at + 10, at + 50, correlation=100 + number))
    [idle] = [each for each in of(advised(warehouse, tmp_path, *events), "device idle") if "to start" in each.text]
    assert (idle.ticks, idle.severity) == (9 * 30_000, severity)
    assert (lost or "") in idle.evidence and ("goes on meanwhile" in idle.evidence) == bool(lost)
    assert idle.remedy.startswith(remedy) and bool(idle.remedy) == bool(remedy)


def test_no_one_place_that_launches(warehouse: Warehouse, tmp_path: Path) -> None:
    """Of 142 us before each launch, 50 are between ops, 60 in a function within an op, 32 in ops: none has half."""
    events = [event("user_annotation", "ProfilerStep#1", 0, 2000)]
    for number in range(1, 11):
        at = 180 * number
        events += launched(number, at + 100, at + 130, at + 140)
        events += [event("cpu_op", "my::op", at + 10, at + 125), event("python_function", "f", at + 40, at + 120)]
    idle = max(of(advised(warehouse, tmp_path, *events), "device idle"), key=lambda each: each.ticks or 0)
    assert idle.text == "Device 0 idles: the host launches kernels too slowly."
    assert idle.remedy == "Let torch.compile or CUDA graphs run the step as one."
    assert "functions within ops" in idle.evidence


@pytest.mark.long
def test_a_pause_without_steps_is_no_synchronization(warehouse: Warehouse, tmp_path: Path) -> None:
    """The host waits for a kernel for 900 us, then records nothing for 9,000 us, or for 600."""
    for name, pause in (("long", 9000), ("short", 600)):
        wait = event("cuda_runtime", "cudaStreamSynchronize", 30, 940, correlation=100)
        again = launched(2, 940 + pause, 960 + pause, 990 + pause)
        advised(warehouse, tmp_path, *launched(1, 10, 20, 935), wait, *again, name=name)
    query = "SELECT cause, call FROM device_idle($name)"
    assert warehouse.rows(query, name="long")[1] == [("not_recorded", None)]
    assert warehouse.rows(query, name="short")[1] == [("synchronization", "cudaStreamSynchronize")]


@pytest.mark.parametrize(("name", "category"), [("aten::sort", "cpu_op"), ("tokenizer", "user_annotation")])
def test_what_launches_nothing_gets_no_graphs(warehouse: Warehouse, tmp_path: Path, name: str, category: str) -> None:
    events = [*launched(1, 0, 20, 50), event(category, name, 60, 900), *launched(2, 910, 930, 960)]
    [idle] = [each for each in of(advised(warehouse, tmp_path, *events), "device idle") if each.ticks == 840_000]
    assert name in idle.text and "graphs" not in idle.remedy


@pytest.mark.parametrize("thread", [1, 2])
def test_a_function_that_waits_for_another_thread_is_no_cause(
    warehouse: Warehouse, tmp_path: Path, thread: int
) -> None:
    """In each step a function lasts 80 of 100 ms. What it waits for launches kernels every 9 ms, or doesn't exist."""
    events = [event("user_annotation", f"ProfilerStep#{step}", step * 1e5, step * 1e5 + 99_000) for step in range(3)]
    for number in range(24):
        begin, at = number // 8 * 1e5, number // 8 * 1e5 + 12_000 + number % 8 * (9_000 if thread == 2 else 60)
        if number % 8 == 0:
            events.append(
                event("python_function", "train.py(3): f", begin + (10_000 if thread == 2 else 13_000), begin + 9e4)
            )
        events += [
            event("cpu_op", "aten::mm", at, at + 50, thread),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, at + 40, thread, correlation=number),
            event("kernel", "gemm", at + 50, at + 55, 7, correlation=number, device=0),
        ]
    advised(warehouse, tmp_path, *events)
    said = [text for (text,) in warehouse.advice("t").select("finding").fetchall()]
    assert any("train.py(3): f" in text for text in said) == (thread == 1), said


@pytest.mark.parametrize("loader", LOADERS)
def test_workers_are_for_loaders_without(warehouse: Warehouse, tmp_path: Path, loader: str) -> None:
    load = event("user_annotation", f"enumerate(DataLoader)#{loader}.__next__", 60, 900)
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 1000),
        *launched(1, 0, 20, 50),
        load,
        *launched(2, 910, 930, 960),
    ]
    found = [each for each in advised(warehouse, tmp_path, *events) if each.cause == "data_loading"]
    assert {each.rule for each in found} == {"data loader", "device idle", "critical path"}
    assert all(("num_workers" in each.remedy) == (loader == LOADERS[0]) for each in found)


def test_a_first_call_may_start_the_workers(warehouse: Warehouse, tmp_path: Path) -> None:
    """The first call of a loader takes 9,000 us, five others 100 each: more workers would take longer to start."""
    called = f"enumerate(DataLoader)#{LOADERS[1]}.__next__"
    events = [event("Trace", "PyTorch Profiler (0)", 0, 15_000), event("user_annotation", called, 100, 9100)]
    for number in range(5):
        at = 10_000 + 1000 * number
        events += [*launched(number, at, at + 20, at + 50), event("user_annotation", called, at + 100, at + 200)]
    [loader] = of(advised(warehouse, tmp_path, *events), "data loader")
    assert loader.remedy.startswith(
        "95 % of it is in one call: if that is the start of the program, record steps after"
    )


@pytest.mark.parametrize("long", [(0, 1, 8), (0, 3, 6)])
def test_a_loader_that_starts_and_ends_needs_no_more_workers(
    warehouse: Warehouse, tmp_path: Path, long: tuple[int, ...]
) -> None:
    """Two workers start in the first calls and end in the last: 900 of 906 us. Else each third call waits for them."""
    calls = [
        event("user_annotation", f"enumerate(DataLoader)#{LOADERS[1]}.__next__", 400 * at + 10, 400 * at + (310 if at in long else 11))
        for at in range(9)
    ]  # fmt: skip
    ops = [event("cpu_op", "aten::relu", at, at + 5) for at in (0, 3595)]
    [loader] = of(advised(warehouse, tmp_path, *calls, *ops), "data loader")
    assert loader.text == "The host waits for input data."
    assert ("99 % of that is in the first and the last quarter of 9 calls" in loader.evidence) == (8 in long)
    assert ("persistent_workers" in loader.remedy, "too slow" in loader.remedy) == (8 in long, 8 not in long)


def test_steps_of_several_processes_overlap(warehouse: Warehouse, tmp_path: Path) -> None:
    """The steps of two processes in one file; those of one process follow each other."""
    for name, second in (("merged", 30.0), ("turns", 100.0)):
        steps = [
            event("user_annotation", "ProfilerStep#1", start, start + 50) | {"pid": pid, "tid": pid}
            for pid, start in ((1, 0.0), (2, second))
        ]
        path = tmp_path / f"{name}.json"
        path.write_bytes(trace(*steps))
        capture = warehouse.ingest(path, name=name)
        query = "FROM findings WHERE capture_id = $key AND rule = 'steps of several processes'"
        assert len(warehouse.rows(query, key=capture.capture_id)[1]) == (name == "merged")


@pytest.mark.parametrize(("long", "may_start_again"), [((0, 5, 10), True), ((1, 6, 11), False)])
def test_a_loader_may_start_again_in_each_epoch(
    warehouse: Warehouse, tmp_path: Path, long: tuple[int, ...], may_start_again: bool
) -> None:
    """Three epochs of five calls. An op runs after each call but the last one of an epoch."""
    calls = [
        event("user_annotation", f"enumerate(DataLoader)#{LOADERS[1]}.__next__", 400 * at + 10, 400 * at + (310 if at in long else 11))
        for at in range(15)
    ]  # fmt: skip
    ops = [event("cpu_op", "aten::relu", 400 * at + 350, 400 * at + 355) for at in range(15) if at % 5 != 4]
    [loader] = of(advised(warehouse, tmp_path, *calls, *ops), "data loader")
    assert "too slow" in loader.remedy
    assert ("start again in each epoch" in loader.remedy) == may_start_again


@pytest.mark.parametrize("is_cut", [False, True])
def test_what_is_not_on_the_path(warehouse: Warehouse, tmp_path: Path, is_cut: bool) -> None:
    """A function runs for 1,000 us, an op in it from 200 to 500; or a kernel begins at 900, without a launch."""
    work = event("cpu_op", "aten::mm", 200, 500)
    kernel = event("kernel", "gemm", 900, 1000, 7, device=0)
    found = advised(warehouse, tmp_path, event("python_function", "f.py(1): f", 0, 1000), work, *[kernel] * is_cut)
    said = " ".join(each.evidence for each in of(found, "critical path"))
    whole = "the path is 100 us of 1,000 us recorded; earlier waits are not recorded"
    assert (
        whole
        if is_cut
        else "the path is 300 us of 1,000 us recorded; the rest is before the first op, step or call, or after the last"
    ) in said


def test_a_copy_on_the_path_is_no_kernel(warehouse: Warehouse, tmp_path: Path) -> None:
    copy = [
        event("cuda_runtime", "cudaMemcpyAsync", 10, 990, correlation=9),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20, 980, 7, correlation=9, device=0),
    ]
    found = of(advised(warehouse, tmp_path, event("cpu_op", "aten::copy_", 0, 1000), *copy), "critical path")
    assert "in Memcpy HtoD (Pageable -> Device)" in found[0].evidence, found


def test_a_device_that_copies_is_busy(warehouse: Warehouse, tmp_path: Path) -> None:
    """A kernel for 100 us, a copy for 850, of 1,000."""
    copy = [
        event("cuda_runtime", "cudaMemcpyAsync", 20, 25, correlation=9),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 130, 980, 7, correlation=9, device=0, stream=7),
    ]
    found = advised(
        warehouse, tmp_path, event("user_annotation", "denoise_step_1", 0, 1000), *launched(1, 5, 20, 120), *copy
    )
    assert not of(found, "gpu utilization")
    assert not any("larger batch" in each.remedy for each in found)


@pytest.mark.long
def test_work_beside_the_critical_path_is_not_severe(warehouse: Warehouse, tmp_path: Path) -> None:
    """Ten ops of 90 us, each with a product of odd sizes that ends before the next: the path waits for the last alone.
    No op is recorded in the second trace: etq ops has nothing to list.
    """
    name = "cutlass_80_tensorop_s1688gemm_64x64_nn_align1"
    events = []
    for number in range(1, 11):
        op, call, kernel = launched(number, 90 * number, 90 * number + 10, 90 * number + 70)
        events += [op | {"dur": 88}, call, kernel | {"name": name}]
    advised(warehouse, tmp_path, *events)
    query = "SELECT severity, evidence FROM advice('t') WHERE rule = 'odd sizes'"
    [(severity, evidence)] = warehouse.rows(query)[1]
    assert severity == "low"
    # Each op lasts longer than its kernel.
    note = "none of the devices' 600 us is on the critical path, so faster kernels don't shorten it"
    assert evidence.endswith(f"; {note}")
    advised(warehouse, tmp_path, *launched(1, 0, 20, 50)[1:], name="u")
    [(remedy,)] = warehouse.rows("SELECT remedy FROM advice('u') WHERE rule = 'device time'")[1]
    assert remedy == "etq kernels lists the kernels that take most time."


def test_launches_into_a_graph_are_not_lost(warehouse: Warehouse, tmp_path: Path) -> None:
    """Two launches of a capture, then one outside of it without a kernel."""
    capture = [
        event("cuda_runtime", name, at, at + 5, correlation=number)
        for number, (name, at) in enumerate(
            [("cudaStreamBeginCapture", 100), ("cudaLaunchKernel", 110), ("cudaLaunchKernel", 120), ("cudaStreamEndCapture", 130)], 20
        )
    ]  # fmt: skip
    assert not of(advised(warehouse, tmp_path, *launched(1, 0, 20, 50), *capture), "lost kernels")
    lost = event("cuda_runtime", "cudaLaunchKernel", 200, 205, correlation=40)
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 50), *capture, lost, name="u")
    assert [each.text[:14] for each in of(found, "lost kernels")] == ["1 launch of 2 "]


def test_compilation_is_found_without_a_device(warehouse: Warehouse, tmp_path: Path) -> None:
    """700 of 1,000 us, in two compilations."""
    compiles = [event("cpu_op", "_compile.compile_inner (dynamo_timed)", at, end) for at, end in ((0, 300), (500, 900))]
    ops = [event("cpu_op", "aten::add", 310, 400), event("cpu_op", "aten::add", 950, 1000)]
    [found] = of(advised(warehouse, tmp_path, *compiles, *ops), "compilation")
    assert (found.cause, found.ticks, found.share_percent) == ("compilation", 700_000, 70)


@pytest.mark.parametrize("op", ["aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution_backward"])
def test_products_of_a_convolution_are_convolution(warehouse: Warehouse, tmp_path: Path, op: str) -> None:
    """A kernel of one name takes 100 us in an op of convolution, and 30 us in a product; a complex one 50 us."""
    events = [*launched(1, 0, 20, 120, op=op), *launched(2, 130, 150, 180), *launched(3, 190, 200, 250, op=op)]
    for row, name in ((2, "ampere_sgemm_32x32_nn"), (5, "ampere_sgemm_32x32_nn"), (8, "ampere_gcgemm_64x64_nt")):
        events[row]["name"] = name
    advised(warehouse, tmp_path, *events)
    found = warehouse.rows("SELECT family, calls, total FROM kernel_families('t', unit := 'us')")[1]
    assert found == [("convolution", 2, 150), ("GEMM", 1, 30)]
    kernels = warehouse.rows("SELECT kernel, family, calls FROM kernel_table('t') ORDER BY kernel")[1]
    assert kernels == [("ampere_gcgemm_64x64_nt", "convolution", 1), ("ampere_sgemm_32x32_nn", "convolution", 2)]


@pytest.mark.long
def test_unknown_kernels_of_attention_are_attention(warehouse: Warehouse, tmp_path: Path) -> None:
    """A kernel of an unknown name takes 100 us in an op of attention and 30 us in another op, as long as one of a second
    name.
    """
    events = [
        *launched(1, 0, 20, 120, op="flash_attn_3::fwd"),
        *launched(2, 130, 150, 180),
        *launched(3, 190, 200, 230),
    ]
    for row, name in ((2, "k_fwd"), (5, "k_fwd"), (8, "k_bwd")):
        events[row]["name"] = name
    advised(warehouse, tmp_path, *events)
    query = "SELECT finding, evidence FROM advice('t') WHERE rule = 'device time'"
    [(text, evidence)] = warehouse.rows(query)[1]
    assert text == "Time of devices: 62 % attention, 38 % unknown names."
    assert evidence.startswith("1 call of attention, most time in k_fwd; ")
    detail = warehouse.rows("SELECT detail FROM findings WHERE rule = 'unknown kernels'")[1]
    assert detail == [("37.5 % of the time of kernels is in kernels of 2 unknown names, as much in k_bwd as in k_fwd",)]


TRAITS = Traits(None, False, False, 0, 1000, 0, False, None)


@pytest.mark.parametrize(
    ("times", "cause", "ticks"),
    [
        ({"host": 60, "function": 40}, "host", 100),
        ({"host": 40, "function": 60}, None, 100),
        ({"host": 10, "between_steps": 500}, "host", 10),
    ],
)
def test_a_cause_covers_half_of_the_time(times: dict[str, int], cause: str | None, ticks: int) -> None:
    found = judged(Claim("rule", "Caused.", "Seen.", "host", ("op", "x"), times, ("all", 1000), least=0), TRAITS)
    assert found and (found.cause, found.ticks, bool(found.remedy)) == (cause, ticks, cause is not None)
    assert found.text == ("Caused." if cause else "Seen.")


@pytest.mark.parametrize(("length", "is_small"), [(20, True), (60, False)])
def test_many_small_collectives(warehouse: Warehouse, tmp_path: Path, length: int, is_small: bool) -> None:
    """A hundred all-reduces that take 20 us each, or 60: 2,000 or 6,000 us, and one of 1,000."""
    events, at = [event("user_annotation", "ProfilerStep#1", 0, 10_000)], 20
    for number in range(101):
        end = at + (length if number else 1000)
        call = event("cuda_runtime", "cudaLaunchKernel", 5 + number / 10, 5.05 + number / 10, correlation=number + 1)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        events += [call, event("kernel", name, at, end, 7, correlation=number + 1, device=0, stream=7)]
        at = end
    [found] = of(advised(warehouse, tmp_path, *events), "communication")
    assert ("Join small collectives" in found.remedy) == is_small
    assert ("100 of 101 collectives take at most 50 us, 67 % of the time" in found.evidence) == is_small


@pytest.mark.long
def test_the_late_rank_is_named(warehouse: Warehouse, tmp_path: Path) -> None:
    """Rank 0 waits 300 us for rank 1 in an all-reduce, which then takes 50."""
    message = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Group size": 2, "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 64,
    }  # fmt: skip
    found = {}
    for _ in range(2):
        for rank, start in ((0, 100), (1, 400)):
            ring = event(
                "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, 450, 7, correlation=1, device=rank, stream=7
            )
            ring["args"] |= message
            call = event("cuda_runtime", "cudaLaunchKernel", start - 10, start - 5, correlation=1)
            step = event("user_annotation", "ProfilerStep#1", 50, 460)
            info = {"distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"}}
            found[rank] = advised(warehouse, tmp_path, step, event("cpu_op", "c10d::allreduce_", start - 20, start), call, ring, name=f"r{rank}", **info)  # fmt: skip
    [told] = of(found[0], "communication")
    assert "rank 1 comes last" in told.text and "rank 1" in told.remedy and "radient" not in told.remedy
    assert "in communication while devices compute nothing" in told.evidence
    [late] = found_in(warehouse.connection, "j")
    assert (late.rule, late.ranks, late.ticks, late.whole_ticks) == ("late rank", (1,), 300_000, 410_000)
    assert "1 other rank waited 300 us" in late.evidence and "rank 1" in late.text


def test_what_is_unknown_of_one_thing_is_no_cause_of_another(warehouse: Warehouse, tmp_path: Path) -> None:
    """A device idles for 400 us before a kernel whose launch is not recorded, and communicates for 400 us."""
    reduces = event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500, 900, 7, device=0, stream=7)
    step = event("user_annotation", "ProfilerStep#1", 0, 1000)
    found = advised(warehouse, tmp_path, step, *launched(1, 0, 20, 100), reduces)
    kept = {(each.rule, each.ticks) for each in distinct(found)}
    assert {("device idle", 400_000), ("communication", 400_000)} <= kept


def test_periods_of_no_thread_have_no_parts() -> None:
    """And change none of those of a thread: in 100 us, the host is in an op for 10, and else in the step."""
    step = event("user_annotation", "ProfilerStep#1", 0, 100)
    with etq.read(trace(step, *launched(1, 20, 60, 90))) as read:
        asked = read.connection.sql(
            """
            SELECT p.*, 0::BIGINT AS start_ticks, 100_000::BIGINT AS end_ticks
            FROM (VALUES (1, 0), (2, NULL)) AS p(period, thread_index)
            """
        ).to_arrow_table()
        given = {"key": 1}
        parts = parts_of(lambda query: read.connection.sql(query, params=given).to_arrow_table(), asked)
        read.connection.register("parts", parts)
        query = """
            SELECT p.period, n.kind, sum(p.ticks) FROM parts AS p
            LEFT JOIN _host_names(1) AS n ON n.signature_index = p.name
            GROUP BY ALL ORDER BY ALL
        """
        assert read.connection.execute(query).fetchall() == [(1, "op", 10_000), (1, "step", 90_000)]


def test_the_first_call_is_no_op(warehouse: Warehouse, tmp_path: Path) -> None:
    """29,000 of 29,996 us are in the first call, which asks for something; what comes after is short."""
    op = event("cpu_op", "aten::empty_strided", 0, 29_040)
    first = event("cuda_runtime", "cudaDeviceGetStreamPriorityRange", 10, 29_010)
    later = event("cuda_runtime", "cudaDeviceGetStreamPriorityRange", 29_020, 29_021)
    found = advised(warehouse, tmp_path, op, first, later, *launched(1, 29_050, 29_100, 29_996))
    [path] = of(found, "critical path")
    assert path.text == "97 % of the critical path is cudaDeviceGetStreamPriorityRange, the first call of the runtime."
    assert (path.cause, path.ticks, path.whole_ticks) == ("first_call", 29_000_000, 29_996_000)
    assert path.remedy.startswith("If nothing before the recording started the device")


def test_a_long_launch_is_neither_its_op_nor_a_delay(warehouse: Warehouse, tmp_path: Path) -> None:
    """A kernel starts 5 us after the return of a launch of 6,000 us: the device idles for 6,037 us, and 6,000 of these
    in the launch."""
    long = launched(2, 100, 6107, 6200)
    long[0]["dur"], long[1]["dur"] = 6002, 6000
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 70), *long)
    [idle] = [each for each in of(found, "device idle") if each.share_percent and each.share_percent > 5]
    assert (idle.cause, idle.ticks) == ("launch", 6_000_000)
    assert "is in a launch that takes long" in idle.text and "from 102 us" in idle.evidence
    assert "torch.compile" not in idle.remedy and "graphs" not in idle.remedy
    assert not [each for each in of(found, "critical path") if "aten::mm" in each.text]


@pytest.mark.parametrize(("end", "is_idle"), [(9000, False), (3000, True)])
def test_a_step_lasts_until_its_work_ends(warehouse: Warehouse, tmp_path: Path, end: float, is_idle: bool) -> None:
    """The only step of a server is 1,000 us on the host; its kernel runs from 2,500 us on, until 9,000 or 3,000."""
    step = event("user_annotation", "execute_context_0(0)_generation_32(32)", 0, 1000)
    found = of(advised(warehouse, tmp_path, step, *launched(1, 500, 2500, end)), "gpu utilization")
    assert [(each.ticks, each.whole_ticks) for each in found] == ([(2_500_000, 3_000_000)] if is_idle else [])


@pytest.mark.long
def test_a_step_beyond_the_recording_counts_within(warehouse: Warehouse, tmp_path: Path) -> None:
    """The step goes on for 13 s after the end of a recording of 1,000 us; the kernel runs for 700 of its 900 us there."""
    whole = event("Trace", "PyTorch Profiler (0)", 0, 1000)
    step = event("user_annotation", "ProfilerStep#1", 100, 13_000_000)
    found = advised(warehouse, tmp_path, whole, step, *launched(1, 150, 200, 900))
    assert not of(found, "gpu utilization") and not of(found, "critical path")[1:]
    short = advised(warehouse, tmp_path, whole, step, *launched(1, 150, 200, 300), name="short")
    [use] = of(short, "gpu utilization")
    assert (use.ticks, use.whole, use.whole_ticks) == (800_000, "recorded part of the steps", 900_000)
    assert "a kernel ran in 11 % of the recorded part of the steps" in use.evidence
    assert "between the ops of steps" not in " ".join(each.text for each in found)
    told = warehouse.rows("SELECT DISTINCT detail FROM findings WHERE rule = 'steps beyond the recording'")[1]
    # 12,999,000 of its 12,999,900 us.
    assert told == [("step 1 has 99.9 % of its time outside of the recording, 13 s after its end",)]


def test_communication_of_the_host_hides_nothing_of_devices(warehouse: Warehouse, tmp_path: Path) -> None:
    """A trace without a device: 800 of 1,000 us of the step in gloo."""
    step, add = event("user_annotation", "ProfilerStep#1", 0, 1000), event("cpu_op", "aten::add", 10, 90)
    found = advised(warehouse, tmp_path, step, add, event("user_annotation", "gloo:all_reduce", 100, 900))
    [said] = of(found, "communication")
    assert said.ticks == 800_000 and said.evidence == "80 % of the step time is in communication on the host"


def test_launches_of_a_capture_are_no_slow_launches(warehouse: Warehouse, tmp_path: Path) -> None:
    """Between two kernels, 2,000 us in which 40 ops launch into a graph."""
    capture = [event("cuda_runtime", "cudaStreamBeginCapture", 110, 112)]
    for number in range(40):
        at = 115 + 49 * number
        capture += [
            event("cpu_op", "aten::mm", at, at + 40),
            event("cuda_runtime", "cudaLaunchKernel", at + 30, at + 35),
        ]
    capture.append(event("cuda_runtime", "cudaStreamEndCapture", 2090, 2110))
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 100), *capture, *launched(2, 2115, 2130, 2200))
    [idle] = [each for each in of(found, "device idle") if (each.share_percent or 0) > 20]
    assert idle.text == "Device 0 idles while the host captures or instantiates graphs."
    assert not [each for each in found if "CUDA graphs" in each.remedy]


@pytest.mark.long
def test_kernels_of_an_idle_device_are_no_severe_matter(warehouse: Warehouse, tmp_path: Path) -> None:
    """Sixteen elementwise kernels of 10 us in a recording of 20,000: fusion saves 94 % of the one, 0.75 % of the other."""
    events = [event("cpu_op", "aten::sort", 500, 20_000)]
    for number in range(16):
        events += launched(number + 1, 12 * number, 300 + 10 * number, 310 + 10 * number, op="aten::add")
        events[-1]["name"] = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >()"
    advised(warehouse, tmp_path, *events)
    rows = warehouse.rows("SELECT severity, share_percent FROM advice('t') WHERE rule = 'fusable kernels'")[1]
    assert rows == [("low", pytest.approx(100 * 150 / 160))]


def test_one_subject_has_one_interval(warehouse: Warehouse, tmp_path: Path) -> None:
    """A graph is captured: calls of 2 and 10 us, and 200 ops of three names that follow each other for 4,000 us."""
    ops = ("aten::mm", "aten::add", "aten::relu")
    events = [event("cuda_runtime", "cudaStreamBeginCapture", 10, 12)]
    events += [event("cpu_op", ops[each % 3], 15 + 20 * each, 35 + 20 * each) for each in range(200)]
    events += [event("cuda_runtime", "cudaStreamEndCapture", 4990, 5000), event("cpu_op", "aten::sort", 5000, 6000)]
    found = advised(warehouse, tmp_path, *events, *launched(1, 6000, 6020, 6100))
    [said] = [each for each in of(found, "critical path") if "graph capture" in each.text]
    assert said.ticks == 4_012_000 and " in 3 intervals, the longest 4,000 us from 5.00 us" in said.evidence
    assert said.remedy.startswith("Over 99 % of it is in one interval: ")


def test_a_capture_without_end_says_nothing_of_other_threads(warehouse: Warehouse, tmp_path: Path) -> None:
    """Thread 1 begins a capture that never ends; thread 2 launches 40 times, and is not capturing."""
    slow = []
    for number in range(40):
        at = 100 + 49 * number
        slow += [
            event("cpu_op", "aten::mm", at, at + 40, 2),
            event("cuda_runtime", "cudaLaunchKernel", at + 30, at + 35, 2, correlation=number + 10),
            event("kernel", "gemm_a", at + 36, at + 37, 7, correlation=number + 10, device=0, stream=7),
        ]
    begin = event("cuda_runtime", "cudaStreamBeginCapture", 10, 15)
    found = advised(warehouse, tmp_path, begin, *slow)
    # From the return of each launch to its kernel is 1 of 49 us.
    assert {each.cause for each in of(found, "device idle")} == {"host", "not_recorded"}


@pytest.mark.parametrize("lengths", [(10_000, 1500), (1500, 10_000)])
@pytest.mark.parametrize("later", [0, 10])
def test_steps_of_two_threads_are_one_time(
    warehouse: Warehouse, tmp_path: Path, lengths: tuple[int, int], later: int
) -> None:
    """Steps of 10,000 and 1,500 us overlap in two threads. A kernel launched in the longer alone, at 9,500, runs from 9,600
    to 24,600: the device is busy for 15,000 of 24,600 us."""
    steps = [
        event("user_annotation", f"ProfilerStep#{at}", later if length == 1500 else 0, (later if length == 1500 else 0) + length, thread)
        for at, (length, thread) in enumerate(zip(lengths, (1, 2), strict=True))
    ]  # fmt: skip
    found = advised(warehouse, tmp_path, *steps, *launched(1, 9500, 9600, 24_600))
    assert not of(found, "gpu utilization")
    [use] = warehouse.rows(
        """
        WITH launched AS MATERIALIZED (FROM _launches(1)), steps AS MATERIALIZED (FROM tool_steps AS t WHERE t.capture_id = 1)
        SELECT ticks, busy_ticks FROM _device_use(1, 'launched', 'steps')
        """
    )[1]
    assert use == (24_600_000, 15_000_000)


@pytest.mark.parametrize("recorded", [(0, 0), (0, -5), (5_000_000, 5_001_000)])
def test_a_recording_that_has_no_step_clips_none(
    warehouse: Warehouse, tmp_path: Path, recorded: tuple[int, int]
) -> None:
    """A recording without length, of a negative one, or on another clock: the step has its 1,000 us."""
    whole = event("Trace", "PyTorch Profiler (0)", *recorded)
    step = event("user_annotation", "ProfilerStep#1", 0, 1000)
    advised(warehouse, tmp_path, whole, step, *launched(1, 150, 200, 900))
    assert warehouse.rows("SELECT steps, step_time FROM trace_traits('t', unit := 'us')")[1] == [(1, 1000)]
    assert not warehouse.rows("FROM findings WHERE rule = 'steps beyond the recording'")[1]


def test_a_long_stretch_is_not_many_launches(warehouse: Warehouse, tmp_path: Path) -> None:
    """An op takes 5,000 us before it launches: more launches or fewer change nothing."""
    slow = launched(2, 5200, 5220, 5300, op="aten::cudnn_convolution")
    slow[0] |= {"ts": 200, "dur": 5010}
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 100), *slow)
    [idle] = [each for each in of(found, "device idle") if (each.share_percent or 0) > 20]
    assert idle.text == "Device 0 idles: the host launches nothing for a long time."
    assert idle.remedy.startswith("It is in one gap: if that is the start of the program")
    assert " in 1 gap, from 200 us" in idle.evidence


def test_a_gap_in_the_middle_is_not_the_start_of_the_program(warehouse: Warehouse, tmp_path: Path) -> None:
    """An op of 5,000 us launches late, after 6,000 us in which the device runs: warming up would not end this."""
    slow = launched(2, 11200, 11220, 11300, op="aten::cudnn_convolution")
    slow[0] |= {"ts": 6200, "dur": 5010}
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 6100), *slow)
    [idle] = [each for each in of(found, "device idle") if (each.share_percent or 0) > 20]
    assert " in 1 gap, from 6,200 us" in idle.evidence
    assert idle.remedy == ""


def test_parts_of_a_gap_are_one_gap(warehouse: Warehouse, tmp_path: Path) -> None:
    """The device idles from 50 to 3,000 us and from 3,100 to 3,500 us. In each the host frees memory twice: for 1,500 and
    600 us, then for 100 and 100 us; an op is between."""
    frees = [(60, 1560), (1700, 2300), (3110, 3210), (3250, 3350)]
    events = [event("cuda_runtime", "cudaFree", *span) for span in frees]
    events += [event("cpu_op", "aten::empty", 55, 2350), event("cpu_op", "aten::add", 1600, 1650)]
    for number, (start, end) in enumerate(((20, 50), (3000, 3100), (3500, 3600)), 1):
        events += launched(number, start - 10, start, end, op="aten::relu")
    found = advised(warehouse, tmp_path, *events)
    [idle] = [each for each in of(found, "device idle") if each.cause == "free"]
    assert idle.ticks == 2_300_000
    assert " in 2 gaps, 2,100 us of it in one, from 50.0 us" in idle.evidence
    assert idle.remedy.startswith("91 % of it is in one gap:")


@pytest.mark.parametrize("name", ["cudaFree", "cudaLaunchKernel"])
def test_a_long_call_is_named_with_its_op(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    slow = launched(2, 100, 9300, 9400, op="aten::cudnn_convolution")
    slow[0] |= {"dur": 9100}
    if name == "cudaLaunchKernel":
        slow[1] |= {"ts": 110, "dur": 9000}
    else:
        slow[1] |= {"ts": 9110, "dur": 10}
        slow.append(event("cuda_runtime", "cudaFree", 110, 9000))
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 100), *slow)
    for rule, cause in (("device idle", "launch" if "Launch" in name else "free"), ("critical path", None)):
        [said] = [each for each in of(found, rule) if cause in (None, each.cause) and (each.share_percent or 0) > 90]
        assert "mostly in aten::cudnn_convolution" in said.evidence


@pytest.mark.parametrize(
    ("label", "part"),
    [
        ("_compile.compile_inner (dynamo_timed)", "dynamo"), ("OutputGraph.call_user_compiler (dynamo_timed)", "compilation"),
        ("torch/_dynamo/convert_frame.py(1303): compile_inner", "dynamo"), ("torch/_compile.py(22): inner", None),
        ("CUDAGraphNode.record (dynamo_timed)", None), ("entire_backward_compile", "aot_autograd"), ("gc", None),
        ("compile_fx.<locals>.bw_compiler (dynamo_timed)", "inductor"), ("GraphLowering.run", "inductor"),
        ("pass.post_grad_passes.stable_sort (dynamo_timed)", "inductor"), ("mm_template_autotuning", "autotuning"),
        ("pass.post_grad_passes.stable_sort_data: compile_id=0/0", None), ("what comes next (dynamo_timed)", "compilation"),
        ("CachingAutotuner.benchmark_all_configs (dynamo_timed)", "autotuning"),
        ("torch/_inductor/compile_fx.py(700): compile_fx_inner", "inductor"),
        ("torch/_inductor/runtime/triton_heuristics.py(900): autotune_to_one_config", "autotuning"),
    ],
)  # fmt: skip
def test_what_is_compilation(warehouse: Warehouse, label: str, part: str | None) -> None:
    """Names are those of torch 2.4 to 2.13."""
    [found] = classified([("python_function" if ".py(" in label else "cpu_op", label)])
    assert warehouse.rows("SELECT CASE WHEN _is_compilation($it) THEN $it END", it=found.purpose)[1] == [(part,)]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["CompiledFunctionBackward", "Torch-Compiled Region: 0/0", "## Call CompiledFxGraph f ##"]
)
def test_what_is_compiled_is_not_told_to_be(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    """Eight elementwise kernels follow each other, launched by what torch.compile made; the device idles between them."""
    events = []
    for number in range(8):
        events += launched(number + 1, 200 * number, 200 * number + 20, 200 * number + 80, op=name)
        events[-1]["name"] = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >()"
    advised(warehouse, tmp_path, *events)
    remedies = warehouse.rows("SELECT remedy FROM advice('t') WHERE rule <> 'device idle' OR remedy <> ''")[1]
    assert remedies and not [text for (text,) in remedies if "torch.compile," in text or "let torch.compile" in text]
    assert not warehouse.rows("FROM advice('t') WHERE remedy LIKE 'torch.compile fuses%'")[1]


MANY = Stretch(is_long=False)


@pytest.mark.parametrize(
    ("runtime", "replays", "is_compiled", "expected"),
    [
        ("CUDA", False, False, "Launch fewer and larger ops: torch.compile, CUDA graphs."),
        ("HIP", False, False, "Launch fewer and larger ops: torch.compile, HIP graphs."),
        (None, False, False, "Launch fewer and larger ops: torch.compile."),
        ("CUDA", True, False, "Launch fewer and larger ops."),
        (None, False, True, "Launch fewer and larger ops."),
    ],
)
def test_graphs_are_advised_where_they_are_and_not_used(
    runtime: str | None, replays: bool, is_compiled: bool, expected: str
) -> None:
    traits = TRAITS._replace(runtime=runtime, replays=replays, is_compiled=is_compiled)
    assert remedy("host", "op", "aten::mm", traits, MANY) == expected
    for cause in ("step", "launch_delay"):
        text = remedy(cause, "step", None, traits, MANY)
        assert ("graphs" in text) == ("graphs" in expected) and (not runtime or replays or runtime in text)


@pytest.mark.parametrize(
    ("cause", "kind", "name", "expected"),
    [
        ("synchronization", "call", "cudaDeviceSynchronize", "Avoid torch.cuda.synchronize() within steps."),
        ("synchronization", "call", "hipEventSynchronize", "Avoid Event.synchronize() within steps."),
        ("synchronization", "op", "aten::_local_scalar_dense", ITEM),
        ("synchronization", "op", "aten::nonzero", "aten::nonzero waits for the device: call it less often."),
        ("HtoD", "copy", "Memcpy HtoD (Pinned -> Device)", "Copy less, or ahead of its use."),
        ("DtoH", "copy", "Memcpy DtoH (Device -> Pinned)", "Copy results less often."),
        ("function", "annotation", "## backward ##", ""),
        ("function", "function", "augment", "Run it in other processes or threads, or before the steps."),
        ("function", "function", "", "Call these functions less often, or keep what they return."),
        (
            "step",
            "function",
            "",
            "Python between the ops takes this time: do less there, or let torch.compile run the step as one.",
        ),
        (
            "op_function",
            "function",
            "",
            "Python within ops takes this time: do less there, or let torch.compile run the step as one.",
        ),
        ("launching", "several", "", "Let torch.compile run the step as one."),
        ("device", "op", "aten::_flash_attention_forward", "Try another kernel of attention."),
        (
            "wide",
            "op",
            "aten::_flash_attention_forward",
            "Try another kernel of attention, or smaller types where accuracy allows.",
        ),
        ("wide", "op", "aten::mm", "Make kernels of this op faster or fewer by smaller types or fusion."),
        ("device", "op", "aten::mm", "Make kernels of this op faster or fewer by fusion."),
        ("cpu_op", "op", "aten::_copy_from", ""),
        ("device", "annotation", "Torch-Compiled Region: 0/0", ""),
    ],
)
def test_remedies_are_of_the_thing(cause: str, kind: str, name: str, expected: str) -> None:
    assert remedy(cause, kind, name, TRAITS._replace(steps=2), MANY) == expected
    assert not re.search("within steps|the steps|the step ", remedy(cause, kind, name, TRAITS, MANY))


def test_remedies_of_few_launches() -> None:
    """One launch of each step isn't made fewer or larger; nor is a copy, or what waits for milliseconds."""
    few = TRAITS._replace(steps=2, launches=1.0)
    for cause, kind in (("host", "op"), ("step", "step"), ("launching", "several"), ("launch_delay", "wait")):
        assert not re.search("aunch|as one", remedy(cause, kind, None, few, MANY))
    assert "with_stack" in remedy("step", "step", None, few, MANY)
    assert not remedy("step", "step", None, few._replace(has_functions=True), MANY)
    assert remedy("launch_delay", "wait", None, TRAITS, MANY).startswith("Launch larger kernels")
    assert not remedy("launch_delay", "copy", None, TRAITS, MANY)
    assert not remedy("launch_delay", "wait", None, TRAITS, Stretch(True))


def test_two_ops_of_the_cpu(warehouse: Warehouse, tmp_path: Path) -> None:
    """Of 1,000 us, the host is in one op for 520 and in another for 460, both in an annotation; there are no steps."""
    mul, fill = event("cpu_op", "aten::mul", 100, 620), event("cpu_op", "aten::fill_", 630, 1090)
    cleared = event("user_annotation", "clear_cache", 60, 1095)
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 50), cleared, mul, fill, *launched(2, 1100, 1120, 1150))
    [idle] = [each for each in of(found, "device idle") if each.ticks == 980_000]
    assert idle.text == "Device 0 idles while the host runs mostly aten::mul."
    assert idle.evidence.startswith("most in aten::mul (53 %) and aten::fill_ (47 %); 100 % in clear_cache; ")
    assert idle.remedy == "aten::mul and aten::fill_ run on the CPU and launch nothing: move them to the device."


@pytest.mark.parametrize(
    ("op", "call", "after", "text", "remedy"),
    [
        ("aten::item", "cudaStreamSynchronize", 0, "the host launched nothing ahead.", ITEM),
        ("my::op", "cudaStreamSynchronize", 0, "ahead.", "my::op waits for the device: call it less often."),
        (None, "cudaEventSynchronize", 0, "ahead.", "Avoid Event.synchronize() within steps."),
        (
            None,
            "cudaEventSynchronize",
            500,
            "while the host records nothing of what it does.",
            "Record with with_stack=True, which shows Python's functions.",
        ),
    ],
)
def test_waits_are_of_what_makes_them(
    warehouse: Warehouse, tmp_path: Path, op: str | None, call: str, after: float, text: str, remedy: str
) -> None:
    """Four kernels of 200 us, each with a wait for it that returns 5 us later; then nothing is recorded for a time, and
    the next op launches after 40 us.
    """
    events, at = [], 0.0
    for number in range(1, 5):
        launch = launched(number, at + 30, at + 40, at + 240)
        launch[0] |= {"ts": at, "dur": 42}
        events += [*launch, event("cuda_runtime", call, at + 50, at + 245, correlation=100 + number)]
        events += [event("cpu_op", op, at + 46, at + 246)] if op else []
        length = 245 + after + bool(op)
        events.append(event("user_annotation", f"ProfilerStep#{number}", at, at + length))
        at += length
    [idle] = [each for each in of(advised(warehouse, tmp_path, *events), "device idle") if "after sync" in each.text]
    # Three gaps: the return, and of the time until the next launch returns as much as the host had waited.
    assert idle.ticks == 3 * (5 + min(after + 38, 190)) * 1000
    assert idle.text.endswith(text) and idle.remedy == remedy
    assert f"the waits are mostly {op or f'{call} in no op'}; " in idle.evidence


def test_a_path_beside_a_collective(warehouse: Warehouse, tmp_path: Path) -> None:
    """Of 1,000 us of the main thread's step 800 are between its ops, and in 700 of these another thread reduces."""
    step = event("user_annotation", "ProfilerStep#1", 0, 1000)
    ops = [event("cpu_op", "aten::mm", 0, 100), event("cpu_op", "aten::add", 900, 1000)]
    reduces = [event("user_annotation", "gloo:all_reduce", at, at + 350, thread=2) for at in (150, 500)]
    [path] = of(advised(warehouse, tmp_path, step, *ops, *reduces), "critical path")
    assert (
        path.text == "80 % of the critical path is on the host, between the ops of steps, while gloo:all_reduce runs."
    )
    assert (path.cause, path.ticks) == ("communication", 800_000)


def test_an_op_within_one_that_launches_is_part_of_it(warehouse: Warehouse, tmp_path: Path) -> None:
    """An op allocates in another for 300 us before it launches: the launch returns 408 us after the first kernel."""
    slow = launched(2, 500, 530, 560, op="aten::batch_norm")
    slow[0] |= {"ts": 100, "dur": 410}
    inner = event("cpu_op", "aten::empty", 150, 450)
    [idle] = [
        each
        for each in of(advised(warehouse, tmp_path, *launched(1, 0, 20, 100), *slow, inner), "device idle")
        if (each.share_percent or 0) > 20
    ]
    assert (idle.cause, idle.ticks) == ("host", 408_000)


@pytest.mark.parametrize(
    ("share", "text"),
    [(49.9, "49.9 %"), (49.98, "49.9 %"), (50, "50 %"), (50.4, "50 %"), (49.4, "49 %"), (99.7, "over 99 %")],
)
def test_less_than_half_is_no_half(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize("call", ["xpuLaunchKernel", "fooEnqueueTheKernel", "runFunction", "hipExtModuleLaunchKernel"])
def test_launches_of_any_runtime_may_be_lost(warehouse: Warehouse, tmp_path: Path, call: str) -> None:
    """Three launches, of which one has a kernel: the reader and advice count the same."""
    events = [*launched(1, 0, 20, 50)]
    events[1]["name"] = call
    for number in (2, 3):
        events.append(event("cuda_runtime", call, 100 * number, 100 * number + 8, correlation=number))
    found = advised(warehouse, tmp_path, *events)
    assert [each.text for each in of(found, "lost kernels")] == [
        "2 launches of 3 have no event of a device: their kernels are missing."
    ]
    detail = "SELECT detail FROM findings WHERE rule = 'lost kernels'"
    assert warehouse.rows(detail)[1][0][0].startswith("2 of 3 launches")


@pytest.mark.parametrize(("after", "at"), [(1000, 1020), (100, 1020), (1000, 5000)])
def test_an_unknown_time_silences_what_depends_on_it(
    warehouse: Warehouse, tmp_path: Path, after: float, at: float
) -> None:
    """A kernel without a time, launched at 1,000 or at 100 us: it runs before the next of its stream, at 1,020 or 5,000.
    It may take 12 of the device's 4,000 us in the first, so the pause before is known; and 900, or 4,000, in the others.
    """
    lost = launched(2, after, 0, 0)
    lost[2] |= {"ts": 0, "dur": 0}
    sort = [event("cpu_op", "aten::sort", 150, 990), event("cpu_op", "aten::sort", 1100, 4000)]
    events = [*launched(1, 0, 20, 60), *lost, *launched(3, 1012, at, at + 10), *sort, *launched(4, 4010, 4030, 4060)]
    rules = {each.rule for each in advised(warehouse, tmp_path, *events)}
    assert ("device idle" in rules) == ((after, at) == (1000, 1020))


def test_streams_that_ran_before_run_nothing_earlier(warehouse: Warehouse, tmp_path: Path) -> None:
    """The same wait of a stream that has run what is recorded: it isn't known for what."""
    early, late = launched(1, 0, 20, 60), launched(2, 100, 5000, 5100)
    [idle] = of(advised(warehouse, tmp_path, *early, *late), "device idle")
    assert (idle.severity, idle.text) == ("low", "Device 0 runs nothing that is recorded while launched kernels wait.")


def test_counters_instead_of_times(warehouse: Warehouse, tmp_path: Path) -> None:
    """With profiler_metrics, no kernel is lost: each was run for its counters."""
    calls = [each for number in (1, 2) for each in launched(number, 100 * number, 0, 0)[:-1]]
    ranges = [event("cuda_profiler_range", "gemm", 100 * n, 100 * n + 9, 7, sm__cycles=5.0, device=0) for n in (1, 2)]
    [found] = of(advised(warehouse, tmp_path, *calls, *ranges), "lost kernels")
    assert (found.severity, found.text) == ("medium", "Counters of kernels were recorded instead of their times.")
    assert "profiler_metrics" in found.remedy
    warehouse.remove("t")
    timed = launched(3, 300, 320, 350)
    [found] = of(advised(warehouse, tmp_path, *calls, *ranges, *timed), "lost kernels")
    assert found.text == "2 launches of 3 have no event of a device: their kernels are missing."


def test_what_a_program_does_on_the_host_alone(warehouse: Warehouse, tmp_path: Path) -> None:
    """Without a device, what takes the steps is said, by ops and functions, as no loss and without a remedy."""
    step = event("user_annotation", "ProfilerStep#1", 0, 1000)
    slow = event("python_function", "tokens.py(3): encode", 10, 610)
    [function, op] = of(
        advised(warehouse, tmp_path, step, slow, event("cpu_op", "aten::mm", 620, 980)), "critical path"
    )
    assert function.text == "60 % of the critical path is tokens.py(3): encode."
    assert op.text == "36 % of the critical path is aten::mm."
    assert {(each.severity, each.remedy) for each in (function, op)} == {("low", "")}
    assert "device" not in function.evidence + op.evidence


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (990, "compile_b (dynamo_timed)."),
        (980, "compilation, most in compile_b (dynamo_timed) (98 %)."),
        (500, "compilation, most in compile_b (dynamo_timed) (50 %)."),
        (300, "compilation, most in compile_"),
    ],
)
def test_a_part_of_compilation_is_no_more_than_that(warehouse: Warehouse, tmp_path: Path, most: int, said: str) -> None:
    """One of three parts has nearly all of the time, half, or less."""
    ends = [(1000 - most) // 2, (1000 - most) // 2 + most]
    names = ("compile_a", "compile_b", "compile_c")
    parts = [
        event("cpu_op", f"{name} (dynamo_timed)", start, end)
        for name, start, end in zip(names, [0, *ends], [*ends, 1000], strict=True)
    ]
    [found] = of(advised(warehouse, tmp_path, *parts), "critical path")
    assert found.text.startswith(f"100 % of the critical path is {said}")


def test_an_idle_device_before_its_first_event(warehouse: Warehouse, tmp_path: Path) -> None:
    """A step of 10,000 us: the first kernel starts after 9,520, for 8,900 of which the host prepares its input."""
    frames = [event("python_function", "main", 0, 10_000), event("python_function", "prepare", 100, 9000)]
    step = event("user_annotation", "ProfilerStep#1", 0, 10_000)
    found = advised(warehouse, tmp_path, step, *frames, *launched(1, 9500, 9520, 9600), *launched(2, 9580, 9610, 9990))
    [use] = of(found, "gpu utilization")
    assert use.text == "The device is mostly idle within the steps, most of it before its first event."
    assert "9,520 us of it before its first event, the host mostly in prepare; " in use.evidence and not use.remedy


@pytest.mark.parametrize(
    ("every", "within", "apart", "is_incomplete"),
    [(1000, 0, 0, True), (1000, 999, 0, False), (1, 0, 0, False), (1, 0, 10**7, False)],
)
def test_a_file_without_most_of_what_ran(
    warehouse: Warehouse, tmp_path: Path, every: int, within: int, apart: int, is_incomplete: bool
) -> None:
    """Ten ops, each of which launches a kernel; their numbers are those of ten, or of 9,001 events of the host. These are
    missing, or allocations between the ops. Those of a part of a longer recording are not missing: of five ops, and of
    five later ones.
    """
    events = [
        each for number in range(1, 11) for each in launched(number, 90 * number, 90 * number + 10, 90 * number + 30)
    ]
    for number, op in enumerate([each for each in events if each["cat"] == "cpu_op"]):
        op["args"]["Ev Idx"] = every * number + apart * (number >= 5)
        for other in range(1, within + 1):
            allocated = memory(90 * number + other / 1000, 64, 64, type=0, device=-1)
            allocated["args"]["Ev Idx"] = every * number + other
            events.append(allocated)
    found = advised(warehouse, tmp_path, *events)
    told = [each.evidence for each in of(found, "incomplete file")]
    assert [text.partition(";")[0] for text in told] == (["it has 10 events of the host"] if is_incomplete else [])
    # From the end of each kernel to the start of the next, 70 us.
    idle = [each for each in of(found, "device idle") if "neither has the host" in each.text]
    assert [(each.ticks, each.severity) for each in idle] == ([(9 * 70_000, "low")] if is_incomplete else [])
    assert len(of(found, "device idle")) == (1 if is_incomplete else 2)
    assert bool(of(found, "gpu utilization")) != is_incomplete


@pytest.mark.parametrize("broadcasts", [True, False])
def test_an_op_of_many_small_ones(warehouse: Warehouse, tmp_path: Path, broadcasts: bool) -> None:
    """Of 900 us in an op that launches nothing, 400 are in each of two within it: it is named, as they are parts of it."""
    ops = [("aten::unflatten_dense_tensors", 110, 1010), ("aten::slice", 120, 520), ("aten::view", 540, 940)]
    events = [event("cpu_op", *each) for each in ops]
    if broadcasts:
        events.append(event("user_annotation", "DistributedDataParallel.forward", 0, 1100))
        events.append(event("user_annotation", "nccl:broadcast", 20, 30))
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 100), *events, *launched(2, 1020, 1040, 1090))
    [idle] = [each for each in of(found, "device idle") if each.cause and each.cause.startswith("cpu_op")]
    assert idle.text == "Device 0 idles while the host runs mostly aten::unflatten_dense_tensors."
    assert (idle.ticks, "broadcast_buffers=False" in idle.remedy) == (900_000, broadcasts)
    assert "most in aten::slice (44 %) and aten::view (44 %)" in idle.evidence


@pytest.mark.parametrize(("thread", "at", "length"), [(1, 1, 1), (2, 1, 1), (1, 200, 90)])
def test_a_backward_pass_without_its_thread(
    warehouse: Warehouse, tmp_path: Path, thread: int, at: int, length: int
) -> None:
    """Of 1,000 us of the path 800 are in the annotation of the backward pass, in which nothing is recorded of the thread,
    or an op of 90 us; ops are of this thread alone, or of another, too."""
    events = [event("cpu_op", "aten::mm", 0, 100), event("user_annotation", "## backward ##", 100, 900)]
    events += [event("cpu_op", "aten::add", 900, 1000), event("cpu_op", "aten::relu", at, at + length, thread)]
    [path] = of(advised(warehouse, tmp_path, *events), "critical path")
    assert path.text.endswith(" of the critical path is ## backward ##.")
    assert ("for which it waits, isn't in the file" in path.evidence) == (thread == 1 and length == 1)


@pytest.mark.parametrize(("every", "is_slowed"), [(10, True), (40, False)])
def test_recorded_functions_slow_the_host(warehouse: Warehouse, tmp_path: Path, every: int, is_slowed: bool) -> None:
    """Ten kernels of 20 us, 200 us apart; between them a function of Python begins every 10 us, or every 40."""
    events = [event("user_annotation", "ProfilerStep#1", 0, 2300)]
    for number in range(1, 11):
        at = 200 * number
        events += launched(number, at, at + 10, at + 30)
        events += [event("python_function", "f", at + each, at + each + 2) for each in range(30, 190, every)]
    [idle] = of(advised(warehouse, tmp_path, *events), "device idle")
    # Between the end of a kernel and the return of the next launch; 16 functions begin in each, or 4.
    assert (idle.ticks, idle.severity) == (9 * 178_000, "medium" if is_slowed else "high")
    assert ("the profiler recorded 144 functions of Python meanwhile" in idle.evidence) == is_slowed
    assert idle.text.endswith("Recording Python's functions slows the host.") == is_slowed
    assert idle.remedy.startswith("Record without with_stack") == is_slowed and "torch.compile" in idle.remedy


@pytest.mark.parametrize(("first", "is_first"), [(4000, True), (200, False)])
@pytest.mark.parametrize("call", [True, False])
def test_first_calls_are_no_slow_launches(
    warehouse: Warehouse, tmp_path: Path, first: int, is_first: bool, call: bool
) -> None:
    """Five calls of an op that launches: the first takes 4,000 us, or 200, later ones 100 us each, or its launches do."""
    events, at = launched(1, 0, 20, 60, op="aten::relu"), 100
    for number in range(2, 7):
        length = first if number == 2 else 100
        made = launched(number, at, at + length + 5, at + length + 20)
        made[0]["dur"] = length
        made[1] |= {"ts": at + 2, "dur": length - 4} if call else {"ts": at + length - 10}
        events += made
        at += length + 40
    found = advised(warehouse, tmp_path, *events)
    told = [each for each in of(found, "device idle") if each.cause == "first_calls"]
    assert bool(told) == is_first
    if is_first:
        assert (
            "first calls, most in that of aten::mm: 4,000 us, where the median of 4 later calls is 100 us"
            in told[0].evidence
        )
        assert "after a warm-up" in told[0].remedy and "graphs" not in told[0].remedy
        assert told[0].ticks and told[0].ticks >= 3_990_000


def test_what_is_called_once_has_no_later_calls(warehouse: Warehouse, tmp_path: Path) -> None:
    """An op of 4,000 us is called once: nothing tells that it is long because it is the first."""
    slow = launched(2, 100, 4120, 4200, op="aten::relu")
    slow[0]["dur"], slow[1]["ts"] = 4010, 4100
    found = advised(warehouse, tmp_path, *launched(1, 0, 20, 60), *slow, *launched(3, 4210, 4230, 4250))
    assert not [each for each in found if each.cause == "first_calls"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("inner", "is_inner"),
    [
        ("inspect.py(2397): _signature_from_function", True), ("/usr/lib/python3.12/re/__init__.py(163): match", True),
        ("<built-in method sleep of module object>", True), ("torch/nn/functional.py(7): softmax", True),
        ("threading.py(589): wait", True), ("train.py(10): step", False), ("my_inspect.py(3): f", False),
        ("/usr/lib/python3.12/site-packages/mine/re_py.py(2): f", True), ("nn.Module: Linear_0", False),
    ],
)  # fmt: skip
def test_inner_functions_have_their_caller(warehouse: Warehouse, tmp_path: Path, inner: str, is_inner: bool) -> None:
    """A function that launches nothing runs for 800 us between two kernels, called by another of Python and one of a program."""
    events = [*launched(1, 0, 20, 50), *launched(2, 910, 930, 960)]
    for name, start, end in (
        ("model.py(20): generate", 55, 905),
        ("contextlib.py(60): inner", 57, 903),
        (inner, 60, 900),
    ):
        events.append(event("python_function", name, start, end))
    for number, made in enumerate(each for each in events if each["cat"] == "python_function"):
        made["args"] |= {"Python id": number + 1, "Python parent id": number or None}
    [idle] = [each for each in of(advised(warehouse, tmp_path, *events), "device idle") if each.ticks == 850_000]
    assert (", called by model.py(20): generate" in f"{idle.text} {idle.evidence}") == is_inner


@pytest.mark.parametrize("pageable", [True, False])
def test_pinned_memory_is_for_pageable_copies(warehouse: Warehouse, tmp_path: Path, pageable: bool) -> None:
    load = event("user_annotation", f"enumerate(DataLoader)#{LOADERS[0]}.__next__", 60, 900)
    copy = [
        event("cuda_runtime", "cudaMemcpyAsync", 902, 904, correlation=9),
        event("gpu_memcpy", f"Memcpy HtoD ({'Pageable' if pageable else 'Pinned'} -> Device)", 905, 906, 7, correlation=9, device=0, stream=7),
    ]  # fmt: skip
    step = event("user_annotation", "ProfilerStep#1", 0, 1000)
    found = advised(warehouse, tmp_path, step, *launched(1, 0, 20, 50), load, *copy, *launched(2, 910, 930, 960))
    [loader] = of(found, "data loader")
    assert ("pin_memory" in loader.remedy) == pageable


@pytest.mark.parametrize("name", ["aten::empty", "aten::sort"])
def test_what_runs_once_may_be_the_start(name: str) -> None:
    """An op that moves, or allocates, has no other remedy; one that computes has its own. A loader keeps both."""
    once = Stretch(True, 60.0)
    said = remedy("cpu_op", "op", name, TRAITS, once)
    assert said.startswith("60 % of it is in one gap") == (name == "aten::empty")
    assert remedy("data_loading", "wait", None, TRAITS, once).endswith(
        "after a warm-up. If it isn't: Set num_workers of DataLoader."
    )


def test_launches_that_wait_for_what_they_launch(warehouse: Warehouse, tmp_path: Path) -> None:
    """A runtime whose launches return when their kernels have ended: of each 10 ms, 9 are in one, 8 of its kernel."""
    events = []
    for number in range(1, 11):
        at = 10_000 * number
        op, call, kernel = launched(number, at, at + 500, at + 8500)
        events += [{**op, "dur": 9010}, {**call, "dur": 9000}, kernel]
    found = advised(warehouse, tmp_path, *events)
    [path] = [each for each in of(found, "critical path") if each.cause == "blocking"]
    assert path.text.endswith("the host waits in it until what it launches has ended.")
    assert path.remedy == "Make these kernels faster: etq kernels lists them."
    assert not [each for each in found if "on the critical path: faster kernels" in each.evidence]
