"""Captures as files of other tools: checked by hand, by strict checkers, and with hostile names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.export import parts
from etq.ingest.metrics.reader import read_metrics
from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS
from tests.builders import Run, delegate_call, delegated, dump, execute, kernel, operator_call, run
from tests.trace_checker import checked
from tests.warehouses import empty_warehouse

HOSTILE = [
    '"},{"ph":"E"}]', "</script><script>alert(1)</script>", "\u2028line\u2029", "nul\x00bell\x07esc\x1b[2J", "=1+1",
    "back\\slash\ttab\nline", "\N{PILE OF POO} \u202eleft", "",
]  # fmt: skip


def exported(warehouse: Warehouse, capture: str, to: str, **options: Any) -> str:
    return "".join(parts(warehouse, capture, to, **options))


def of_runs(to: str, *runs: Run, **options: Any) -> Any:
    """A capture of these runs in a format, as JSON."""
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(*runs), name="test")
        text = exported(warehouse, "test", to, **options)
    return checked(text) if to == "chrome" else json.loads(text)


def bars(written: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The complete events of a trace: process, thread, name, start, duration in microseconds."""
    return [
        (each["pid"], each["tid"], each["name"], float(each["ts"]), float(each["dur"]))
        for each in written["traceEvents"]
        if each["ph"] == "X"
    ]


@pytest.mark.long
def test_chrome_by_hand() -> None:
    written = of_runs("chrome", TWO_OPERATORS, run("Execute", execute(start=200, end=250)))
    assert bars(written) == [
        (1, 1, "Execute #0", 0, 0.06), (1, 1, "Method::execute", 0, 0.06), (1, 1, "OPERATOR_CALL", 0.008, 0.025),
        (1, 1, "native_call_add.out", 0.01, 0.02), (1, 1, "OPERATOR_CALL", 0.04, 0.01), (1, 1, "Execute #1", 0.2, 0.05),
        (1, 1, "Method::execute", 0.2, 0.05),
    ]  # fmt: skip
    assert written["traceEvents"][3]["args"] == {"family": "add", "chain": 0, "instruction": 0, "run": 0, "event": 0}
    assert written["otherData"]["capture"] == "test" and written["otherData"]["format"] == "etdump"
    names = [(each["name"], each["args"]) for each in written["traceEvents"] if each["ph"] == "M"]
    assert names[:2] == [("process_name", {"name": "test"}), ("thread_name", {"name": "host"})]


@pytest.mark.long
def test_chrome_of_delegates() -> None:
    events = of_runs("chrome", DELEGATED)["traceEvents"]
    assert [(each["tid"], each["name"], each["cat"]) for each in events if each["tid"] == 2 and each["ph"] == "X"] == [
        (2, "Convolution (NHWC, F32) IGEMM #1", "delegate"),
        (2, "Transpose (ND, X32) #1", "delegate"),
    ]
    other = of_runs(
        "chrome",
        run(
            "Execute", delegated(7, start=7000, end=7080), delegated("Read (bytes)", start=0, end=4096),
            delegate_call(start=110, end=150), execute(start=100, end=160),
        ),
    )["traceEvents"]  # fmt: skip
    [seven] = [each for each in other if each["name"] == "7"]
    assert (float(seven["ts"]), float(seven["dur"])) == (0.01, 0.04), "80 ticks in a call of 40, from its start on"
    assert seven["args"] == {
        "chain": 0, "instruction": 0, "delegate_debug_id": 7, "run": 0, "event": 0,
        "estimated": True, "logged": 80, "logged_unit": "ns",
    }  # fmt: skip
    [read] = [each for each in other if each["name"] == "Read (bytes)"]
    assert (read["ph"], float(read["ts"]), read["args"]["logged"]) == ("i", 0.01, 4096)


@pytest.mark.long
def test_overlapping_slices_are_siblings() -> None:
    """Two events of a delegate that overlap, and then more events than there are lanes."""
    overlapping = [delegated(f"op{at}", start=100 + at, end=130 + at) for at in range(12)]
    events = (*overlapping, delegate_call(start=90, end=150), execute(start=80, end=160))
    written = of_runs("chrome", run("Execute", *events))["traceEvents"]
    ops = [each for each in written if each["name"].startswith("op")]
    assert {each["ph"] for each in ops} == {"X", "b", "e"}
    assert len({each["tid"] for each in ops if each["ph"] == "X"}) == 8
    assert [each["name"] for each in ops if each["ph"] == "b"] == [f"op{at}" for at in range(8, 12)]
    threads = [each["args"]["name"] for each in written if each["name"] == "thread_name"]
    assert threads[:3] == ["host", "delegate", "delegate (2)"] and threads[-1] == "delegate, overlapping"


@pytest.mark.long
def test_times_beyond_64_bits() -> None:
    """A wrong time scale makes times that no viewer can represent: they are cut at the limit."""
    with empty_warehouse() as warehouse:
        runs = run("Execute", kernel("add", 5, 2**62), execute(start=1, end=2**62 + 1))
        warehouse.ingest(dump(runs), name="test", time_scale="s")
        written = checked(exported(warehouse, "test", "chrome"))
        assert [(each[2], each[4]) for each in bars(written)][1:] == [
            ("Method::execute", 9.2e15), ("native_call_add.out", 9.2e15 - 4e6),
        ]  # fmt: skip
        [profile] = json.loads(exported(warehouse, "test", "speedscope"))["profiles"]
        assert check_profile(profile) == 2 and profile["endValue"] == 9_200_000_000_000_000_000


def check_profile(profile: dict[str, Any]) -> int:
    """Check an evented profile as speedscope's importer does, and return the number of its events."""
    assert profile["type"] == "evented" and profile["unit"] in ("nanoseconds", "none")
    stack: list[int] = []
    before = profile["startValue"]
    for each in profile["events"]:
        assert before <= each["at"] <= profile["endValue"]
        before = each["at"]
        if each["type"] == "O":
            stack.append(each["frame"])
        else:
            assert each["type"] == "C" and stack.pop() == each["frame"]
    assert not stack
    return len(profile["events"]) // 2


def test_speedscope_by_hand() -> None:
    written = of_runs("speedscope", DELEGATED)
    frames = [each["name"] for each in written["shared"]["frames"]]
    [profile] = written["profiles"]
    assert (profile["name"], profile["unit"], profile["startValue"], profile["endValue"]) == (
        "Execute #0", "nanoseconds", 0, 80,
    )  # fmt: skip
    assert [(each["type"], frames[each["frame"]], each["at"]) for each in profile["events"]] == [
        ("O", "Method::execute", 0), ("O", "DELEGATE_CALL", 10), ("O", "Convolution (NHWC, F32) IGEMM #1", 15),
        ("C", "Convolution (NHWC, F32) IGEMM #1", 35), ("O", "Transpose (ND, X32) #1", 35),
        ("C", "Transpose (ND, X32) #1", 40), ("C", "DELEGATE_CALL", 50), ("O", "OPERATOR_CALL", 58), ("O", "mul", 60),
        ("C", "mul", 70), ("C", "OPERATOR_CALL", 74), ("C", "Method::execute", 80),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("to", ["chrome", "hud"])
def test_hostile_names(to: str, warehouse: Warehouse) -> None:
    events = [
        each
        for at, name in enumerate(HOSTILE)
        for each in (
            kernel(name, start=10 * at, end=10 * at + 5, instruction=at),
            operator_call(start=10 * at, end=10 * at + 6, instruction=at),
        )
    ]
    runs = [run(name, *events, execute(start=0, end=10 * len(HOSTILE))) for name in HOSTILE]
    labels = {"model": HOSTILE[0], "device": HOSTILE[1]}
    capture = warehouse.ingest(dump(*runs), name=HOSTILE[1], labels=labels)
    warehouse.metric(capture, HOSTILE[1], 1)
    text = exported(warehouse, HOSTILE[1], to)
    assert text.isascii()
    written = checked(text) if to == "chrome" else json.loads(text)
    names = json.dumps(written, ensure_ascii=False, default=str)
    assert all(json.dumps(name, ensure_ascii=False)[1:-1] in names for name in HOSTILE[:1])
    if to == "chrome":
        kernels = {each["name"] for each in written["traceEvents"] if each.get("cat") == "op_kernel"}
        assert kernels == {f"native_call_{name}.out" for name in HOSTILE}


@pytest.mark.long
def test_hud_is_read_by_the_reader_of_metrics() -> None:
    with empty_warehouse() as warehouse:
        data = dump(TWO_OPERATORS, run("Execute", execute(start=200, end=250)))
        labels = {"model": "mv2", "device": "Pixel 8", "os": "Android 15", "backend": "xnnpack", "build": "41"}
        warehouse.ingest(data, name="test", labels=labels)
        warehouse.metric("test", "peak_memory", 12.5)
        warehouse.metric("test", "tokens_per_second", 39.25)
        warehouse.metric("test", "speedup", 2.0)
        text = exported(warehouse, "test", "hud", by="family")
        records = json.loads(text)
        [(_, rows)] = read_metrics(text.encode(), "hud.json")
        found = [(row["name"], row["value"], row["unit"]) for row in rows.to_pylist()]
        other = warehouse.ingest(dump(run("Execute", execute(start=0, end=1))), name="other")
        warehouse.ingest_metrics(other, text.encode())
        copied = warehouse.rows("SELECT name, value, unit, better FROM metric_values('other')")[1]
    assert found == [
        ("avg_inference_latency", pytest.approx(55e-6, abs=1e-18), "ms"), ("inference_latency", 60e-6, "ms"),
        ("inference_latency", 50e-6, "ms"), ("peak_memory", 12.5, "MB"), ("speedup", 2.0, None),
        ("tokens_per_second", 39.25, "tokens/s"), ("(unattributed)", found[6][1], "ms"), ("add", 20e-6, "ms"),
        ("OPERATOR_CALL", 10e-6, "ms"), ("(framework)", 5e-6, "ms"),
    ]  # fmt: skip
    assert ("peak_memory", 12.5, "MB", "lower") in copied and ("speedup", 2.0, None, "higher") in copied
    for record in records:
        assert set(record) == {"benchmark", "model", "metric", "runners"}
        assert record["benchmark"]["name"] == "ExecuTorch" and record["benchmark"]["mode"] == "inference"
        assert record["model"] == {"name": "mv2", "backend": "xnnpack"}
        assert record["runners"] == [{"name": "Pixel 8", "type": "Android 15"}]
        assert record["benchmark"]["extra_info"]["label_build"] == "41"
        infos = (record["benchmark"]["extra_info"], record["metric"]["extra_info"])
        assert all(isinstance(value, str) for info in infos for value in info.values()), "texts, as its columns are"
        assert record["metric"]["target_value"] is None, "nobody output one"
