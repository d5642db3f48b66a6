"""What the host and devices waited for: generated traces whose truth is known, and published ones by plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from etq.ingest.trace.classes import rules
from etq.warehouse.warehouse import Warehouse
from tests import call_reference
from tests.conftest import shared_file
from tests.launch_traces import ALL_REDUCE, Machine
from tests.path_reference import Paths
from tests.sampling import thinned
from tests.sql.test_critical_path import HOST
from tests.sql.test_critical_path import check as check_path
from tests.sql.test_device_idle import check as check_gaps
from tests.sql.test_device_idle import recorded_from
from tests.trace_reference import load, slices

MI300: Final = tuple(
    f"gpu/mi300_{name}" for name in ("vllm_decode_graphs", "sglang_decode", "ddp_no_allocator", "resnet_checkpoint")
)
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
    syclEventsWait doFree cudaMemcpyAsync cudaDeviceGetAttribute hipGetDevicePropertiesR0600
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
        check_path(self.warehouse, "t", written)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.warehouse.rows(query)[1]

    def advice(self) -> list[str]:
        """Rules, findings and remedies on waits."""
        query = "SELECT a.rule || ': ' || a.finding || ' ' || a.remedy FROM advice('t') AS a"
        return [row[0] for row in self.ask(query + " WHERE a.rule IN ('device idle', 'critical path')")]


@pytest.fixture
def held(warehouse: Warehouse, tmp_path: Path) -> Iterator[Held]:
    yield Held(warehouse, tmp_path)


def long_but(value: Any, *kept: Any) -> Any:
    return value if value in kept else pytest.param(value, marks=pytest.mark.long)


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


@pytest.mark.parametrize("cause", [long_but(cause, "free", "call") for cause in CALLS])
def test_a_host_that_waits_in_a_call(held: Held, cause: str) -> None:
    """By hand: a kernel ends 106 us after its launch; the call began 5 us after the launch, and the next comes 914 us after."""
    name = CALLS[cause]
    held.take(blocked(name))
    call = None if cause == "host" else name
    assert (
        held.ask("SELECT g.cause, g.call, g.host_op, g.duration, g.host_time FROM device_idle('t') AS g")
        == [(cause, call, "aten::conv", 913 - 106 + 6, 913 - 106)] * 6
    )
    causes = held.ask("SELECT c.cause, c.call, c.gaps, c.total FROM device_idle_causes('t') AS c")
    assert causes == [(cause, call, 6, 6 * 813)]


@pytest.mark.parametrize("cause", [long_but(cause, "free") for cause in ("free", "synchronization", "call", "host")])
def test_a_call_on_the_critical_path(held: Held, cause: str) -> None:
    """By hand: a release waits for the kernel, which ends 799 us before the call; an unknown call may wait for none."""
    name = CALLS[cause]
    held.take(blocked(name))
    kind = {"free": "free", "synchronization": "synchronization", "host": "launch", "call": None}[cause]
    rows = held.ask(f"""
        SELECT p.kind, p.call_kind, count(*), sum(p.duration) FROM critical_path('t') AS p
        WHERE p.name = '{name}' GROUP BY ALL
    """)
    waits = cause in ("free", "synchronization")
    assert rows == [("synchronization", kind, 6, 6 * 799) if waits else ("call", kind, 6, 6 * 900)]
    ops = held.ask("SELECT o.op, o.call FROM critical_ops('t') AS o LIMIT 1")
    assert ops == [("aten::conv", name)]
    advice = " ".join(held.advice())
    assert ("frees memory" in advice and "caching allocator" in advice) == (cause == "free")
    assert (".item()" in advice) == (cause == "synchronization")
    assert ("Launch fewer and larger ops" in advice) == (cause == "host")
    # Nothing is known of an unknown call: its op isn't advised about, either. Launches that are slow are one item, that
    # of the idle device.
    assert ("aten::conv" in advice) == (cause == "synchronization")
    assert advice == "" if cause == "call" else advice


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


def test_known_calls_are_those_that_rules_on_names_find() -> None:
    """Names of published traces, and of the tests here. Each known name has one kind."""
    names = {*CALLS.values(), *NAMES}
    for name in ("mi300_sglang_decode", "b200_eager"):
        names |= {
            each.name
            for each in slices(load(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz")))
            if each.is_call
        }
    found = {name: rules().of_call(name) or (None, False) for name in names}
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


@pytest.mark.parametrize(
    ("latency", "launch_delay", "is_found"),
    [
        *((9, 4, True), (17, 4, False)),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((25, 13, True), (40, 13, False), (400, 300, False))),
    ],
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
    assert not any("aten::copy_" in each or "launches to take effect" in each for each in held.advice())


@pytest.mark.parametrize("name", [MI300[0], pytest.param(MI300[3], marks=pytest.mark.long)])
def test_published_traces_by_plain_python(warehouse: Warehouse, name: str) -> None:
    path = shared_file(f"captures/torch/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    events = load(path)
    assert check_gaps(warehouse, "t", events)
    paths, begin = Paths(events), recorded_from(events)
    made = [(each.kind, each.start - begin, each.end - begin, each.place) for each in paths.find(*paths.recording())]
    parts = warehouse.rows("""
        SELECT p.kind, p.start::BIGINT, (p.start + p.duration)::BIGINT, p.event_index
        FROM critical_path('t', unit := 'ns') AS p
    """)[1]
    assert stretches(parts) == stretches(made)


def stretches(parts: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Parts of the path, those of the host together: events of a thread that overlap have no common innermost one."""
    found: list[tuple[Any, ...]] = []
    for kind, start, end, place in parts:
        if kind not in HOST:
            found.append((kind, start, end, place))
        elif found and found[-1][0] == "host":
            found[-1] = ("host", found[-1][1], end, None)
        else:
            found.append(("host", start, end, None))
    return found
