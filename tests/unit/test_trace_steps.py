"""The step that each event of a trace belongs to, against plain Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.ingest.trace.reader import read_torch_trace
from tests.sampling import examples
from tests.trace_builders import event

MOMENTS = st.integers(0, 30)
BEGINS = st.integers(1, 31)  # an event at 0 that lasts 0 has no known time


@examples(100)
@given(st.lists(st.tuples(BEGINS, MOMENTS), max_size=12), st.lists(st.tuples(BEGINS, MOMENTS), max_size=8))
def test_the_step_of_an_event(steps: list[tuple[int, int]], launches: list[tuple[int, int]]) -> None:
    """It is the last step to begin, of those that contain the event, or the launch of an event of a device; else none."""
    # Equal starts are in the order of the file.
    spans = sorted(((start, start + length) for start, length in steps), key=lambda each: each[0])
    made = [event("user_annotation", f"ProfilerStep#{place}", *each) for place, each in enumerate(spans)]
    for number, (at, delay) in enumerate(launches, 1):
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=number))
        made.append(event("kernel", "gemm", at + delay, at + delay + 5, 7, correlation=number, device=0, stream=7))
    runs = {}
    for name, rows in read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made"):
        if name == "trace_events":
            runs.update({row["event_index"]: row["run_index"] for row in rows.to_pylist()})
    for number, (at, _) in enumerate(launches):
        around = [place for place, (start, end) in enumerate(spans) if start <= at <= end]
        place = len(spans) + 2 * number
        assert runs[place] == runs[place + 1] == max(around, default=len(spans))


# Category and name of events of the host, by their columns in `trace_steps`.
HOST = {
    "runtime_ticks": ("cuda_runtime", "cudaDeviceSynchronize"),
    "data_loader_ticks": ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    "cpu_exec_ticks": ("cpu_op", "aten::add"),
    "communication_ticks": ("cpu_op", "gloo:all_reduce"),
}
DEVICE = {
    "kernel_ticks": ("kernel", "gemm"),
    "communication_ticks": ("kernel", "ncclDevKernel_AllReduce_Sum_f32"),
    "memcpy_ticks": ("gpu_memcpy", "Memcpy HtoD"),
    "memset_ticks": ("gpu_memset", "Memset"),
}
FIRST = ("kernel_ticks", "communication_ticks", "memcpy_ticks", "memset_ticks", "runtime_ticks", "data_loader_ticks")
SPANS = st.tuples(BEGINS, MOMENTS)


def windows(
    steps: dict[int, int], launches: list[tuple[int, int, int]], unlaunched: list[int]
) -> list[tuple[int, int] | None]:
    """Start and end of each step, None for those that were cut off. `steps` has ends by start, `launches` the moment of
    the call, start and end of the work; `unlaunched` the ends of the other work.
    """
    work: dict[int, list[tuple[int, int]]] = {start: [] for start in steps}
    others = [*unlaunched]
    for at, start, end in launches:
        if within := [step for step in steps if step <= at <= steps[step]]:
            work[max(within)].append((start, end))
        else:
            others.append(end)
    counts = [len(work[start]) for start in sorted(steps)]
    if not any(counts):
        return [(start, steps[start]) for start in sorted(steps)]
    reached = None
    if of_first := work[min(steps)]:
        reached = max((end for end in others if end < min(of_first)[0]), default=None)
    found: list[tuple[int, int] | None] = []
    for start in sorted(steps):
        begin = start if reached is None else max(start, reached)
        reached = max([begin, steps[start], *(end for _, end in work[start])])
        found.append((begin, reached))
    last = max(place for place, count in enumerate(counts) if count)
    return found[: last + 1] + [None] * (len(found) - last - 1)


@examples(200)
@given(
    st.dictionaries(BEGINS, MOMENTS, max_size=6),
    st.lists(st.tuples(st.sampled_from(sorted(HOST)), SPANS), max_size=8),
    st.lists(st.tuples(st.sampled_from(sorted(DEVICE)), SPANS, BEGINS | st.none()), max_size=8),
)
def test_the_times_of_steps(
    lengths: dict[int, int],
    hosts: list[tuple[str, tuple[int, int]]],
    devices: list[tuple[str, tuple[int, int], int | None]],
) -> None:
    """Each moment counts for the first category that applies; the moments are asked one by one."""
    made: list[dict[str, Any]] = []
    ran: list[tuple[str, int, int]] = []
    for start, length in lengths.items():
        made.append(event("user_annotation", f"ProfilerStep#{start}", start, start + length))
    for column, (start, length) in hosts:
        made.append(event(*HOST[column], start, start + length, 2))
        ran.append((column, start, start + length))
    launches, unlaunched = [], []
    for number, (column, (start, length), at) in enumerate(devices, 1):
        if at is not None:
            made.append(event("cuda_runtime", "cudaLaunchKernel", at, at, 3, correlation=number))
            launches.append((at, start, start + length))
        else:
            unlaunched.append(start + length)
        work = event(*DEVICE[column], start, start + length, number, correlation=number, device=0, stream=number)
        made.append(work)
        ran.append((column, start, start + length))
    if any(DEVICE[column][0] == "kernel" for column, *_ in devices):  # then gloo's is an op as others
        ran = [(each[0].replace("communication", "cpu_exec"), *each[1:]) for each in ran[: len(hosts)]] + ran[
            len(hosts) :
        ]
    rows = [
        row
        for name, batch in read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made")
        if name == "trace_steps"
        for row in batch.to_pylist()
    ]
    steps = {start: start + length for start, length in lengths.items()}
    if not steps:
        ops = [span for (column, _), (_, *span) in zip(hosts, ran, strict=False) if HOST[column][0] == "cpu_op"]
        steps = {min(start for start, _ in ops): max(end for _, end in ops)} if ops else {}
    assert [(row["host_start_ticks"], row["host_end_ticks"]) for row in rows] == [
        (start * 1000, end * 1000) for start, end in sorted(steps.items())
    ]
    assert [row["step"] for row in rows] == (sorted(lengths) or [0] * len(steps))
    for row, window in zip(rows, windows(steps, launches, unlaunched), strict=True):
        columns = (*FIRST, "cpu_exec_ticks", "other_ticks")
        if window is None:
            assert [row[column] for column in ("start_ticks", "end_ticks", *columns)] == [None] * 10
            continue
        expected = dict.fromkeys(columns, 0)
        for moment in range(*window):
            running = {column for column, start, end in ran if start <= moment < end}
            expected[next((column for column in columns if column in running), "other_ticks")] += 1000
        assert (row["start_ticks"], row["end_ticks"]) == (window[0] * 1000, window[1] * 1000)
        assert {column: row[column] for column in columns} == expected


@pytest.mark.parametrize(
    ("launches", "recorded", "are_whole", "lost"),
    [
        ((13, 10), (13, 10), [True, True], None),  # fewer launches than before, as where gradients are accumulated
        ((0, 1), (0, 1), [True, True], None),
        ((5, 0), (5, 0), [True, False], None),  # nothing was launched at the end
        ((5, 5), (5, 4), [True, False], "1 of 10"),  # a fifth
        ((5, 6), (5, 5), [True, True], "1 of 11"),
        ((5, 5), (3, 5), [False, True], "2 of 10"),
        ((5, 5), (0, 0), [True, True], "10 of 10"),  # none has work: steps of the host
    ],
)
def test_a_step_counts_if_the_work_of_its_launches_was_recorded(
    launches: tuple[int, int], recorded: tuple[int, int], are_whole: list[bool], lost: str | None
) -> None:
    made = []
    for step, (count, known) in enumerate(zip(launches, recorded, strict=True)):
        made.append(event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 50))
        for place in range(count):
            at = 100 * step + place
            made.append(event("cuda_runtime", "cudaLaunchKernel", at, at, correlation=at + 1))
            if place < known:
                made.append(event("kernel", "gemm", at, at + 2, 7, correlation=at + 1, device=0, stream=7))
    read = dict(read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made"))
    assert [row["end_ticks"] is not None for row in read["trace_steps"].to_pylist()] == are_whole
    names = ["ProfilerStep" if is_whole else "Incomplete step" for is_whole in are_whole]
    assert read["runs"].column("name").to_pylist() == names
    found = {row["rule"]: row["detail"] for row in read["findings"].to_pylist()} if "findings" in read else {}
    assert ("steps left out" in found) == (not all(are_whole))
    assert found.get("lost kernels", "").partition(" launches")[0] == (lost or "")


def test_kernels_without_a_launch_may_be_those_of_launches_without_kernels() -> None:
    made = [
        event("cuda_runtime", "cudaLaunchKernel", 10, 11, correlation=5),
        event("cuda_runtime", "cudaLaunchHostFunc", 20, 21, correlation=6),
        event("kernel", "ncclDevKernel_AllReduce", 12, 40, 7, correlation=0, device=0, stream=7),
    ]
    read = dict(read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made"))
    assert "findings" not in read
    # A host function that a stream calls is no kernel.
    purposes = {row["name"]: row["purpose"] for row in read["signatures"].to_pylist()}
    assert (purposes["cudaLaunchKernel"], purposes["cudaLaunchHostFunc"]) == ("launch", None)


STEPS = [(f"denoise_step_{step}", 10 + 90 * step, 90 + 90 * step) for step in range(4)]
RUN = "execute_diffusion_1_256x256"


@pytest.mark.parametrize(
    ("spans", "numbers"),
    [
        (STEPS, [0, 1, 2, 3]),
        (STEPS[2:], [2, 3]),
        # The steps of two images, and around those of one.
        ([(RUN, 5, 400), *STEPS, *((name, start + 500, end + 500) for name, start, end in STEPS)], [*range(8)]),
        ([("Denoising Step", *span) for _, *span in STEPS], [0, 1, 2, 3]),
        ([(RUN, 5, 400), (RUN, 410, 800)], [0, 1]),
        # Around a part of each step; with other names; beside steps of the profiler; one that overlaps another.
        ([(name, start, start + 9) for name, start, _ in STEPS], []),
        ([("transformer_forward", *span) for _, *span in STEPS], []),
        ([*STEPS, ("ProfilerStep#7", 1, 200), ("ProfilerStep#8", 201, 400)], [7, 8]),
        ([*STEPS, ("denoise_step_9", 15, 95)], []),
    ],
)  # fmt: skip
def test_steps_of_a_diffusion_model(spans: list[tuple[str, int, int]], numbers: list[int]) -> None:
    """They are those of a trace without others, by the names of annotations; around others they are none."""
    made = [*(event("user_annotation", *span) for span in spans), event("cpu_op", "aten::mm", 11, 12)]
    found = dict(read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made"))
    names = [name for name in found["runs"].column("name").to_pylist() if name != "Outside of steps"]
    assert names == (["ProfilerStep"] * len(numbers) or ["Trace"])
    assert not numbers or found["trace_steps"].column("step").to_pylist() == numbers
