"""What is per step is of the steps: asked of plain Python, and no part is longer than its whole."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.trace_builders import event

CAPTURES = Path(__file__).parents[1] / "captures"
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::add>"
DEVICES = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
GEMM = "ampere_sgemm_128x64_nn"


def report(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name="t")


def asked(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    return warehouse.rows(query)[1]


def test_kernels_before_the_steps_are_named_beside_them(warehouse: Warehouse) -> None:
    """Three kernels of 90 us before two steps, each with one of 40 us."""
    report(warehouse, "34_warmup_kernels")
    for view in ("kernel_table", "kernel_families", "work_totals"):
        query = f"SELECT total, per_step, outside_steps, steps FROM {view}('t', unit := 'us')"
        assert asked(warehouse, query) == [(350, 40, 270, 2)], view
    query = "SELECT op, per_step, outside_steps FROM op_efficiency('t', unit := 'us') ORDER BY ALL"
    assert asked(warehouse, query) == [("aten::mm", 40, 0), (None, 0, 270)]
    query = """
        SELECT name, self_device_per_step, device_outside_steps FROM key_averages('t', unit := 'us')
        WHERE self_device_time > 0 ORDER BY name
    """
    assert asked(warehouse, query) == [("(no op)", 0, 270), ("Cijk_gemm", 40, 270), ("aten::mm", 40, 0)]


def test_all_views_count_the_same_steps(warehouse: Warehouse) -> None:
    """The last step launched 10 kernels, the one before 13: all of them were recorded."""
    report(warehouse, "33_last_step")
    for query in (
        "SELECT DISTINCT steps FROM kernel_table('t')",
        "SELECT DISTINCT steps FROM average_step('t')",
        "SELECT DISTINCT steps FROM key_averages('t')",
        "SELECT count(*) FROM wide_steps('t')",
        "SELECT count(DISTINCT step) FROM step_breakdown('t')",
        "SELECT count(DISTINCT step) FROM device_breakdown('t', by := 'step')",
        "SELECT count(DISTINCT step) FROM tensor_core_use('t', by := 'step')",
        "SELECT count(DISTINCT run_index) FROM step_times",
    ):
        assert asked(warehouse, query) == [(4,)], query
    assert asked(warehouse, "SELECT per_step FROM kernel_table('t', unit := 'us')") == [(107.5,)]


def test_calls_without_their_kernels_are_in_no_mean(warehouse: Warehouse) -> None:
    """The kernels of the first two of four calls are missing, of 50 us each."""
    report(warehouse, "18_first_dropped")
    query = "SELECT calls, device_time_avg, self_device_per_step, steps FROM key_averages('t', unit := 'us')"
    assert asked(warehouse, f"{query} WHERE name = 'aten::mm'") == [(4, 50, 50, 2)]
    assert asked(warehouse, "SELECT step FROM wide_steps('t')") == [(2,), (3,)]
    assert asked(warehouse, "SELECT left(detail, 38) FROM findings WHERE rule = 'lost kernels'") == [
        ("2 of 4 launches of kernels have no eve",)
    ]
    assert asked(warehouse, "SELECT left(detail, 33) FROM findings WHERE rule = 'steps left out'") == [
        ("steps 0, 1 are not counted: a fif",)
    ]
    assert asked(warehouse, "SELECT rule, severity FROM advice('t')") == [("lost kernels", "high")]


def test_a_trace_without_any_of_its_kernels(warehouse: Warehouse) -> None:
    report(warehouse, "17_no_kernels")
    query = "SELECT device_time_avg, steps FROM key_averages('t') WHERE name = 'aten::mm'"
    assert asked(warehouse, query) == [(None, 1)]
    assert asked(warehouse, "SELECT rule FROM advice('t')") == [("lost kernels",)]


def events_of(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    read = json.loads(text, strict=False)
    found: list[dict[str, Any]] = read if isinstance(read, list) else read["traceEvents"]
    return [each for each in found if each.get("ph") == "X"]


@pytest.mark.parametrize(
    "name", ["tracelens/h100_qwen/h100_qwen", "gpu/resnet50_dataloader", "gpu/mi300_resnet_checkpoint"]
)
def test_the_work_that_steps_launched(warehouse: Warehouse, name: str) -> None:
    """By kind of work, against plain Python over the file."""
    path = shared_file(f"captures/torch/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    events = events_of(path)
    steps = [
        (each["ts"], each["ts"] + each["dur"])
        for each in events
        if each["name"].startswith("ProfilerStep#") and each.get("cat") != "gpu_user_annotation"
    ]
    called = {
        each["args"]["correlation"]: each["ts"]
        for each in events
        if each.get("cat", "").lower() in ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime")
        and "correlation" in each.get("args", {})
    }
    inside, outside = 0.0, 0.0
    for each in events:
        if each.get("cat", "").lower() in DEVICES:
            at = called.get(each["args"].get("correlation"))
            if at is not None and any(start <= at <= end for start, end in steps):
                inside += each["dur"]
            else:
                outside += each["dur"]
    assert inside and outside
    for view in ("kernel_families", "work_totals", "op_efficiency"):
        [row] = asked(warehouse, f"SELECT sum(per_step * steps), sum(outside_steps) FROM {view}('t', unit := 'us')")
        assert row == (pytest.approx(inside, rel=1e-6), pytest.approx(outside, rel=1e-6)), view
    [(total,)] = asked(warehouse, "SELECT sum(total) FROM wide_steps('t', unit := 'us')")
    streams = len({each["args"].get("stream") for each in events if each.get("cat", "").lower() in DEVICES})
    assert inside <= streams * total


def traces_with_steps() -> Iterator[Path]:
    """Every trace that tests have, and of those that others published."""
    for folder in (CAPTURES, shared_file("captures/torch"), shared_file("captures/reports")):
        for path in sorted(folder.rglob("*.json*")):
            if path.name.removesuffix(".gz").endswith(".json") and ".tb." not in path.name and ".hta." not in path.name:
                text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
                if b"ProfilerStep#" in text and b'"traceEvents"' in text:
                    yield path


# Where reports name times that can't be, which count here.
IMPOSSIBLE = ("10m_overflow_min.json",)


@pytest.mark.long
def test_no_part_is_longer_than_its_whole(warehouse: Warehouse) -> None:
    """The work of a step may end after it, and events of the host, too: what all steps launched and began on a stream
    or thread fits between the start of the first and the end of the last of these.
    """
    seen = 0
    for number, path in enumerate(traces_with_steps()):
        if path.name in IMPOSSIBLE:
            continue
        try:
            key = warehouse.ingest(path, name=f"t{number}").capture_id
        except Exception:  # files that no reader reads have tests of their own
            continue
        check_parts(warehouse, f"t{number}", key, path)
        seen += 1
    assert seen > 30


def check_parts(warehouse: Warehouse, name: str, key: int, path: object) -> None:
    [(steps, whole)] = asked(
        warehouse, f"SELECT count(*), sum(total) FROM wide_steps('{name}', unit := 'ns') AS w WHERE w.host IS NOT NULL"
    )
    query = f"""
        SELECT t.thread_index, s.on_device, sum(e.elapsed_ticks - coalesce(e.overlap_ticks, 0)) FILTER (s.on_device),
            max(e.start_ticks + e.elapsed_ticks)
        FROM event_ticks AS e
        JOIN signatures AS s USING (capture_id, signature_index)
        JOIN trace_events AS t USING (capture_id, event_index)
        JOIN runs AS r ON r.capture_id = e.capture_id AND r.run_index = e.run_index
        WHERE e.capture_id = {key} AND r.name IN ('ProfilerStep', 'ServingStep') AND e.elapsed_ticks >= 0
            AND (NOT s.on_device OR s.activity IN ('kernel', 'copy', 'fill'))
        GROUP BY ALL
    """
    threads = asked(warehouse, query)
    [(first,)] = asked(
        warehouse, f"SELECT min(host_start_ticks) FROM trace_steps WHERE capture_id = {key} AND start_ticks IS NOT NULL"
    )
    spans: dict[bool, list[int]] = defaultdict(list)
    for _, on_device, ticks, end in threads:
        spans[on_device].append(end - first)
        if on_device:
            assert ticks <= (end - first) * 1.05, (path, "a stream")
    for view, column, on_device in (
        ("kernel_table", "per_step", True),
        ("kernel_families", "per_step", True),
        ("copy_totals", "per_step", True),
        ("work_totals", "per_step", True),
        ("key_averages", "self_cpu_per_step", False),
        ("key_averages", "CASE WHEN NOT is_device THEN self_device_per_step END", True),
        ("module_tree", "host_self_per_step", False),
        ("module_tree", "device_self_per_step", True),
        ("time_tree", "self_per_execute", False),
    ):
        [(most,)] = asked(warehouse, f"SELECT coalesce(sum({column}), 0) FROM {view}('{name}', unit := 'ns')")
        # A stream's kernels overlap a little where the next starts before the end of one.
        room = sum(spans[on_device]) * (1.05 if on_device else 1 + 1e-9)
        assert most * steps <= room, (path, view, column, most * steps, room)
    if len(spans[True]) == 1:  # one stream: also within the mean of the steps
        [(most,)] = asked(warehouse, f"SELECT sum(per_step) FROM kernel_families('{name}', unit := 'ns')")
        assert most * steps <= whole * 1.05, (path, most * steps, whole)


@pytest.mark.parametrize("seed", range(8))
def test_made_up_traces(warehouse: Warehouse, seed: int) -> None:
    """Steps with gaps between them, kernels and copies that are launched in them, before, between, after, or nowhere."""
    random = Random(seed)
    made: list[dict[str, Any]] = []
    truth: dict[bool, dict[str, float]] = {True: defaultdict(float), False: defaultdict(float)}
    ops = {True: 0, False: 0}
    moment, free = 1000, 1000
    count = random.randint(1, 5)
    for number in range(-1, count + 1):
        is_step = 0 <= number < count
        start = moment
        for _ in range(random.randint(1, 6)):
            correlation = len(made) + 1
            is_copy = random.random() < 0.3
            name = "Memcpy HtoD (Pageable -> Device)" if is_copy else random.choice([KERNEL, GEMM])
            is_launched = number >= 0 or random.random() < 0.5
            length = random.randint(1, 60)
            if is_launched:
                made.append(event("cpu_op", "aten::add", moment, moment + 8))
                call = "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel"
                made.append(event("cuda_runtime", call, moment + 2, moment + 5, correlation=correlation))
                ops[is_step] += 8
            begin = max(free, moment + 5)
            details = {"correlation": correlation, "device": 0, "stream": 7}
            made.append(event("gpu_memcpy" if is_copy else "kernel", name, begin, begin + length, 7, **details))
            free = begin + length
            truth[is_step][name] += length
            moment += random.randint(9, 40)
        if is_step:
            made.append(event("user_annotation", f"ProfilerStep#{number}", start, moment))
        moment += random.randint(1, 30)
    warehouse.ingest(json.dumps({"traceEvents": made}).encode(), name="t")
    for view, column in (("work_totals", "event"), ("kernel_table", "kernel"), ("copy_totals", "event")):
        query = f"SELECT {column}, per_step * steps, outside_steps FROM {view}('t', unit := 'us')"
        for name, inside, outside in asked(warehouse, query):
            assert (inside, outside) == (pytest.approx(truth[True][name]), pytest.approx(truth[False][name])), view
    for view in ("kernel_families", "op_efficiency"):
        [row] = asked(warehouse, f"SELECT sum(per_step * steps), sum(outside_steps) FROM {view}('t', unit := 'us')")
        assert row == (pytest.approx(sum(truth[True].values())), pytest.approx(sum(truth[False].values()))), view
    query = "SELECT sum(cpu_per_step * steps), sum(cpu_time_total) FROM key_averages('t', unit := 'us')"
    assert asked(warehouse, f"{query} WHERE name = 'aten::add'") == [(pytest.approx(ops[True]), sum(ops.values()))]
    query = "SELECT per_execute * executes FROM time_tree('t', by := 'event', unit := 'us') WHERE name = 'aten::add'"
    assert sum(each for (each,) in asked(warehouse, query)) == pytest.approx(ops[True])
    query = "SELECT sum(t.ticks) FROM step_times AS t WHERE t.kind = 'device_total'"
    assert asked(warehouse, query) == [(1000 * sum(truth[True].values()),)]
    query = "SELECT sum(total), count(*) FROM wide_steps('t', unit := 'us')"
    [(whole, steps)] = asked(warehouse, query)
    assert steps == count and sum(truth[True].values()) <= whole


def test_a_step_lasts_as_long_as_what_is_per_step(warehouse: Warehouse) -> None:
    """A launch of another thread that ends after its step, one between a nested step and the end of the one around it,
    and work that only an external id gives to a step.
    """
    steps = [("ProfilerStep#0", 0, 100), ("ProfilerStep#1", 200, 300), ("ProfilerStep#2", 210, 240)]
    made = [event("user_annotation", name, start, end) for name, start, end in steps]
    made += [
        event("cpu_op", "aten::add", 400, 410, 2, external=9),
        event("user_annotation", "ProfilerStep#3", 390, 420),
    ]
    for number, (at, start, end) in enumerate([(95, 110, 160), (220, 240, 250), (260, 310, 350)], 1):
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 10, 2, correlation=number))
        made.append(event("kernel", KERNEL, start, end, 7, correlation=number, device=0))
    made.append(event("kernel", KERNEL, 430, 480, 7, correlation=4, external=9, device=0))
    warehouse.ingest(json.dumps({"traceEvents": made}).encode(), name="t")
    assert asked(warehouse, "SELECT per_step * steps FROM kernel_table('t', unit := 'us')") == [(50 + 10 + 40 + 50,)]
    query = "SELECT step, total, kernel FROM wide_steps('t', unit := 'us') ORDER BY step"
    assert asked(warehouse, query) == [(0, 160, 50), (1, 150, 50), (2, 0, 0), (3, 90, 50)]
