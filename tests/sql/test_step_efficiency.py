"""Operations of steps and their share of the peak, by hand, and by plain Python over the JSON of traces."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from math import prod
from pathlib import Path
from typing import Any, Final

import pytest

import etq
from etq.analysis.comparison import verdicts_of
from etq.analysis.efficiency import efficiency_of
from etq.maintenance.checking import check as check_warehouse
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.command_line import run_etq
from tests.conftest import CAPTURES, shared_file
from tests.sampling import thinned
from tests.sql.test_op_efficiency import ADD, GEMM, H100, HALF, launched, op
from tests.trace_builders import event, trace
from tests.traces import Traces
from tests.warehouses import empty_warehouse

ENGINE: Final = "autograd::engine::evaluate_function: "
PEAK: Final = 989.4e12
COLUMNS: Final = "step, model_flops, recomputed_flops, mfu_percent, hfu_percent, is_least, known_percent, reason"


def within(thread: int, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of the host on another thread."""
    return [each if "device" in each["args"] else each | {"tid": thread} for each in events]


def recorded(name: str, start: float, end: float, number: int, *inputs: Any, forward: int = 0) -> dict[str, Any]:
    """An op with autograd's number; of the backward pass also the number of the thread of the forward pass."""
    made = op(name, start, end, *inputs)
    made["args"] |= {"Sequence number": number, "Fwd thread id": forward}
    return made


def product(at: float, number: int, m: int, k: int, n: int, sequence: int | None = None) -> list[dict[str, Any]]:
    """A product of 2 M K N operations, whose kernel takes 10 us, 100 us after its launch."""
    inputs = ([m, k], HALF), ([k, n], HALF)
    made = (
        op("aten::mm", at, at + 5, *inputs) if sequence is None else recorded("aten::mm", at, at + 5, sequence, *inputs)
    )
    return [made, *launched(GEMM, at + 1, 10, number, begin=at + 101 - 1000)]


def function(name: str, start: float, end: float, number: int) -> list[dict[str, Any]]:
    """A call of a function of autograd, as the engine makes it."""
    return [event("cpu_op", ENGINE + name, start, end), recorded(name, start, end, number, forward=1)]


def checkpointed(at: float, first: int, name: str) -> list[dict[str, Any]]:
    """A forward pass, and a call of the backward pass that repeats it before the products of the gradients."""
    forward = [recorded("aten::linear", at, at + 20, first), *product(at + 1, first, 256, 512, 1024, first)]
    call = [
        *function(name, at + 100, at + 200, first),
        recorded("aten::linear", at + 110, at + 130, first + 1),
        *product(at + 112, first + 1, 256, 512, 1024, first + 1),
    ]
    if name.startswith("Checkpoint"):  # the engine runs within the call
        call += function("MmBackward0", at + 140, at + 190, first + 1)
    call += [*product(at + 150, first + 2, 256, 1024, 512), *product(at + 170, first + 3, 512, 256, 1024)]
    return [*forward, *within(2, *call)]


@pytest.mark.long
def test_two_steps_by_hand(traces: Traces) -> None:
    """Four products of 2 * 256 * 512 * 1024 operations, of which one is repeated; steps of 1,000 us. In the second step
    there is a kernel that no op launched, and a copy."""
    traces.take(
        event("user_annotation", "ProfilerStep#3", 0, 1000), *checkpointed(10, 1, "CheckpointFunctionBackward"),
        event("user_annotation", "ProfilerStep#4", 1000, 2000), *checkpointed(1010, 11, "AddmmBackward0"),
        *launched(ADD, 1900, 10, 21, begin=910), *launched("Memcpy DtoH", 1920, 10, 22, "gpu_memcpy", begin=930),
        # Before the first step.
        event("user_annotation", "ProfilerStep#5", 2000, 2001), *product(2010, 30, 8, 8, 8), **H100,
    )  # fmt: skip
    one = 2 * 256 * 512 * 1024
    share = 100 * one / PEAK / 1000e-6
    rows = traces.ask("step_efficiency", COLUMNS)
    assert rows[:2] == [
        (3, 3 * one, one, pytest.approx(3 * share), pytest.approx(4 * share), False, 100, None),
        (4, 3 * one, one, pytest.approx(3 * share), pytest.approx(4 * share), True, pytest.approx(100 * 5 / 6),
         "no op is known to have launched it"),
    ]  # fmt: skip
    found = traces.ask("step_efficiency", "total, device_time, flops_per_second, devices, device, unit")
    assert found[0] == (1000, 40, pytest.approx(4 * one / 1000e-6), 1, "NVIDIA H100 SXM", "us")
    # The peak that is given is that of all types.
    given = traces.ask("step_efficiency", "mfu_percent, device", peak_flops=1e12)
    assert given[0][0] == pytest.approx(3 * share * PEAK / 1e12)
    other = traces.ask("step_efficiency", "mfu_percent, device", device="MI300X")
    assert other[0] == (pytest.approx(3 * share * PEAK / 1307.4e12), "AMD Instinct MI300X")


def test_a_backward_pass_to_be_differentiated_repeats_nothing(traces: Traces) -> None:
    """With create_graph, autograd records the products of the gradients, as it records those of the forward pass."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 1000),
        *product(10, 1, 64, 32, 16, 1),
        *within(2, *function("MmBackward0", 100, 200, 1), *product(110, 2, 64, 16, 32, 2), *product(130, 3, 32, 64, 16, 3)),
        **H100,
    )  # fmt: skip
    assert traces.ask("step_efficiency", "model_flops, recomputed_flops") == [(3 * 2 * 64 * 32 * 16, 0)]


@pytest.mark.long
@pytest.mark.parametrize(("work", "known"), [([], 95), (launched("mystery", 21, 10, 1, begin=-900), 0)])
def test_the_engine_of_autograd_computes_nothing(traces: Traces, work: list[dict[str, Any]], known: int) -> None:
    """Of 100 us on the host, a node that called no op has 5 of its own. What the engine launches on a device is unknown."""
    node = op("MyNodeBackward", 60, 65)
    traces.take(event("cpu_op", f"{ENGINE}MyNodeBackward", 10, 110), node, *work)
    assert traces.ask("step_efficiency", "model_flops, known_percent") == [(0 if known else None, known)]


FLOPS: Final = 2 * 64 * 32 * 16
NO_SHAPES: Final = "recorded without shapes: profile(record_shapes=True) writes them"
OTHER: Final = {"deviceProperties": [{"id": 0, "name": "Some GPU"}]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("events", "top", "expected"),
    [
        ([event("cpu_op", "aten::mm", 10, 20), *launched(GEMM, 11, 10, 1, begin=-900)], H100,
         (None, None, None, 0, None, None, NO_SHAPES)),
        (product(10, 1, 64, 32, 16), OTHER,
         (None, None, None, 100, FLOPS, FLOPS / 1e-3, "the peaks of its device are not known")),
        ([], H100, (None, None, None, None, None, None, "it launched nothing")),
        ([op("aten::_something_new", 10, 20, ([4], HALF)), *launched("mystery", 11, 30, 1, begin=-900),
          *product(50, 2, 64, 32, 16)], H100,
         (100 * FLOPS / PEAK / 1e-3, 100 * FLOPS / PEAK / 1e-3, True, 25, FLOPS, FLOPS / 1e-3,
          "no formula for aten::_something_new")),
        # Nothing but a copy: it has no operations, and all is known.
        ([op("aten::copy_", 10, 20, ([8], HALF), ([8], HALF)), *launched(ADD, 11, 30, 1, begin=-900)], H100,
         (0, 0, False, 100, 0, 0, None)),
    ],
    ids=["no shapes", "no peaks", "no work", "no formula", "no operations"],
)  # fmt: skip
def test_what_is_unknown_is_null(
    traces: Traces, events: list[dict[str, Any]], top: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    last = product(3000, 99, 8, 8, 8)  # after the step: else a step without work would not count
    traces.take(event("user_annotation", "ProfilerStep#1", 0, 1000), *events, *last, **top)
    columns = "mfu_percent, hfu_percent, is_least, known_percent, model_flops, flops_per_second, reason"
    assert traces.ask("step_efficiency", columns) == [
        tuple(pytest.approx(each) if isinstance(each, float) else each for each in expected)
    ]


@pytest.mark.long
def test_devices_are_added_up(traces: Traces) -> None:
    """Two devices have twice the peak."""
    other = product(50, 2, 64, 32, 16)
    other[-1] = other[-1] | {"pid": 1, "args": other[-1]["args"] | {"device": 1}}
    named = [{"id": number, "name": "NVIDIA H100 80GB HBM3"} for number in (0, 1)]
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 1000), *product(10, 1, 64, 32, 16), *other, deviceProperties=named
    )
    assert traces.ask("step_efficiency", "devices, mfu_percent") == [
        (2, pytest.approx(100 * 2 * 2 * 64 * 32 * 16 / PEAK / 2e-3))
    ]


PRODUCTS: Final = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_convolution",
    "aten::miopen_convolution", "aten::cudnn_convolution", "aten::mkldnn_convolution", "aten::convolution_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_flash_attention",
)  # fmt: skip


def flops_by_hand(each: dict[str, Any]) -> int:
    """Operations of a product, a convolution or an attention, by the sizes of its arguments."""
    name, sizes = each["name"].removeprefix("aten::"), each["args"]["Input Dims"]
    values = each["args"].get("Concrete Inputs", [])
    if name in ("mm", "bmm"):
        return int(2 * prod(sizes[0]) * int(sizes[1][-1]))
    if name in ("addmm", "baddbmm"):  # what is added counts as beta or a bias does: by none
        return int(2 * prod(sizes[1]) * int(sizes[2][-1]))
    if name == "convolution_backward":
        gradient, _, weight, *_ = sizes
        wanted = json.loads(values[-1].lower())
        return int(2 * prod(gradient) * prod(weight[1:]) * sum(wanted[:2]))
    if "convolution" in name:
        places = {"convolution": (3, 4, 5), "_convolution": (3, 4, 5)}.get(name, (3, 4, 5))
        if name in ("miopen_convolution", "mkldnn_convolution"):
            places = (4, 3, 5)
        if name == "cudnn_convolution":
            places = (3, 2, 4)
        stride, padding, dilation = (json.loads(values[place]) for place in places)
        outputs = [
            (size + 2 * pad - by * (kernel - 1) - 1) // step + 1
            for size, pad, by, kernel, step in zip(sizes[0][2:], padding, dilation, sizes[1][2:], stride, strict=True)
        ]
        return int(2 * sizes[0][0] * prod(outputs) * prod(sizes[1]))
    queries, keys = sizes[0], sizes[1]
    return int(4 * prod(queries) * int(keys[-2]))


def steps_by_hand(written: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Operations of products by step, and of those, repeated ones: recorded by autograd within its functions."""
    host = [each for each in written if each.get("ph") == "X" and each.get("cat") in ("cpu_op", "user_annotation")]
    steps = [
        (each["ts"], each["ts"] + each["dur"], int(each["name"].split("#")[1]))
        for each in host
        if each["name"].startswith("ProfilerStep#")
    ]
    found: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    threads: defaultdict[Any, list[dict[str, Any]]] = defaultdict(list)
    for each in host:
        if each["cat"] == "cpu_op":
            threads[each["pid"], each["tid"]].append(each)
    for ops in threads.values():
        around: list[dict[str, Any]] = []
        for each in sorted(ops, key=lambda each: (each["ts"], -each["dur"])):
            while around and each["ts"] >= around[-1]["ts"] + around[-1]["dur"]:
                around.pop()
            is_inner = any(above["name"] in PRODUCTS for above in around)
            if each["name"] in PRODUCTS and each["args"].get("Input Dims") and not is_inner:
                step = next((number for start, end, number in steps if start <= each["ts"] < end), -1)
                path = [*around, each]
                is_backward = any(above["name"].startswith(ENGINE) for above in path)
                is_recorded = any(
                    "Sequence number" in above["args"] and not above["args"].get("Fwd thread id") for above in path
                )
                flops = flops_by_hand(each)
                found[step][0] += flops
                found[step][1] += flops if is_backward and is_recorded else 0
            around.append(each)
    return dict(found)


def check(warehouse: Warehouse, path: Path, *, has_repeats: bool = True) -> dict[int, list[int]]:
    """Compare the operations of products in each step, and outside of steps, and all ops' sum with `op_efficiency`."""
    content = path.read_bytes()
    data = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    expected = steps_by_hand(data["traceEvents"] if isinstance(data, dict) else data)
    if not has_repeats:
        expected = {step: [flops, 0] for step, (flops, _) in expected.items()}
    key = warehouse.ingest(path, name=path.name).capture_id
    warehouse.rows(
        f"CREATE OR REPLACE TEMP TABLE all_ops AS FROM _rated_calls({key}, NULL, NULL, NULL, NULL, NULL, false)"
    )
    products = "('GEMM', 'convolution', 'attention')"
    of_products = f"SELECT * REPLACE (CASE WHEN o.family IN {products} THEN o.flops END AS flops) FROM all_ops AS o"
    warehouse.rows(f"CREATE OR REPLACE TEMP TABLE products AS {of_products}")
    sums = """
        SELECT CASE WHEN r.name = 'ProfilerStep' THEN t.step ELSE -1 END AS step, sum(s.flops)::BIGINT,
            coalesce(sum(s.repeated_flops), 0)::BIGINT
        FROM _step_flops('products') AS s
        JOIN runs AS r ON r.capture_id = $key AND r.run_index = s.run_index
        LEFT JOIN trace_steps AS t ON t.capture_id = $key AND t.run_index = s.run_index
        GROUP BY ALL HAVING sum(s.flops) > 0
    """
    found = {step: [flops, repeated] for step, flops, repeated in warehouse.rows(sums, key=key)[1]}
    assert found == {step: flops for step, flops in expected.items() if flops[0]}
    [(of_runs, of_ops)] = warehouse.rows(
        "SELECT (SELECT sum(s.flops)::BIGINT FROM _step_flops('all_ops') AS s),"
        " (SELECT sum(b.flops::HUGEINT * b.calls)::BIGINT FROM all_ops AS b)"
    )[1]
    assert of_runs <= of_ops if "torch/gpu" not in str(path) else of_runs == of_ops
    shown = "SELECT sum(e.flops::DOUBLE * e.calls) FROM op_efficiency($key::VARCHAR) AS e"
    by_op = warehouse.rows(shown.replace("$key::VARCHAR", "$name"), name=path.name)[1][0][0]
    assert by_op == pytest.approx(of_ops, rel=1e-9)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    thinned(
        ["mlp_train", "conv_infer", "transformer_stack", "pair_convnet", "pair_mlp", "pair_transformer"], ["mlp_train"]
    ),
)
def test_products_of_real_traces(name: str) -> None:
    """Recorded on a CPU, where time is that of the host."""
    with empty_warehouse() as warehouse:
        assert check(warehouse, CAPTURES / f"torch/{name}.pt.trace.json.gz")


@pytest.mark.long
def test_recomputed_products_as_torch_counts_them() -> None:
    """The same net has the same model FLOPs, whether activations are kept or not: those of FlopCounterMode without
    checkpoints. With hooks, torch stops within an op of each block, 8 x 48 by 48 x 32, whose event is in the trace."""
    folder = CAPTURES / "torch_checkpoint"
    counted = json.loads((folder / "flops.json").read_text())
    with empty_warehouse() as warehouse:
        found = {
            name: check(warehouse, folder / f"{name}.pt.trace.json.gz", has_repeats=name != "differentiated")[1]
            for name in counted
        }
    assert found["plain"] == [counted["plain"], 0]
    assert found["reentrant"] == [counted["reentrant"], counted["reentrant"] - counted["plain"]]
    assert found["hooks"] == [counted["hooks"] + 2 * 2 * 8 * 48 * 32, found["reentrant"][1]]
    assert found["differentiated"][1] == 0 < counted["plain"] < found["differentiated"][0]


@pytest.mark.long
@pytest.mark.parametrize("name", ["mi300_resnet_checkpoint", "b200_eager"])
def test_products_of_real_traces_of_devices(name: str) -> None:
    """The first was recorded with torch.utils.checkpoint, the second without."""
    with empty_warehouse() as warehouse:
        found = check(warehouse, shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz"))
    assert len(found) >= 1
    assert all((repeated > 0) == ("checkpoint" in name) for _, repeated in found.values())


def rated(*steps: list[dict[str, Any]], **top: Any) -> bytes:
    """A trace of steps of 1,000 us, from 1 on."""
    marks = [
        event("user_annotation", f"ProfilerStep#{number}", 1000 * number, 1000 * number + 1000)
        for number in range(1, len(steps) + 1)
    ]
    return trace(*marks, *(each for events in steps for each in events), **(H100 | top))


@pytest.mark.long
def test_steps_are_stored(tmp_path: Path) -> None:
    """As the view has them by default; again when a peak is given; not without shapes or peaks, and not of the host."""
    query = "SELECT e.* EXCLUDE (capture_id, place) FROM all_step_efficiency AS e ORDER BY e.place"
    content = rated(product(1010, 1, 64, 32, 16), product(2010, 2, 64, 32, 16), checkpointed(3010, 3, "AddmmBackward0"))
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        capture = warehouse.ingest(content, name="t")
        stored = warehouse.rows(query)[1]
        assert stored == warehouse.rows("SELECT e.* FROM step_efficiency('t') AS e")[1]
        assert [row[1] for row in stored] == [1, 2, 3]
        warehouse.metric("t", "peak_flops", 1e12)
        given = warehouse.rows(query)[1]
        assert given == warehouse.rows("SELECT e.* FROM step_efficiency('t') AS e")[1]
        assert [row[3] for row in given] == pytest.approx([row[3] * PEAK / 1e12 for row in stored])
    assert [part for part in check_warehouse(tmp_path / "w.duckdb", folder=tmp_path) if part.problems] == []
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        whole = efficiency_of(warehouse, capture)
        warehouse.prune(0, keep_rollups=True)
        assert whole is not None and whole.known_percent == 100
        assert efficiency_of(warehouse, capture) == whole, "what is stored stays"
        warehouse.remove(capture)
        assert warehouse.rows(query)[1] == []
        warehouse.ingest(rated(product(1010, 1, 64, 32, 16), **OTHER), name="other")
        warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz", name="host")
        assert warehouse.rows(query)[1] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (rated(product(1010, 1, 512, 512, 512), product(2010, 2, 512, 512, 512)),
         [f"  MFU  {100 * 2 * 512**3 / PEAK / 1e-3:.4g} %  of the peak of NVIDIA H100 SXM, 268 GFLOP/s; costs are known of "
          "100 % of devices' time"]),
        (rated(product(1010, 1, 512, 512, 512) + launched(ADD, 1500, 30, 9, begin=502)),
         [f"  MFU  ≥ {100 * 2 * 512**3 / PEAK / 1e-3:.4g} %  of the peak of NVIDIA H100 SXM, 268 GFLOP/s; costs are known "
          "of 25 % of devices' time; most of the rest: no op is known to have launched it"]),
        (rated(checkpointed(1010, 1, "AddmmBackward0")),
         [f"  MFU  {100 * 6 * 256 * 512 * 1024 / PEAK / 1e-3:.4g} %  of the peak of NVIDIA H100 SXM, 1.07 TFLOP/s; costs "
          "are known of 100 % of devices' time",
          f"  HFU  {100 * 8 * 256 * 512 * 1024 / PEAK / 1e-3:.4g} %  with activations that are computed again in the backward "
          "pass"]),
        (rated(product(1010, 1, 512, 512, 512), **OTHER), ["  MFU  unknown: the peaks of its device are not known"]),
        (rated([event("cpu_op", "aten::mm", 1010, 1020), *launched(GEMM, 1011, 10, 1)]),
         [f"  MFU  unknown: {NO_SHAPES}"]),
    ],
    ids=["known", "at least", "recomputed", "no peaks", "no shapes"],
)  # fmt: skip
def test_the_first_screen(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    text = run_etq(str(path)).stdout
    found = re.findall(r"^  [MH]FU .*(?:\n      .*)*", text, re.MULTILINE)
    assert [re.sub(r"\s+", " ", line) for line in found] == [re.sub(r"\s+", " ", line) for line in lines]


def test_mfu_is_a_metric_of_a_file_that_is_read() -> None:
    """2 * 512 ** 3 operations in a step of 1 ms."""
    content = rated(*(product(1000 * step + 10, step, 512, 512, 512) for step in range(1, 6)))
    with etq.read(content) as read:
        values = read.rows("SELECT name, value FROM metric_values(1)")[1]
    assert {name for name, _ in values} == {"mfu"} and len(values) == 5
    assert [value for _, value in values] == pytest.approx([100 * 2 * 512**3 / PEAK / 1e-3] * 5)


@pytest.mark.long
def test_comparison_and_trend(tmp_path: Path) -> None:
    """Twelve builds; from the seventh on, products have twice the operations in the same time: twice the MFU. A trace in
    which not all is known has another metric."""
    with etq.open(tmp_path / "w.duckdb") as warehouse:
        captures = []
        for build in range(12):
            rows = (512 if build < 6 else 1024) + 8 * (build % 2)
            content = rated(*(product(1000 * step + 10, 10 * build + step, rows, 512, 512) for step in range(1, 6)))
            captures.append(
                Labelled(f"t{build}", content, {"build": str(build), "side": "base" if build < 6 else "new"})
            )
        ingest_all(warehouse, captures)
        columns = "label, value, change_percent, stage, unit, runs".replace("value", "normalized")
        found = warehouse.rows(f"SELECT {columns} FROM trend('metric', 'mfu')")[1]
        expected = [100 * 2 * ((512 if at < 6 else 1024) + 8 * (at % 2)) * 512**2 / PEAK / 1e-3 for at in range(12)]
        assert [row[1] for row in found] == pytest.approx(expected)
        assert [(row[0], row[3]) for row in found if row[2] is not None] == [("6", "kept")]
        assert {row[4:] for row in found} == {("%", 5)}
        metrics = "SELECT name, verdict, base, new, unit FROM compare_metrics('side=base', 'side=new')"
        middle = (expected[0] + expected[1]) / 2, (expected[6] + expected[7]) / 2
        assert warehouse.rows(metrics)[1] == [("mfu", "better", *map(pytest.approx, middle), "%")]
        lines = verdicts_of(warehouse, "side=base", "side=new", {})
        share = f"MFU: {middle[0]:.4g} % to {middle[1]:.4g} %; costs are known of 100 and 100 % of devices' time"
        assert share in lines
        partly = rated(product(1010, 1, 512, 512, 512) + launched(ADD, 1500, 30, 9, begin=502))
        warehouse.ingest(partly, name="partly")
        names = "SELECT name, run_index, unit, better FROM metric_values($name)"
        assert warehouse.rows(names, name="partly")[1] == [("mfu_at_least", 0, "%", "higher")]
        # What somebody attached counts.
        warehouse.metric("partly", "mfu_at_least", 3)
        values = "SELECT value, run_index FROM metric_values($name)"
        assert warehouse.rows(values, name="partly")[1] == [(3, None)]


@pytest.mark.long
def test_two_files(tmp_path: Path) -> None:
    for name, rows, rest in (("base", 512, []), ("new", 1024, launched(ADD, 1500, 30, 9, begin=502))):
        (tmp_path / f"{name}.json").write_bytes(rated(product(1010, 1, rows, 512, 512) + rest))
    shares = [100 * 2 * rows * 512**2 / PEAK / 1e-3 for rows in (512, 1024)]
    text = run_etq(str(tmp_path / "base.json"), str(tmp_path / "new.json")).stdout
    assert f"\nMFU: {shares[0]:.4g} % to ≥ {shares[1]:.4g} %; costs are known of 100 and 25 %" in text


@pytest.mark.long
def test_ranks_of_jobs(tmp_path: Path) -> None:
    """Two jobs of two ranks; rank 1 has half the operations of rank 0, and in the new job a kernel of no op."""
    rest = launched(ADD, 1500, 30, 9, begin=502)
    for number, job, more in ((1, "base", []), (2, "new", rest)):
        for rank, rows in ((0, 1024), (1, 512)):
            content = rated(
                product(1010, number, rows, 512, 512) + (more if rank == 1 else []),
                distributedInfo={"rank": rank, "world_size": 2, "backend": "nccl"},
            )
            (tmp_path / job).mkdir(exist_ok=True)
            (tmp_path / job / f"rank{rank}.pt.trace.json").write_bytes(content)
    base, new, db = str(tmp_path / "base"), str(tmp_path / "new"), str(tmp_path / "w.duckdb")
    shares = [100 * 2 * rows * 512**2 / PEAK / 1e-3 for rows in (1024, 512)]
    first, second = (f"{share:.4g} %" for share in shares)
    screen = run_etq(base).stdout
    assert re.search(rf"^ +0 .* {first}$\n^ +1 .* {second}$", screen, re.MULTILINE), screen
    assert f"≥ {second}\n" in run_etq(new).stdout
    mean = f"{(shares[0] + shares[1]) / 2:.4g} %"
    assert f"The mean MFU of a rank is ≥ {mean}; before, {mean}." in re.sub(r"\s+", " ", run_etq(base, new).stdout)
    for job in ("base", "new"):
        assert run_etq("ingest", str(tmp_path / job), "--job", job, "--db", db).exit_code == 0
    with etq.open(db, read_only=True) as warehouse:
        of_ranks = "SELECT s.rank, s.mfu_percent, s.mfu_is_least FROM stragglers('job=new') AS s ORDER BY s.rank"
        expected = [(0, pytest.approx(shares[0]), False), (1, pytest.approx(shares[1]), True)]
        assert warehouse.rows(of_ranks)[1] == expected
        of_steps = "SELECT s.rank, s.mfu_percent, s.mfu_is_least FROM rank_steps('job=new') AS s ORDER BY s.rank"
        assert warehouse.rows(of_steps)[1] == expected
        columns = "c.rank, c.base_mfu_percent, c.new_mfu_percent, c.base_mfu_is_least, c.new_mfu_is_least"
        both = (pytest.approx(sum(shares) / 2),) * 2
        assert warehouse.rows(f"SELECT {columns} FROM compare_jobs('job=base', 'job=new') AS c")[1] == [
            (None, *both, False, True),
            (0, *(pytest.approx(shares[0]),) * 2, False, False),
            (1, *(pytest.approx(shares[1]),) * 2, False, True),
        ]
    assert re.search(rf"^ +1 .* ≥ {second}$", run_etq("summary", "job=new", "--db", db).stdout, re.MULTILINE)
