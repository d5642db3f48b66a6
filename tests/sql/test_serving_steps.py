"""Steps of vLLM and SGLang: phase, sequences and tokens as planted in names, times by plain Python, and of real traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etq.ingest.trace.serving import told_by
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.launch_traces import Machine
from tests.trace_builders import event, trace

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


def test_names_tell_what_they_tell(warehouse: Warehouse) -> None:
    names = [name for name, _ in TOLD] + OTHERS
    events = [event("user_annotation", name, 100 * at, 100 * at + 50) for at, name in enumerate(names)]
    # Neither an op of such a name nor the annotation's range on a device is a step.
    events += [
        event("cpu_op", "step[DECODE bs=3]", 9000, 9001),
        event("gpu_user_annotation", "step[DECODE bs=3]", 1, 9),
    ]
    warehouse.ingest(trace(*events), name="t")
    query = "SELECT name, phase, sequences, tokens_in, tokens_out FROM serving_steps('t')"
    assert warehouse.rows(query)[1] == [(name, *told) for name, told in TOLD]


def test_times_by_hand(warehouse: Warehouse) -> None:
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
    warehouse.ingest(made.trace(), name="t")
    columns = "phase, sequences, host_time, device_time, time, tokens_per_second, time_per_output_token, events"
    assert warehouse.rows(f"SELECT {columns} FROM serving_steps('t')")[1] == [
        ("prefill", 1, 200, 300, 300, pytest.approx(90 / 300e-6), None, 2),
        ("decode", 4, 50, 100, 100, pytest.approx(4 / 100e-6), 100, 1),
        ("decode", 6, 300, 50, 300, pytest.approx(6 / 300e-6), 300, 1),
    ]
    columns = "phase, steps, sequences, tokens_in, tokens_out, host_time, device_time, time, share_percent, per_step"
    query = f"SELECT {columns}, tokens_per_second, time_per_output_token FROM serving_phases('t')"
    assert warehouse.rows(query)[1] == [
        ("decode", 2, 5, 0, 10, 350, 150, 400, pytest.approx(400 / 7), 200, pytest.approx(10 / 400e-6), 200),
        ("prefill", 1, 1, 90, 0, 200, 300, 300, pytest.approx(300 / 7), 300, pytest.approx(90 / 300e-6), None),
    ]
    [(time,)] = warehouse.rows("SELECT time FROM serving_phases('t', unit := 'ns') WHERE phase = 'prefill'")[1]
    assert time == 300_000


def test_steps_of_several_threads(warehouse: Warehouse) -> None:
    """Two engines in one process: their steps overlap, and both count; without a device, time is that of the host."""
    events = [
        event("user_annotation", "step[DECODE bs=1]", 0, 100, 1),
        event("user_annotation", "step[EXTEND bs=2 toks=0]", 50, 150, 2),
        event("user_annotation", "step[MIXED bs=2]", 200, 250, 2),
    ]
    warehouse.ingest(trace(*events), name="t")
    query = "SELECT step, phase, device_time, time, tokens_per_second FROM serving_steps('t')"
    rows = warehouse.rows(query)[1]
    assert rows == [(0, "decode", None, 100, 10000), (1, "prefill", None, 100, 0), (2, "mixed", None, 50, None)]
    rows = warehouse.rows("SELECT phase, device_time, tokens_in FROM serving_phases('t') ORDER BY phase")[1]
    assert rows == [("decode", None, 0), ("mixed", None, None), ("prefill", None, 0)]


def test_both_readers_of_names_agree() -> None:
    for name, told in TOLD:
        assert told_by(name) == ("sglang" if name.startswith("step[") else "vllm", *told), name
    assert [name for name in OTHERS if told_by(name) is not None] == []


def server(path: Path, *steps: tuple[str, int, int], profiled: bool = False) -> Path:
    """Write a trace: each step, of a name, has an op of some microseconds, which launches a kernel of some others."""
    made = Machine()
    for at, (name, op, kernel) in enumerate(steps):
        start = 1000 * at
        ids: dict[str, Any] = {"correlation": at + 1}
        if profiled:
            made.write("user_annotation", f"ProfilerStep#{at + 5}", start, start + 900)
        made.write("user_annotation", name, start + 10, start + 800)
        made.write("cpu_op", "aten::mm", start + 20, start + 20 + op)
        made.write("cuda_runtime", "cudaLaunchKernel", start + 21, start + 23, **ids)
        # It ends when the next step has begun.
        made.run("gemm", start + 990, start + 990 + kernel, 7, **ids)
        made.write("cpu_op", "aten::argmax", start + 910, start + 915)
    path.write_bytes(made.trace())
    return path


PREFILL, DECODE, MIXED = "step[EXTEND bs=1 toks=90]", "step[DECODE bs=4]", "step[MIXED bs=5]"


@pytest.mark.long
@pytest.mark.parametrize("profiled", [False, True])
def test_phases_select_steps(warehouse: Warehouse, tmp_path: Path, profiled: bool) -> None:
    """The decodes' ops of 10 and 12 us and kernels of 50 and 60 us, as planted; what is between steps is in none."""
    steps = ((PREFILL, 100, 500), (DECODE, 10, 50), (MIXED, 30, 200), (DECODE, 12, 60), ("step[IDLE bs=0]", 1, 2))
    warehouse.ingest(server(tmp_path / "t.json", *steps, profiled=profiled), name="t")
    query = "SELECT name, phase FROM runs ORDER BY run_index"
    run = "ProfilerStep" if profiled else "ServingStep"
    phases = ("prefill", "decode", "mixed", "decode", None)
    assert warehouse.rows(query)[1] == [*((run, phase) for phase in phases), ("Outside of steps", None)]
    query = "SELECT calls, total, steps, per_step FROM kernel_table('t', phase := $phase)"
    assert warehouse.rows(query, phase="decode")[1] == [(2, 110, 2, 55)]
    assert warehouse.rows(query, phase="mixed")[1] == [(1, 200, 1, 200)]
    assert warehouse.rows(query, phase=None)[1] == [(5, 812, 5, 162.4)]
    query = "SELECT name, calls, cpu_time_total FROM key_averages('t', phase := 'decode') WHERE name LIKE 'aten%'"
    assert warehouse.rows(query)[1] == [("aten::mm", 2, 22)]
    query = "SELECT step, total FROM wide_steps('t', unit := 'us') ORDER BY run_index"
    rows = warehouse.rows(query)[1]
    assert [step for step, _ in rows] == ([5, 6, 7, 8, 9] if profiled else [0, 1, 2, 3, 4])
    query = "SELECT phase, runs FROM phase_totals('t') ORDER BY phase"
    assert warehouse.rows(query)[1] == [("decode", 2), ("mixed", 1), ("prefill", 1), (None, 2)]
    # The names are read from steps as from other annotations.
    query = "SELECT phase, device_time FROM serving_steps('t')"
    assert warehouse.rows(query)[1] == [*zip(phases, (500, 50, 200, 60, 2), strict=True)]


def test_a_profiler_step_of_several_phases_has_none(warehouse: Warehouse) -> None:
    events = [
        *(event("user_annotation", f"ProfilerStep#{at}", 100 * at, 100 * at + 90) for at in range(3)),
        event("user_annotation", DECODE, 0, 20), event("user_annotation", DECODE, 30, 40),
        event("user_annotation", DECODE, 100, 120), event("user_annotation", PREFILL, 130, 140),
        event("user_annotation", DECODE, 200, 220), event("user_annotation", "step[IDLE bs=0]", 230, 240),
    ]  # fmt: skip
    warehouse.ingest(trace(*events), name="t")
    assert warehouse.rows("SELECT phase FROM runs ORDER BY run_index")[1] == [("decode",), (None,), (None,)]


def test_steps_that_overlap_are_no_runs(warehouse: Warehouse) -> None:
    """Two engines in one process: what a moment belongs to isn't told."""
    events = [event("user_annotation", DECODE, 0, 100, 1), event("user_annotation", PREFILL, 50, 150, 2)]
    warehouse.ingest(trace(*events), name="t")
    assert warehouse.rows("SELECT name, phase FROM runs")[1] == [("Trace", None)]
    assert warehouse.rows("SELECT key, value FROM labels")[1] == [("engine", "sglang")]


@pytest.mark.parametrize(
    ("steps", "labels"),
    [
        ([DECODE, DECODE], {"engine": "sglang", "phase": "decode", "batch": "4", "tokens": "4"}),
        ([DECODE, "step[DECODE bs=3]"], {"engine": "sglang", "phase": "decode"}),
        ([DECODE, MIXED], {"engine": "sglang"}),
        (["execute_context_1(60)_generation_3(3)"], {"engine": "vllm", "phase": "mixed", "batch": "4", "tokens": "63"}),
        (["execute_new_0_cached_8"] * 2, {"engine": "vllm", "batch": "8"}),
        ([f"execute_context_{10**30}(5)_generation_1(1)"], {"engine": "vllm", "tokens": "6"}),
        (["step[DECODE]", "forward"], {}),
    ],
)
def test_labels_are_what_is_the_same_in_all_steps(
    warehouse: Warehouse, tmp_path: Path, steps: list[str], labels: dict[str, str]
) -> None:
    warehouse.ingest(server(tmp_path / "t.json", *((name, 1, 1) for name in steps)), name="t", labels={"model": "m"})
    found = dict(warehouse.rows("SELECT key, value FROM labels WHERE key <> 'model'")[1])
    assert found == labels


@pytest.mark.long
def test_traces_are_compared_by_phase(warehouse: Warehouse, tmp_path: Path) -> None:
    """The kernels of decodes are slower by 20 %; those of prefills are not. A phase applies to files, too."""
    paths = [
        server(
            tmp_path / f"{side}.json",
            *[(PREFILL, 100, 500), *[(DECODE, 10, kernel + more) for more in (0, 2, 3, 5)]] * 3,
        )
        for side, kernel in (("base", 100), ("new", 120))
    ]
    warehouse.ingest_many(paths)
    query = "SELECT base, new FROM compare_ops('base', 'new', phase := $phase) WHERE kind = 'device_kernel'"
    assert warehouse.rows(query, phase="decode")[1] == [(102.5, 122.5)]
    assert warehouse.rows(query, phase="prefill")[1] == [(500, 500)]
    rows = json.loads(run_etq("kernels", str(paths[0]), "--phase", "decode", "--format", "json").stdout)
    assert [(row["calls"], row["per_step"]) for row in rows] == [(12, 102.5)]
    [note] = run_etq("kernels", str(paths[0]), "--phase", "mixed").stderr.splitlines()
    assert note == "Note: no run of base is of phase mixed; known are decode, prefill"
    rows = json.loads(run_etq("show", "serving_phases", str(paths[0]), "--format", "json").stdout)
    assert {row["phase"]: row["steps"] for row in rows} == {"decode": 12, "prefill": 3}
    rows = json.loads(run_etq("show", "serving_steps", str(paths[0]), "--format", "json").stdout)
    assert [row["name"] for row in rows] == [PREFILL, *[DECODE] * 4] * 3
