"""Files with impossible numbers in every field: each view has finite numbers or NULL, or refuses in etq's own words."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import Any, Final

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq.advice.words import counted
from etq.catalog import SqlObject, public_objects
from etq.errors import FormatError
from etq.warehouse.warehouse import Warehouse
from tests import builders, launch_traces
from tests.conftest import CAPTURES as FOLDER
from tests.sampling import IS_WHOLE, examples
from tests.trace_builders import event, memory, trace, two_steps

# JSON of numbers that no profiler writes, of other types, and of absurd texts.
NUMBERS: Final = (
    *("-1", "0", "-0.0", "1e308", "-1e308", "1e999", "-1e999", "1e-320", "1.5", "1e18", "4e15", "-4e15", "9.1e15"),
    *("2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    *("18446744073709551616", '"NaN"', '"inf"', '"-Infinity"', '"12.5 GB/s"', '"1e308"', "null", "true", "[]", "{}"),
    *("[9223372036854775807,9223372036854775807,2]", "[-1,0]", "[[9223372036854775807,4611686018427387904],[2,3]]"),
)
# 64 bits of times and sizes.
INTEGERS: Final = (0, 1, -1, 2**31, 2**53 + 1, 10**18, 2**62)
_FAULTS: Final = re.compile(r"overflow|out of range|could not convert|can't be cast|INTERNAL", re.IGNORECASE)


def _events() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Events with all arguments that are read, and the rest of a trace."""
    events = [*launch_traces.training(1, rank=0, world_size=2).events[:40], *two_steps()]
    events += [
        memory(1500 + 700 * at, -512 if at % 3 == 2 else 256 << at, 1024 * at, type=at % 2, device=at % 2 - 1)
        for at in range(6)
    ]
    on_device: Any = {"device": 0, "stream": 7}
    launched: Any = {"grid": [1, 2, 3], "block": [4, 5, 6], "registers per thread": 16, "shared memory": 100}
    occupied: Any = {"warps per SM": 2.5, "blocks": 1.5, "occupancy": 50}
    module: Any = {"Python id": 1, "Python module id": 0}
    inputs: Any = {"Input type": ["float", "float"], "Input Strides": [[4, 1], [2, 1]], "Concrete Inputs": ["", ""]}
    thread: Any = {"Sequence number": 5, "Fwd thread id": 0}
    wait: Any = {"wait_on_stream": 8, "wait_on_cuda_event_record_corr_id": 95}
    for at in range(3):
        copy: Any = {"bytes": 100 + at, "memory bandwidth (GB/s)": 12.5}
        name = "Memcpy HtoD (Pageable -> Device)"
        events.append(
            event("gpu_memcpy", name, 3000 + 20 * at, 3010 + 20 * at, 7, correlation=90 + at, **on_device, **copy)
        )
        events.append(event("cuda_runtime", "cudaMemcpyAsync", 2900 + 20 * at, 2910 + 20 * at, correlation=90 + at))
    events += [
        event("kernel", "gemm", 3070, 3080, 7, correlation=97, **on_device, **launched, **occupied),
        event("python_function", "nn.Module: Net_0", 0, 300, **module),
        event("cpu_op", "aten::mm", 300, 320, external=77, shapes=[[8, 4], [4, 2]], **inputs, **thread),
        event("cuda_sync", "Stream Wait Event", 3090, 3091, 7, correlation=96, **on_device, **wait),
    ]
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2}
    device = {"id": 0, "name": "GPU", "totalGlobalMem": 2**34, "computeMajor": 8, "computeMinor": 0, "numSms": 80}
    return events, {"distributedInfo": {"rank": 0, "world_size": 2, "pg_config": [group]}, "deviceProperties": [device]}


EVENTS, AROUND = _events()
# Each field of an event, and each of its arguments.
FIELDS: Final = sorted(
    {("", key) for key in ("ts", "dur", "pid", "tid")} | {("args", key) for each in EVENTS for key in each["args"]}
)


@st.composite
def traces(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """A trace in which some fields of some events have impossible values."""
    events, around, changes = json.loads(json.dumps(EVENTS)), json.loads(json.dumps(AROUND)), []
    values: dict[str, str] = {}

    def impossible() -> str:
        mark = f"value {len(values)}"
        values[f'"{mark}"'] = draw(st.sampled_from(NUMBERS))
        return mark

    for where, key in draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=5)):
        holders = [each[where] if where else each for each in events if key in (each[where] if where else each)]
        most = draw(st.sampled_from((1, 2, len(holders))))
        chosen = (
            range(len(holders))
            if most >= len(holders)
            else [draw(st.integers(0, len(holders) - 1)) for _ in range(most)]
        )
        mark = impossible()
        for at in chosen:
            holders[at][key] = mark
        changes.append(f"{key} of {len(chosen)}")
    if draw(st.integers(0, 3)) == 0:
        [device] = around["deviceProperties"]
        device[draw(st.sampled_from(sorted(device)))] = impossible()
    text = json.dumps({"schemaVersion": 1, **around, "traceEvents": events})
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text.encode(), [f"{what} now {value}" for what, value in zip(changes, values.values(), strict=False)]


@st.composite
def dumps(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """An ETDump with impossible times, sizes and logged numbers."""
    ticks = st.one_of(st.sampled_from(INTEGERS).map(lambda each: each % 2**64), st.integers(0, 1000))
    small = st.sampled_from((0, 1, -1, 2**31 - 1, -(2**31)))
    floats = st.sampled_from((0.0, -0.0, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, 2.0))

    def slices() -> list[Any]:
        def pair() -> tuple[int, int]:
            return draw(ticks), draw(ticks)

        return [
            builders.execute(*pair()), builders.operator_call(*pair()), builders.kernel("addmm", *pair()),
            builders.delegate_call(*pair(), 1), builders.delegated("conv", *pair(), 1),
            builders.framework("Method::init", *pair()), builders.AllocationEvent(1, draw(ticks)),
        ]  # fmt: skip

    logged = [
        builders.DebugEvent(name="x", value=draw(st.one_of(floats, st.sampled_from(INTEGERS), st.booleans()))),
        builders.DebugEvent(
            name="t", value=builders.Tensor(sizes=(draw(small), draw(small)), strides=(draw(small), 1))
        ),
    ]
    runs = [builders.run("Execute", *slices(), allocators=("pool",)) for _ in range(draw(st.integers(1, 3)))]
    return builders.dump(*runs, builders.run("Values", *logged)), [str(each) for each in runs]


# Each file is asked by one of so many parts of the views, as planning all of them takes seconds.
PARTS: Final = 1 if IS_WHOLE else 8
# Views that show a model's own values, which may be infinite.
OF_VALUES: Final = ("logged_values",)
# Values for the other required parameters of views.
VALUES: Final = {"by": "'device'", "module": "'Net'"}
CAPTURES: Final = dict.fromkeys(("capture", "new", "selector", "selectors", "captures"), "$capture")


def call_of(view: SqlObject) -> str | None:
    """A query of a view about one capture, or of a comparison of the good one with it; None for other views."""
    values = {**CAPTURES, **VALUES, "base": "'good'"}
    required = [parameter.name for parameter in view.parameters if parameter.default is None]
    if view.kind != "table macro" or not set(required) & set(CAPTURES) or not set(required) <= set(values):
        return None
    return f"FROM {view.name}({', '.join(values[name] for name in required)})"


class Lab:
    """A warehouse with a good capture, and calls of views; `other` is as good, to tell which views don't answer of it."""

    def __init__(self, good: bytes, other: bytes) -> None:
        self.warehouse, self.other = etq.open(), other
        self.warehouse.ingest(good, name="good")
        self.calls = {
            each.name: call for each in public_objects() if (call := call_of(each)) and each.name not in OF_VALUES
        }

    def answer(self, call: str) -> Any:
        """The rows of a query, or the error of DuckDB."""
        try:
            return self.warehouse.connection.execute(call, {"capture": "hostile"}).fetchall()
        except duckdb.Error as error:
            return error

    def faults(self, content: bytes, part: int = 0, of: int = 1) -> list[str]:
        """What is wrong with the answers of views, or of a part of them, about a file; nothing if it is refused."""
        try:
            self.warehouse.ingest(content, name="hostile")
        except FormatError:
            return []
        asked = list(self.calls.items())[part::of]
        found = {name: wrong for name, call in asked if (wrong := fault_of(self.answer(call)))}
        self.warehouse.remove("hostile")
        if found:
            self.warehouse.ingest(self.other, name="hostile")
            found = {name: found[name] for name in found if not isinstance(self.answer(self.calls[name]), duckdb.Error)}
            self.warehouse.remove("hostile")
        return [f"{name}: {wrong}" for name, wrong in found.items()]


def fault_of(answer: Any) -> str | None:
    """What is wrong with an answer: an error that is not etq's own, or a number that is not finite."""
    if isinstance(answer, duckdb.Error):
        is_own = isinstance(answer, duckdb.InvalidInputException) and not _FAULTS.search(str(answer))
        return None if is_own else f"{type(answer).__name__}: {str(answer)[:300]}"
    wrong = [row for row in answer if not is_finite(row)]
    return str(wrong[0])[:300] if wrong else None


def is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return all(map(is_finite, value)) if isinstance(value, (list, tuple)) else True


def good_dump(runs: int) -> bytes:
    kernels = (builders.kernel("addmm", 5, 30 + at) for at in range(runs))
    return builders.dump(*(builders.run("Execute", builders.execute(0, 60), each) for each in kernels))


@cache
def lab(kind: str) -> Lab:
    if kind == "dumps":
        return Lab(good_dump(3), good_dump(4))
    good = json.dumps({"schemaVersion": 1, **AROUND, "traceEvents": EVENTS}).encode()
    return Lab(good, good + b" ")


@pytest.mark.long
@examples(24, few=3)
@given(traces(), st.integers(0, PARTS - 1))
def test_views_of_traces(hostile: tuple[bytes, list[str]], part: int) -> None:
    content, changes = hostile
    assert lab("traces").faults(content, part, PARTS) == [], changes


@pytest.mark.long
@examples(24, few=3)
@given(dumps(), st.integers(0, PARTS - 1))
def test_views_of_dumps(hostile: tuple[bytes, list[str]], part: int) -> None:
    content, changes = hostile
    assert lab("dumps").faults(content, part, PARTS) == [], changes


def with_values(**values: str) -> bytes:
    """The good trace in which these arguments have these values, written as JSON, wherever they are."""
    events = json.loads(json.dumps(EVENTS))
    keys = {"bandwidth": "memory bandwidth (GB/s)", "size": "bytes", "blocks": "blocks per SM", "allocated": "Bytes"}
    for each in events:
        each["args"] |= {keys[name]: f"value {name}" for name in values if keys[name] in each["args"]}
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    for name, value in values.items():
        text = text.replace(f'"value {name}"', value)
    return text.encode()


@pytest.mark.long
def test_numbers_of_traces_that_cannot_be_true_are_null() -> None:
    with etq.open() as warehouse:
        for value in ("1e308", "1e999", '"NaN"'):
            capture = warehouse.ingest(with_values(bandwidth=value, blocks=value))
            query = "SELECT DISTINCT min_gb_per_s, mean_gb_per_s, max_gb_per_s FROM copy_totals($capture)"
            assert warehouse.rows(query, capture=capture)[1] == [(None, None, None)]
            assert warehouse.rows("SELECT DISTINCT blocks_per_sm FROM device_events")[1] == [(None,)]
        capture = warehouse.ingest(with_values(size=str(2**63 - 1), allocated=str(-(2**63))))
        query = "SELECT DISTINCT bytes, max_bytes FROM copy_totals($capture)"
        assert warehouse.rows(query, capture=capture)[1] == [(None, None)]
        query = "SELECT DISTINCT bytes FROM trace_memory WHERE capture_id = $key"
        assert warehouse.rows(query, key=capture.capture_id)[1] == [(None,)]


def test_times_of_many_years_and_sizes_beyond_64_bits(warehouse: Warehouse) -> None:
    """A hundred times 10**18 ticks exceeds 64 bits; so does the sum of two sizes of 2**62."""
    ticks, allocations = 10**18, [builders.AllocationEvent(1, 2**62) for _ in range(2)]
    warehouse.ingest(
        builders.dump(builders.run("Execute", builders.execute(0, ticks), *allocations, allocators=("pool",))),
        name="run",
    )
    for view in ("op_totals", "execute_breakdown", "time_tree"):
        found = warehouse.rows(f"SELECT DISTINCT share_percent, total_ticks FROM {view}('run')")[1]
        assert found == [(100.0, ticks)], view
    query = "SELECT allocations, total_bytes, largest_bytes FROM memory_totals('run')"
    assert warehouse.rows(query)[1] == [(2, None, 2**62)]


def linked_mlp(warehouse: Warehouse) -> None:
    folder = FOLDER / "mlp"
    warehouse.ingest(folder / "mlp_100runs.etdp", name="run", etrecord=folder / "mlp.etrecord", pte=folder / "mlp.pte")


@pytest.mark.long
def test_memory_beyond_64_bits_is_null(warehouse: Warehouse) -> None:
    linked_mlp(warehouse)
    warehouse.connection.execute("UPDATE program_values SET size_bytes = 4611686018427387904")
    found = warehouse.rows("SELECT DISTINCT tensors, size_bytes FROM node_memory('run') ORDER BY tensors")[1]
    # 2**62 for 1 tensor; 2 or more have no sum below 2**63.
    assert found == [(tensors, {0: 0, 1: 2**62}.get(tensors)) for tensors, _ in found]
    assert max(found)[0] > 1
    warehouse.ingest(FOLDER / "prof_result/two_blocks_interleaved.prof_result.bin", name="old")
    warehouse.connection.execute("UPDATE allocations SET size_bytes = 9223372036854775807")
    assert set(warehouse.rows("SELECT total_bytes FROM prof_result_memory('old')")[1]) == {(2**63 - 1,), (None,)}
    # 1025 allocations of 2**53 - 1 bytes are more than 2**63 - 1, and 1024 are not.
    for number, total in ((1024, 1024 * (2**53 - 1)), (1025, None)):
        allocations = [memory(10 + at, 2**53 - 1, 1024) for at in range(number)]
        capture = warehouse.ingest(trace(event("cpu_op", "aten::empty", 0, 10_000), *allocations))
        assert warehouse.rows("SELECT cpu_memory FROM key_averages($capture)", capture=capture)[1] == [(total,)]


def test_times_from_two_to_the_63rd_on_are_a_finding(warehouse: Warehouse) -> None:
    """Their durations are right, and their start is a negative number."""
    begin = 2**63
    late = builders.run("Execute", builders.kernel("add", begin, begin + 30), builders.execute(begin, begin + 60))
    warehouse.ingest(builders.dump(late), name="late")
    detail = "2 events start at 2**63 ticks or later, which no clock reaches: their start is negative here"
    assert warehouse.rows("SELECT rule, detail FROM findings")[1] == [("impossible times", detail)]
    query = "SELECT duration_ticks, start_ticks FROM events ORDER BY duration_ticks"
    assert warehouse.rows(query)[1] == [(30, -(2**63)), (60, -(2**63))]


def test_numbers_in_texts_have_no_limit() -> None:
    texts = ["10,000,000,000,000,000,000,000 runs", "1 run", "12,345 runs"]
    assert [counted(number, "run") for number in (1e22, 1, 12345)] == texts
