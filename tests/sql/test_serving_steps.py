"""Steps of vLLM and SGLang: phase, sequences and tokens as planted in names, times by plain Python, and of real traces."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.conftest import shared_file
from tests.launch_traces import Machine
from tests.trace_builders import event, trace
from tests.trace_reference import load

# A name, and the phase, sequences, tokens of prompts and generated tokens that it tells.
TOLD: list[tuple[str, tuple[str | None, int | None, int | None, int | None]]] = [
    ("execute_context_0(0)_generation_32(32)", ("decode", 32, 0, 32)),
    ("execute_context_2(512)_generation_0(0)", ("prefill", 2, 512, 0)),
    ("execute_context_1(512)_generation_30(30)", ("mixed", 31, 512, 30)),
    ("execute_context_1(888_788544)_generation_0(0)", ("prefill", 1, 888, 0)),
    ("context_1(64)_generation_3(3)", ("mixed", 4, 64, 3)),
    ("execute_context_0(0)_generation_0(0)", (None, 0, 0, 0)),
    # Each of 4 sequences tries 3 tokens: how many are kept isn't told.
    ("execute_context_0(0)_generation_4(12)", ("decode", 4, 0, None)),
    ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)", ("decode", 32, 0, 32)),
    ("execute_7_context_3(sq128sk256sqsq1sqsk1)_generation_2(sq2sk300sqsq1sqsk1)", ("mixed", 5, 128, 2)),
    ("execute_new_3_cached_0", ("prefill", 3, None, None)),
    ("execute_new_0_cached_8", (None, 8, None, None)),
    ("execute_new_2_cached_8", (None, 10, None, None)),
    ("step[DECODE bs=32]", ("decode", 32, 0, 32)),
    ("step[EXTEND bs=2 toks=107]", ("prefill", 2, 107, 0)),
    ("step[EXTEND bs=2]", ("prefill", 2, None, 0)),
    ("step[MIXED bs=5]", ("mixed", 5, None, None)),
    ("step[MIXED bs=5 toks=70]", ("mixed", 5, None, None)),
    ("step[TARGET_VERIFY bs=6]", (None, 6, None, None)),
    ("step[IDLE bs=0]", (None, 0, None, None)),
    # Numbers that no batch has.
    (f"execute_context_{10**30}(5)_generation_1(1)", (None, None, 5, 1)),
    (f"step[DECODE bs={'9' * 200}]", ("decode", None, 0, None)),
]
# Names that are like these.
OTHERS = [
    "execute_context_", "execute_context_1()_generation_2(2)", "execute_context_1(5)_generation_2(2", "step[DECODE]",
    "execute_context_-1(5)_generation_2(2)", "my execute_context_1(5)_generation_2(2)", "step[DECODE bs=3] then",
    "step[DECODE bs=x]", "execute_new_1_cached_", "execute_context_1(5)_generation_2(2)\nstep[DECODE bs=3]",
    "STEP[DECODE BS=3]", "step[DECODE bs=٣]", "execute_context_1(5; DROP TABLE runs)_generation_2(2)",
]  # fmt: skip


def test_names_tell_what_they_tell(warehouse: Warehouse, tmp_path: Path) -> None:
    names = [name for name, _ in TOLD] + OTHERS
    events = [event("user_annotation", name, 100 * at, 100 * at + 50) for at, name in enumerate(names)]
    # Neither an op of such a name nor the annotation's range on a device is a step.
    events += [
        event("cpu_op", "step[DECODE bs=3]", 9000, 9001),
        event("gpu_user_annotation", "step[DECODE bs=3]", 1, 9),
    ]
    path = tmp_path / "t.json"
    path.write_bytes(trace(*events))
    warehouse.ingest(path, name="t")
    query = "SELECT name, phase, sequences, tokens_in, tokens_out FROM serving_steps('t')"
    assert warehouse.rows(query)[1] == [(name, *told) for name, told in TOLD]


def test_times_by_hand(warehouse: Warehouse, tmp_path: Path) -> None:
    """A prefill, and two decodes that another annotation is within; kernels overlap, and another thread launches one."""
    made = Machine()

    def step(name: str, start: int, end: int, *runs: tuple[int, int, int, int], thread: int = 1) -> None:
        made.write("user_annotation", name, start, end, thread)
        for launch, stream, begin, stop in runs:
            made.correlation += 1
            ids: dict[str, Any] = {"correlation": made.correlation}
            made.write("cuda_runtime", "cudaLaunchKernel", launch, launch + 2, thread, **ids)
            made.run("gemm", begin, stop, stream, **ids)

    # On two streams: 100 to 300 and 250 to 400; the host is done at 200.
    step("execute_context_1(90)_generation_0(0)", 0, 200, (10, 7, 100, 300), (20, 8, 250, 400))
    # Launched while the prefill runs; 500 to 600.
    step("execute_context_0(0)_generation_4(4)", 210, 260, (220, 7, 500, 600))
    made.write("user_annotation", "step[DECODE bs=4]", 215, 255)
    # The host takes longer than devices: 1000 to 1300, and 1100 to 1150 there.
    step("execute_context_0(0)_generation_6(6)", 1000, 1300, (1010, 7, 1100, 1150))
    # Between the steps, and of another thread in the time of a step.
    step("other", 2000, 2100, (2010, 7, 2020, 2050))
    step("also other", 1001, 1100, (1020, 9, 1110, 1290), thread=2)
    path = tmp_path / "t.json"
    path.write_bytes(made.trace())
    warehouse.ingest(path, name="t")
    columns = "phase, sequences, host_time, device_time, time, tokens_per_second, time_per_output_token, events"
    assert warehouse.rows(f"SELECT {columns} FROM serving_steps('t')")[1] == [
        ("prefill", 1, 200, 300, 300, pytest.approx(90 / 300e-6), None, 2),
        ("decode", 4, 50, 100, 100, pytest.approx(4 / 100e-6), 100, 1),
        ("decode", 6, 300, 50, 300, pytest.approx(6 / 300e-6), 300, 1),
    ]
    columns = "phase, steps, sequences, tokens_in, tokens_out, host_time, device_time, time, share_percent, mean_time"
    query = f"SELECT {columns}, tokens_per_second, time_per_output_token FROM serving_phases('t')"
    assert warehouse.rows(query)[1] == [
        ("decode", 2, 5, 0, 10, 350, 150, 400, pytest.approx(400 / 7), 200, pytest.approx(10 / 400e-6), 200),
        ("prefill", 1, 1, 90, 0, 200, 300, 300, pytest.approx(300 / 7), 300, pytest.approx(90 / 300e-6), None),
    ]
    [(time,)] = warehouse.rows("SELECT time FROM serving_phases('t', unit := 'ns') WHERE phase = 'prefill'")[1]
    assert time == 300_000


def test_steps_of_several_threads(warehouse: Warehouse, tmp_path: Path) -> None:
    """Two engines in one process: their steps overlap, and both count; without a device, time is that of the host."""
    events = [
        event("user_annotation", "step[DECODE bs=1]", 0, 100, 1),
        event("user_annotation", "step[EXTEND bs=2 toks=0]", 50, 150, 2),
        event("user_annotation", "step[MIXED bs=2]", 200, 250, 2),
    ]
    path = tmp_path / "t.json"
    path.write_bytes(trace(*events))
    warehouse.ingest(path, name="t")
    query = "SELECT step, phase, device_time, time, tokens_per_second FROM serving_steps('t')"
    rows = warehouse.rows(query)[1]
    assert rows == [(0, "decode", None, 100, 10000), (1, "prefill", None, 100, 0), (2, "mixed", None, 50, None)]
    rows = warehouse.rows("SELECT phase, device_time, tokens_in FROM serving_phases('t') ORDER BY phase")[1]
    assert rows == [("decode", None, 0), ("mixed", None, None), ("prefill", None, 0)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("b200_eager", ("prefill", 1, 888, 0)),
        ("mi300_sglang_decode", ("decode", 32, 0, 32)),
        ("mi300_vllm_decode_graphs", ("decode", 32, 0, 32)),
    ],
)
def test_real_traces(warehouse: Warehouse, name: str, told: tuple[Any, ...]) -> None:
    """By plain Python: the outer annotation, and the time of what calls of its thread launched, each moment once."""
    path = shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    entries = [each for each in load(path) if each.get("ph") == "X"]
    [step, *_] = sorted(
        (
            each
            for each in entries
            if each["cat"] == "user_annotation" and each["name"].startswith(("execute_", "step["))
        ),
        key=lambda each: -each["dur"],
    )
    launched: defaultdict[int, bool] = defaultdict(bool)
    for each in entries:
        if each["cat"] in ("cuda_runtime", "cuda_driver") and each["tid"] == step["tid"]:
            launched[each["args"].get("correlation")] |= step["ts"] <= each["ts"] < step["ts"] + step["dur"]
    spans = sorted(
        (round(each["ts"] * 1000), round(each["ts"] * 1000) + round(each["dur"] * 1000))
        for each in entries
        if each["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and launched[each["args"]["correlation"]]
    )
    busy, reached = 0, 0
    for start, end in spans:
        busy += max(end - max(start, reached), 0)
        reached = max(reached, end)
    query = "SELECT name, phase, sequences, tokens_in, tokens_out, host_time, device_time, events FROM serving_steps('t', unit := 'ns')"
    expected = (step["name"], *told, round(step["dur"] * 1000), pytest.approx(busy, abs=len(spans)), len(spans))
    assert warehouse.rows(query)[1] == [expected]


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    names = ["step[DECODE bs=2]", "step[EXTEND bs=1 toks=8]", "step[IDLE bs=0]"]
    path.write_bytes(trace(*(event("user_annotation", name, 100 * at, 100 * at + 50) for at, name in enumerate(names))))
    rows = json.loads(run_etq("serving", str(path), "--format", "json").stdout)
    assert {row["phase"]: row["steps"] for row in rows} == {"decode": 1, "prefill": 1, None: 1}
    assert "(unknown)" in run_etq("serving", str(path)).stdout
    rows = json.loads(run_etq("serving", str(path), "--each", "--format", "json").stdout)
    assert [row["name"] for row in rows] == names
    path.write_bytes(trace(event("cpu_op", "aten::add", 0, 5)))
    note = "has no steps of vLLM or SGLang, such as execute_context_1(512)_generation_8(8) and step[DECODE bs=8]"
    assert note in run_etq("serving", str(path)).stderr
