"""Critical paths: planted ones, all paths by plain Python, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.hta import hta
from tests.launch_traces import SHAPES
from tests.path_reference import Paths
from tests.path_traces import OF_HTA, STEP
from tests.path_traces import Path as Made
from tests.sampling import thinned
from tests.sql.test_device_idle import OTHERS, SERIAL, recorded_from
from tests.trace_builders import event, trace, two_steps
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style
from tests.trace_reference import load
from tests.traces import Traces

PATH = """
    SELECT p.kind, p.start::BIGINT, (p.start + p.duration)::BIGINT, p.event_index, p.op
    FROM critical_path($c, unit := 'ns', step_name := $name, step := $step) AS p
"""
HOST: Final = ("op", "call", "annotation", "python", "other", "host")
DEVICE: Final = ("kernel", "memcpy", "memset")
# The edges of HolisticTraceAnalysis that take time.
EDGES: Final = {
    **dict.fromkeys(("op", "call", *DEVICE), "OPERATOR_KERNEL"),
    "launch_delay": "KERNEL_LAUNCH_DELAY",
    "stream_delay": "KERNEL_KERNEL_DELAY",
}


def check(warehouse: Warehouse, capture: str, events: list[dict[str, Any]]) -> int:
    """The number of parts that the paths of the recording and of each step have, by plain Python."""
    paths, begin, counted = Paths(events), recorded_from(events), 0
    for name in (None, *dict.fromkeys(each.name for each in paths.steps())):
        start, end = paths.recording() if name is None else paths.step(name)
        expected = [
            (each.kind, each.start - begin, each.end - begin, each.place, each.op)
            for each in paths.find(start, end, name)
        ]
        found = warehouse.rows(PATH, c=capture, name=name, step=None)[1]
        assert found == expected
        # Of the recording, the first wait may not be on the path.
        ends = [expected[0][1] if name is None and expected else start - begin, *(row[2] for row in found)]
        assert [row[1] for row in found] == ends[:-1], "a gap, or an overlap"
        assert ends[-1] == end - begin
        counted += len(found)
    return counted


@pytest.mark.parametrize("name", thinned([*SERIAL, *PROGRAMS], ("recorded", "several ranks")))
def test_by_plain_python(launch_traces: Warehouse, name: str) -> None:
    """Of programs, several processes, threads and devices, graphs, and launches that were not recorded."""
    content = SHAPES[name]().trace() if name in SHAPES else PROGRAMS[name](Style())[0]
    assert check(launch_traces, name, json.loads(content)["traceEvents"])


@pytest.mark.parametrize("name", thinned([*OTHERS, "gpu/resnet50_dataloader"], OTHERS[1:2]))
def test_traces_that_others_published(warehouse: Warehouse, name: str) -> None:
    path = shared_file(f"captures/torch/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    assert check(warehouse, "t", load(path))


@pytest.mark.parametrize("seed", thinned(range(60), (1,)))
def test_paths_that_are_known(warehouse: Warehouse, seed: int) -> None:
    """Traces are generated along their path, and each part is found as it was generated."""
    made = Made(seed)
    warehouse.ingest(made.trace(), name="t")
    query = "SELECT p.kind, p.name, p.op, p.start::BIGINT, (p.start + p.duration)::BIGINT FROM critical_path('t') AS p"
    found = warehouse.rows(query)[1]
    assert found == [(*each[:3], each[3] - made.begin, each[4] - made.begin) for each in made.parts]
    # Kernels that run in another stream at the same time are not on the path.
    beside = warehouse.rows("SELECT count(*) > 0 FROM events AS e WHERE e.name = 'side'")[1]
    assert beside == [(True,)] and "side" not in {row[1] for row in found}


@pytest.mark.parametrize("name", thinned([name for name in OF_HTA if name.startswith("path")], ("path 0",)))
def test_paths_are_those_of_hta(warehouse: Warehouse, name: str) -> None:
    """HTA's edges that take time, one by one. In HTA, waits of the host and time between ops take none."""
    warehouse.ingest(OF_HTA[name], name="t")
    expected = hta("critical paths")[name]
    assert len(expected) > 100
    for arguments in ("step := 1", f"step_name := '{STEP}'", ""):
        query = f"SELECT p.kind, p.start, p.start + p.duration FROM critical_path('t', {arguments}) AS p"
        rows = warehouse.rows(query)[1]
        assert [[EDGES[row[0]], *row[1:]] for row in rows if row[0] in EDGES] == expected
        assert {row[0] for row in rows} - {*EDGES} == {"annotation", "synchronization", "dependency"}


def parts(warehouse: Warehouse, since: int = 0) -> list[str]:
    """Kind, name, start and end of each part of the path, in microseconds."""
    query = "SELECT p.kind, p.name, p.start, p.start + p.duration FROM critical_path('t') AS p WHERE p.start >= $since"
    return [f"{kind} {name} {start:g}-{end:g}" for kind, name, start, end in warehouse.rows(query, since=since)[1]]


def written(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("|")]


def test_recorded_waits(warehouse: Warehouse) -> None:
    """By hand, and as in HTA: the stream waits for the event that is recorded, not for the last that ended before it."""
    warehouse.ingest(OF_HTA["recorded waits"], name="t")
    assert parts(warehouse) == written(f"""
        annotation {STEP} 0-3 | op aten::mm 3-5 | launch_delay first 5-12 | kernel first 12-100
        | dependency waits 100-105 | kernel waits 105-200 | synchronization cudaDeviceSynchronize 200-215
        | op aten::item 215-220 | annotation {STEP} 220-230 | op aten::add 230-232 | launch_delay second 232-240
        | kernel second 240-300 | dependency waits_briefly 300-304 | kernel waits_briefly 304-400
        | synchronization cudaDeviceSynchronize 400-475 | op aten::item 475-480 | annotation {STEP} 480-500
    """)
    rows = warehouse.rows("SELECT p.kind, p.start, p.start + p.duration FROM critical_path('t') AS p")[1]
    expected = hta("critical paths")["recorded waits"]
    assert [[EDGES[row[0]], *row[1:]] for row in rows if row[0] in EDGES] == expected
    assert check(warehouse, "t", json.loads(OF_HTA["recorded waits"])["traceEvents"]) == 34


def test_waits_that_are_not_recorded_are_inferred(warehouse: Warehouse) -> None:
    """The same recording without `cuda_sync`: the last event that ended before counts, and short waits don't."""
    whole = json.loads(OF_HTA["recorded waits"])
    whole["traceEvents"] = [each for each in whole["traceEvents"] if each.get("cat") != "cuda_sync"]
    warehouse.ingest(json.dumps(whole).encode(), name="t")
    inferred = {"dependency waits 103-105", "kernel other 15-103", "launch_delay waits_briefly 296-304"}
    assert inferred <= {*parts(warehouse)}
    assert check(warehouse, "t", whole["traceEvents"])


def test_the_host_waits_for_a_recorded_event(warehouse: Warehouse) -> None:
    """By hand. `cudaEventSynchronize` waits for what was launched before the record, not for what ended last."""
    made = [event("cpu_op", "aten::item", 0, 200)]
    for number, at, name, stream, start, end in (
        (1, 5, "waited_for", 7, 12, 100), (3, 20, "launched_later", 7, 100, 104), (4, 25, "other", 20, 30, 103),
    ):  # fmt: skip
        ids = {"correlation": number}
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 2, **ids))
        made.append(event("kernel", name, start, end, stream, device=0, stream=stream, **ids))
    made.append(event("cuda_runtime", "cudaEventRecord", 10, 11, correlation=2))
    made.append(event("cuda_runtime", "cudaEventSynchronize", 40, 110, correlation=5))
    waits = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2, "stream": -1}
    made.append(event("cuda_sync", "Event Sync", 41, 109, -1, correlation=5, device=0, **waits))
    warehouse.ingest(trace(*made), name="t")
    assert parts(warehouse) == written("""
        op aten::item 0-5 | launch_delay waited_for 5-12 | kernel waited_for 12-100
        | synchronization cudaEventSynchronize 100-110 | op aten::item 110-200
    """)


def test_two_steps(warehouse: Warehouse) -> None:
    """By hand. The annotation of the loader starts when its step does, and ends 2 us before the op."""
    warehouse.ingest(trace(*two_steps()), name="t")
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert parts(warehouse, since=35) == written(f"""
        op aten::linear 35-40 | annotation ProfilerStep#4 40-100 | annotation {loader} 100-108
        | annotation ProfilerStep#5 108-110 | op aten::relu 110-112 | call cudaLaunchKernel 112-118
        | op aten::relu 118-120 | annotation ProfilerStep#5 120-130 | launch_delay Memcpy HtoD 130-150
        | memcpy Memcpy HtoD 150-170 | stream_delay relu_kernel 170-180 | kernel relu_kernel 180-220
    """)
    # The path takes 210 us.
    columns = "o.op, o.total, o.host, o.device, o.delay, o.share_percent, o.kernel"
    assert warehouse.rows(f"SELECT {columns} FROM critical_ops('t') AS o LIMIT 2")[1] == [
        ("ProfilerStep*", 82, 82, 0, 0, pytest.approx(100 * 82 / 220), None),
        ("aten::relu", 60, 10, 40, 10, pytest.approx(100 * 60 / 220), "relu_kernel"),
    ]


def test_copies_of_pageable_memory_and_streams_are_waited_for(traces: Traces) -> None:
    """By hand. The call of a copy returns when its copy has ended; a synchronization with stream 7 waits for stream 7."""
    copy = "Memcpy DtoH (Device -> Pageable)"
    traces.take(
        event("cpu_op", "aten::item", 0, 100),
        event("cuda_runtime", "cudaMemcpyAsync", 10, 60, correlation=1),
        event("gpu_memcpy", copy, 20, 55, 7, stream=7, correlation=1, device=0),
        event("cuda_runtime", "cudaLaunchKernel", 62, 64, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 65, 67, correlation=3),
        event("kernel", "waited_for", 66, 80, 7, stream=7, correlation=2, device=0),
        event("kernel", "of_another_stream", 70, 90, 20, stream=20, correlation=3, device=0),
        event("cuda_runtime", "cudaStreamSynchronize", 70, 95, correlation=4),
        event("cuda_sync", "Stream Sync", 70, 94, 7, stream=7, correlation=4, device=0),
    )
    assert parts(traces.warehouse) == written(f"""
        op aten::item 0-10 | launch_delay {copy} 10-20 | memcpy {copy} 20-55 | synchronization cudaMemcpyAsync 55-60
        | op aten::item 60-62 | launch_delay waited_for 62-66 | kernel waited_for 66-80
        | synchronization cudaStreamSynchronize 80-95 | op aten::item 95-100
    """)
    ids = traces.ask("critical_path", "correlation_id")
    assert [number for (number,) in ids] == [None, 1, 1, 1, None, 2, 2, 4, None]


def test_missing_steps(launch_traces: Warehouse) -> None:
    with pytest.raises(QueryError, match="step 77 is not complete in the trace; etq steps lists them"):
        launch_traces.rows("FROM critical_path('training 0', step := 77)")
    with pytest.raises(QueryError, match="call 9 of aten::mm_ is not in the trace; calls are numbered from 0"):
        launch_traces.rows("FROM critical_ops('training 0', step_name := 'aten::mm_', step := 9)")


def test_captures_without_devices(launch_traces: Warehouse) -> None:
    """The path of a trace without a device is the main thread; an ETDump has none."""
    kinds = "SELECT DISTINCT p.kind FROM critical_path($c) AS p"
    names = launch_traces.rows("SELECT c.name, c.format FROM captures AS c WHERE c.name IN ('steps_7', 'mlp')")[1]
    for name, of_format in names:
        found = {kind for (kind,) in launch_traces.rows(kinds, c=name)[1]}
        assert found <= {*HOST} and bool(found) == (of_format == "torch_trace")
    assert len(names) == 2
