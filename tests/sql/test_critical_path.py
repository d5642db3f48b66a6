"""Critical paths, and what the host and devices waited for: planted, by plain Python, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from etq.errors import QueryError
from etq.ingest.trace.classes import rules
from etq.warehouse.warehouse import Warehouse
from tests import call_reference
from tests.conftest import shared_file
from tests.launch_traces import ALL_REDUCE, SHAPES, Machine, hta
from tests.path_reference import Paths
from tests.path_traces import ENGINE, OF_HTA, STEP
from tests.path_traces import Path as Made
from tests.sampling import thinned
from tests.sql.test_device_idle import SERIAL, recorded_from
from tests.sql.test_device_idle import check as check_gaps
from tests.trace_builders import event, trace, two_steps
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style
from tests.trace_reference import load, slices
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


@pytest.mark.long
@pytest.mark.parametrize("name", thinned([*SERIAL, *PROGRAMS], ("recorded", "several ranks")))
def test_by_plain_python(launch_traces: Warehouse, name: str) -> None:
    """Of programs, several processes, threads and devices, graphs, and launches that were not recorded."""
    content = SHAPES[name]().trace() if name in SHAPES else PROGRAMS[name](Style())[0]
    assert check(launch_traces, name, json.loads(content)["traceEvents"])


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_missing_steps(launch_traces: Warehouse) -> None:
    with pytest.raises(QueryError, match="step 77 is not complete in the trace; etq steps lists them"):
        launch_traces.rows("FROM critical_path('training 0', step := 77)")
    with pytest.raises(QueryError, match="call 9 of aten::mm_ is not in the trace; calls are numbered from 0"):
        launch_traces.rows("FROM critical_ops('training 0', step_name := 'aten::mm_', step := 9)")
    with pytest.raises(QueryError, match="no annotation or op of the trace is named forwrad; etq ops lists them"):
        launch_traces.rows("FROM critical_ops('training 0', step_name := 'forwrad')")


@pytest.mark.long
@pytest.mark.parametrize("view", ["critical_path", "critical_ops"])
def test_of_many_captures_those_without_the_step_have_no_rows(launch_traces: Warehouse, view: str) -> None:
    """Rows of a step of all captures are those of each that has it, asked alone."""
    query = f"SELECT c.name, p.* FROM captures AS c, LATERAL (FROM {view}(c.capture_id, step := 2)) AS p"
    rows = launch_traces.rows(query)[1]
    alone = []
    for (name,) in launch_traces.rows("SELECT c.name FROM captures AS c")[1]:
        with suppress(QueryError):
            alone += [(name, *row) for row in launch_traces.rows(f"FROM {view}($name, step := 2)", name=name)[1]]
    assert sorted(rows, key=repr) == sorted(alone, key=repr)
    assert 0 < len({name for name, *_ in alone}) < len(launch_traces.rows("FROM captures")[1])


@pytest.mark.long
def test_captures_without_devices(launch_traces: Warehouse) -> None:
    """The path of a trace without a device is the main thread; an ETDump has none."""
    kinds = "SELECT DISTINCT p.kind FROM critical_path($c) AS p"
    names = launch_traces.rows("SELECT c.name, c.format FROM captures AS c WHERE c.name IN ('steps_7', 'mlp')")[1]
    for name, of_format in names:
        found = {kind for (kind,) in launch_traces.rows(kinds, c=name)[1]}
        assert found <= {*HOST} and bool(found) == (of_format == "torch_trace")
    assert len(names) == 2


# Calls of the runtime or driver in which a host can wait, by cause; those of `host` are what launching consists of.
CALLS: Final = {
    "free": "hipFree", "allocation": "cudaMalloc", "pinned_memory": "hipHostMalloc", "module_load": "cuModuleLoadData",
    "graph_instantiation": "cudaGraphInstantiate", "creation": "cudaStreamCreateWithFlags",
    "synchronization": "hipDeviceSynchronize", "call": "cudaSomethingNew", "host": "hipExtLaunchKernel",
}  # fmt: skip
# Other names of such calls.
NAMES: Final = """
    cudaFree cuMemFree_v2 urUSMFree hipMalloc cudaMallocAsync cuMemAlloc_v2 cuMemCreate urUSMDeviceAlloc cudaHostAlloc
    cudaMallocHost cudaHostRegister hipHostFree cuLibraryLoadData hipModuleLoad urProgramBuildExp zeModuleCreate
    hipGraphInstantiate cudaStreamEndCapture hipStreamCreateWithPriority cuDevicePrimaryCtxRetain cudaStreamSynchronize
    cudaMemcpy hipMemcpyWithStream cuMemcpyDtoH_v2_ptds urQueueFinish zeCommandQueueSynchronize mtiaStreamSynchronize
    syclEventsWait doFree synchronizeStream recordEvent cudaMemcpyAsync cudaDeviceGetAttribute hipGetDevicePropertiesR0600
""".split()


class Held:
    """A trace in a warehouse."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.warehouse, self.folder = warehouse, folder

    def take(self, made: Machine) -> None:
        path = self.folder / "t.pt.trace.json"
        path.write_bytes(made.trace())
        self.warehouse.ingest(path, name="t")
        written = json.loads(path.read_bytes())["traceEvents"]
        check_gaps(self.warehouse, "t", written)
        check(self.warehouse, "t", written)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.warehouse.rows(query)[1]

    def advice(self) -> list[str]:
        """Rules, findings and remedies on waits."""
        query = "SELECT a.rule || ': ' || a.finding || ' ' || a.remedy FROM advice('t') AS a"
        return [row[0] for row in self.ask(query + " WHERE a.rule IN ('device idle', 'critical path')")]


@pytest.fixture
def held(warehouse: Warehouse, tmp_path: Path) -> Iterator[Held]:
    yield Held(warehouse, tmp_path)


def blocked(name: str, times: int = 6) -> Machine:
    """A host that launches a kernel, then waits 900 us in a call, of which the kernel runs for 100."""
    made = Machine()
    for _ in range(times):
        with made.frame("aten::conv"):
            made.launch("gemm", 100)
            made.write("cuda_runtime", name, made.now, made.now + 900, correlation=0)
            made.now += 905
    with made.frame("aten::conv"):
        made.launch("last", 100)
    made.synchronize("cudaDeviceSynchronize")
    return made


@pytest.mark.long
@pytest.mark.parametrize("cause", list(CALLS))
def test_a_host_that_waits_in_a_call(held: Held, cause: str) -> None:
    """By hand: a kernel ends 106 us after its launch; the call began 5 us after the launch, and the next comes 914 us after.

    On the critical path, a release waits for the kernel, which ends 799 us before it; an unknown call may wait for none.
    """
    name = CALLS[cause]
    held.take(blocked(name))
    call = None if cause == "host" else name
    assert (
        held.ask("SELECT g.cause, g.call, g.host_op, g.duration, g.host_time FROM device_idle('t') AS g")
        == [(cause, call, "aten::conv", 913 - 106 + 6, 913 - 106 + 4)] * 6
    )
    causes = held.ask("SELECT c.cause, c.call, c.gaps, c.total FROM device_idle_causes('t') AS c")
    assert causes == [(cause, call, 6, 6 * 813)]
    kinds = {"free": "free", "synchronization": "synchronization", "host": "launch", "call": None}
    if cause not in kinds:
        return
    rows = held.ask(f"""
        SELECT p.kind, p.call_kind, count(*), sum(p.duration) FROM critical_path('t') AS p
        WHERE p.name = '{name}' GROUP BY ALL
    """)
    waits = cause in ("free", "synchronization")
    assert rows == [("synchronization", kinds[cause], 6, 6 * 799) if waits else ("call", kinds[cause], 6, 6 * 900)]
    ops = held.ask("SELECT o.op, o.call FROM critical_ops('t') AS o LIMIT 1")
    assert ops == [("aten::conv", name)]
    advice = " ".join(held.advice())
    assert ("frees memory" in advice and "caching allocator" in advice) == (cause == "free")
    assert ("aten::conv waits for the device" in advice) == (cause == "synchronization")
    assert ("Launch fewer and larger ops" in advice) == (cause == "host")
    # Of an unknown call, only its name is known: its op isn't advised about. Launches that are slow are one item, that of
    # the idle device.
    assert ("aten::conv" in advice) == (cause == "synchronization")
    assert (f"idles while the host is in {name}" in advice) == (cause == "call")


@pytest.mark.long
def test_two_calls_that_take_half_each(held: Held) -> None:
    """The cause is that in which most of the time passed, the call that of the cause."""
    made = Machine()
    made.launch("first", 10)
    for name, length in (("cudaFree", 200), ("cudaMalloc", 150), ("cudaHostAlloc", 90), ("cudaMallocAsync", 300)):
        made.write("cuda_runtime", name, made.now, made.now + length, correlation=0)
        made.now += length
    made.launch("second", 10)
    held.take(made)
    assert held.ask("SELECT g.cause, g.call FROM device_idle('t') AS g") == [("allocation", "cudaMallocAsync")]


@pytest.mark.long
def test_known_calls_are_those_that_rules_on_names_find() -> None:
    """Names of published traces, and of the tests here. Each known name has one kind."""
    names = {*CALLS.values(), *NAMES}
    for name in ("mi300_sglang_decode", "b200_eager"):
        names |= {
            each.name
            for each in slices(load(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz")))
            if each.is_call
        }
    found = {name: (purpose, bool(waits)) for name in names for purpose, waits in [rules().of_call(name)]}
    assert found == {name: (call_reference.kind(name), call_reference.waits(name)) for name in names}
    assert len(names) > 60


def overlapped(latency: int, launch_delay: int = 6, *, calls: str | None = "hip") -> Machine:
    """A stream that waits for communication of another, `latency` after its end, as in DDP; all is launched ahead.

    A third stream runs what nothing waits for, and ends later than the communication.
    """
    made = Machine()
    for _ in range(6):
        # A launch to an idle device shows how long it needs.
        made.launch("warm", 20, delay=launch_delay)
        made.now = max(made.free.values()) + 100
    _, end = made.launch("backward", 500, delay=launch_delay)
    for _ in range(5):
        wait(made, calls)
        _, communicated = made.launch(ALL_REDUCE, 2000, 24, after=end + latency, call="hipExtLaunchKernel")
        wait(made, calls)
        _, end = made.launch("optimizer", 300, after=communicated + latency)
        made.launch("not_waited_for", communicated + 2 - made.now - launch_delay, 31, delay=launch_delay, overlaps=True)
    return made


def wait(made: Machine, calls: str | None) -> None:
    """A call that lets a stream wait. Neither it nor the record of an event has arguments."""
    if calls:
        made.write("cuda_runtime", f"{calls}StreamWaitEvent", made.now, made.now + 2, correlation=0)
        made.now += 3


@pytest.mark.long
@pytest.mark.parametrize(("calls", "latency"), thinned([("hip", 17), ("cuda", 3), ("cuda", 40)], ["hip"]))
def test_streams_that_wait_by_calls(held: Held, latency: int, calls: str) -> None:
    """The path goes from each kernel to the communication that it waited for, whatever else ends before it starts."""
    held.take(overlapped(latency, calls=calls))
    rows = held.ask("""
        SELECT p.kind, p.name, p.duration FROM critical_path('t') AS p WHERE p.start >= (
            SELECT p.start FROM critical_path('t') AS p WHERE p.kind = 'kernel' AND p.name = 'backward'
        )
    """)
    turn = [
        ("dependency", ALL_REDUCE, latency), ("kernel", ALL_REDUCE, 2000),
        ("dependency", "optimizer", latency), ("kernel", "optimizer", 300),
    ]  # fmt: skip
    assert rows == [("kernel", "backward", 500), *turn * 5]
    gaps = held.ask("""
        SELECT g.cause, g.waited_for, count(*) FROM device_idle('t', "by" := 'stream') AS g
        WHERE g.stream = 7 AND g.next_event = 'optimizer' GROUP BY ALL
    """)
    assert gaps == [("communication", ALL_REDUCE, 5)]


def chained(latency: int, launch_delay: int) -> Machine:
    """The same without calls for waits, and without the third stream."""
    made = overlapped(latency, launch_delay, calls=None)
    made.events = [each for each in made.events if each["name"] != "not_waited_for"]
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    ("latency", "launch_delay", "is_found"),
    [(9, 4, True), (17, 4, False), (25, 13, True), (40, 13, False), (400, 300, False)],
)
def test_streams_that_wait_without_calls(held: Held, latency: int, launch_delay: int, *, is_found: bool) -> None:
    """A device starts what waited within twice the time that a launch takes: 10 us at least, 100 us at most."""
    held.take(chained(latency, launch_delay))
    rows = held.ask("""
        SELECT p.kind, count(*), sum(p.duration) FROM critical_path('t') AS p
        WHERE p.name IN ('optimizer', 'backward') OR p.name LIKE 'nccl%' GROUP BY ALL
    """)
    kinds = {row[0]: row[1:] for row in rows}
    if is_found:
        assert kinds["dependency"] == (10, 10 * latency)
        assert kinds["kernel"] == (11, 500 + 5 * 2300)
    else:
        assert "dependency" not in kinds
        assert kinds["unknown_wait"][0] >= 4
    causes = held.ask("""
        SELECT g.cause, count(*) FROM device_idle('t', "by" := 'stream') AS g
        WHERE g.next_event = 'optimizer' AND g.stream = 7 GROUP BY ALL
    """)
    assert causes == [("communication" if is_found else "unknown_wait", 5)]


def ahead(wait: int, *, is_first: bool) -> Machine:
    """A kernel that starts long after its launch, although the device is idle; ops of the host and kernels follow."""
    made = Machine()
    if not is_first:
        for _ in range(5):
            made.launch("early", 2000)
            made.synchronize()
    with made.frame("aten::copy_"):
        made.now += 20
        made.launch("late", 30, delay=wait, call="hipLaunchKernel")
    for _ in range(6):
        made.launch("mm", 100)
    made.synchronize()
    with made.frame("aten::item"):
        made.now += 50
    return made


@pytest.mark.long
def test_the_first_wait_is_not_on_the_path(held: Held) -> None:
    made = ahead(7837, is_first=True)
    held.take(made)
    rows = held.ask("SELECT p.kind, p.name, p.duration FROM critical_path('t') AS p")
    assert rows[0] == ("kernel", "late", 30)
    assert {row[0] for row in rows}.isdisjoint({"launch_delay", "unknown_wait", "unknown"})
    late = next(each for each in made.events if each["name"] == "late")
    assert sum(row[2] for row in rows) == max(each["ts"] + each["dur"] for each in made.events) - late["ts"]
    assert held.ask("SELECT sum(p.share_percent) FROM critical_path('t') AS p") == [(pytest.approx(100),)]
    assert not any("aten::copy_" in each or "launch" in each for each in held.advice())


@pytest.mark.long
def test_an_unknown_wait_is_no_ops(held: Held) -> None:
    """By hand: it stays on the path, as what comes before is long enough or known, and is not the op's that launched."""
    waited = 463_257
    held.take(ahead(waited, is_first=False))
    query = "SELECT p.kind, p.name, p.op, p.duration FROM critical_path('t') AS p WHERE p.kind LIKE 'unknown%'"
    assert held.ask(query) == [("unknown_wait", "late", "aten::copy_", waited)]
    assert held.ask("SELECT o.op, o.total, o.delay FROM critical_ops('t') AS o WHERE o.op IS NULL")[0][2] == waited
    assert held.ask("SELECT o.delay FROM critical_ops('t') AS o WHERE o.op = 'aten::copy_'") == [(0,)]
    causes = held.ask("SELECT c.cause, c.total FROM device_idle_causes('t') AS c WHERE c.cause LIKE 'unknown%'")
    gap = held.ask("SELECT g.host_time + g.queued_time FROM device_idle('t') AS g WHERE g.next_event = 'late'")
    assert causes == [("unknown_wait", *gap[0])]
    assert not any("aten::copy_" in each or "launched kernels to start" in each for each in held.advice())


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "length", "forward"), [(3, 5, 0), (1, 150, 0), (6, 1, 1)], ids=["many", "long", "old"]
)
def test_hooks_of_the_backward_pass(warehouse: Warehouse, count: int, length: int, forward: int) -> None:
    """By hand: the thread of the backward pass is one, however many ops its hooks run, and however long they take."""
    numbers = {"Sequence number": 5}
    made = [
        event("user_annotation", STEP, 0, 500, 1),
        event("cpu_op", "aten::mm", 10, 40, 1, **(numbers if forward == 0 else {})),
        event("cuda_runtime", "cudaLaunchKernel", 11, 12, 1, correlation=1),
        event("kernel", "gemm", 20, 30, 7, device=0, stream=7, correlation=1),
        event("user_annotation", "## backward ##", 50, 450, 1),
        event("cpu_op", ENGINE, 60, 160, 2, **({**numbers, "Fwd thread id": 1} if forward == 0 else {})),
        event("cuda_runtime", "cudaLaunchKernel", 61, 62, 2, correlation=2),
        event("kernel", "gemm", 70, 80, 7, device=0, stream=7, correlation=2),
        *(event("cpu_op", "aten::hook", 170 + place * 20, 170 + place * 20 + length, 2) for place in range(count)),
        event("cpu_op", "aten::add_", 460, 490, 1),
    ]
    warehouse.ingest(trace(*made), name="t")
    totals = dict(warehouse.rows("SELECT o.op, o.total FROM critical_ops('t') AS o")[1])
    assert totals[ENGINE] == 100 + 20, "the pass and the handover"
    assert totals["aten::hook"] == count * length
    assert "## backward ##" not in totals
    assert check(warehouse, "t", json.loads(trace(*made))["traceEvents"])
