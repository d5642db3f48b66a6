"""Costs that rest on sizes that the trace lacks and people give: by hand, and marked."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.errors import ArgumentError, FormatError
from etq.ingest.costs.assumptions import NAMES
from tests.conftest import CAPTURES
from tests.sql.test_op_efficiency import DOWN, GEMM, H100, HALF, ROWS, UP, launched, op
from tests.sql.test_trace_views import merged
from tests.trace_builders import event, trace
from tests.traces import Traces

# 7 tokens of 96 elements for 16 experts, of which each token has 3; an expert has 3 matrices of 40 x 96.
GATES, ONE, ONE_GATE = ([7, 16], HALF), ([1, 96], HALF), ([1, 16], HALF)
EXPERT = 3 * 40 * 96
CHOSEN = "top_k=3,expert_width=40,matrices=3"
UNWRITTEN = "the trace lacks the weights of its experts: assume top_k, expert_width and matrices"
WIDTH = "the trace lacks the weights of its experts: assume expert_width"
USED = "bytes: the trace doesn't show which experts are used: assume used_experts"
UNUSED = "bytes: the trace doesn't show which experts are used: assume used_experts and weight_bytes"
COSTS = "flops, bytes, reason, assumed"


@pytest.fixture
def experts(traces: Traces) -> Traces:
    """Calls that name no weights, of 7 tokens and of one; one that names them, and a product."""
    traces.take(
        op("vllm::moe_forward", 0, 9, ROWS, GATES, None), *launched(GEMM, 1, 40, 1),
        op("vllm::moe_forward", 100, 109, ONE, ONE_GATE, None), *launched(GEMM, 101, 30, 2),
        op("sglang::outplace_fused_experts", 200, 209, ROWS, UP, DOWN, ([7, 3], "float"), ([7, 3], "int")),
        *launched(GEMM, 201, 20, 3),
        op("aten::mm", 300, 309, ROWS, ([96, 8], HALF)), *launched(GEMM, 301, 10, 4), **H100,
    )  # fmt: skip
    return traces


KERNEL = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_cga1x1x1_biasM_bN_clmp_swiGlu_dynBatch_sm100f"
# What 7 tokens allocate, with 3 experts for each: numbers and weights of experts, results, and a row for each expert of
# a token, in blocks.
ALLOCATED = ["[7, 3]", "[7, 3]", "[7, 96]", "[16]", "[32, 40]", "[64]", "[32, 96]"]
ALL = (2 * 7 * 3 * EXPERT, None, UNUSED, None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "allocated", "assume", "expected"),
    [
        (KERNEL, ALLOCATED, "", ALL),
        # What the trace shows isn't replaced.
        (KERNEL, ALLOCATED, "top_k=2,expert_width=8", ALL),
        (KERNEL, ALLOCATED, "used_experts=5,weight_bytes=2",
         (ALL[0], 2 * (2 * 672 + 7 * 16) + 5 * EXPERT * 2, None, "used_experts=5 weight_bytes=2")),
        # Another kernel; two numbers of experts; a row for fewer experts than tokens have; two widths.
        (GEMM, ALLOCATED, "", (None, None, UNWRITTEN, None)),
        (KERNEL.replace("E4m3_Fp32", "E2m1_Fp32"), ALLOCATED, "", (None, None, UNWRITTEN, None)),
        (KERNEL, ["[7, 2]", *ALLOCATED], "", (None, None, UNWRITTEN, None)),
        (KERNEL, [*ALLOCATED[:4], "[20, 40]", "[20, 96]"], "", (None, None, UNWRITTEN, None)),
        (KERNEL, [*ALLOCATED, "[32, 48]", "[32, 96]"], "", (None, None, UNWRITTEN, None)),
    ],
)  # fmt: skip
def test_experts_whose_sizes_are_allocated(
    traces: Traces, kernel: str, allocated: list[str], assume: str, expected: tuple[object, ...]
) -> None:
    """7 tokens of 96 elements for 16 experts, of which each token has 3; an expert has 3 matrices of 40 x 96."""
    made = [op("aten::empty", at, at + 0.5, sizes, "0") for at, sizes in enumerate(allocated, 1)]
    traces.take(
        op("vllm::moe_forward", 0, 50, ROWS, GATES, None), *made, *launched(kernel, 40, 30, 1),
        op("aten::empty", 60, 61, "[7, 5]", "0"), **H100,
    )  # fmt: skip
    assert traces.ask("op_efficiency", COSTS, assume=assume) == [expected]


@pytest.mark.long
@pytest.mark.parametrize(
    ("assume", "seven", "one", "written"),
    [
        (None, (None, None, UNWRITTEN, None), (None, None, UNWRITTEN, None), None),
        # Two of the three that its operations need.
        ("top_k=3,matrices=3", (None, None, WIDTH, None), (None, None, WIDTH, None), None),
        (CHOSEN,
         (2 * 7 * 3 * EXPERT, None, UNUSED, "top_k=3 expert_width=40 matrices=3"),
         (2 * 3 * EXPERT, None, UNUSED, "top_k=3 expert_width=40 matrices=3"), None),
        # One token uses as many experts as it has. Half a byte for each weight.
        (f"{CHOSEN},weight_bytes=0.5",
         (2 * 7 * 3 * EXPERT, None, USED, "top_k=3 expert_width=40 matrices=3 weight_bytes=0.5"),
         (2 * 3 * EXPERT, 2 * (2 * 96 + 16) + 3 * EXPERT // 2, None, "top_k=3 expert_width=40 matrices=3 weight_bytes=0.5"),
         None),
        (f" used_experts = 5 , weight_bytes=2,{CHOSEN}",
         (2 * 7 * 3 * EXPERT, 2 * (2 * 672 + 7 * 16) + 5 * EXPERT * 2, None,
          "top_k=3 used_experts=5 expert_width=40 matrices=3 weight_bytes=2"),
         (2 * 3 * EXPERT, 2 * (2 * 96 + 16) + 5 * EXPERT * 2, None,
          "top_k=3 used_experts=5 expert_width=40 matrices=3 weight_bytes=2"), 5),
        # A device that has half of the experts of each token.
        ("top_k=1.5,expert_width=40,matrices=2",
         (2 * 7 * 40 * 96 * 3, None, UNUSED, "top_k=1.5 expert_width=40 matrices=2"),
         (2 * 40 * 96 * 3, None, UNUSED, "top_k=1.5 expert_width=40 matrices=2"), None),
    ],
)  # fmt: skip
def test_experts_whose_weights_are_not_named(
    experts: Traces, assume: str | None, seven: tuple[object, ...], one: tuple[object, ...], written: int | None
) -> None:
    """What the trace has isn't assumed: weights and experts of the call that names them, a product."""
    rows = experts.ask("op_efficiency", f"total, {COSTS}", **({"assume": assume} if assume else {}))
    found = {row[0]: row[1:] for row in rows}
    assert (found[40], found[30]) == (seven, one)
    flops, tensors = 2 * 7 * 3 * EXPERT, 2 * 2 * 672 + 7 * 3 * (4 + 4)
    assert found[20] == (
        (flops, tensors + written * EXPERT * 2, None, f"used_experts={written}") if written
        else (flops, None, "bytes: the trace doesn't show which experts are used: assume used_experts", None)
    )  # fmt: skip
    assert found[10] == (2 * 7 * 8 * 96, 2 * (672 + 8 * 96 + 56), None, None)


def test_more_experts_than_there_are(experts: Traces) -> None:
    """All 16 are read at most."""
    [row] = [row for row in experts.ask("op_efficiency", "total, bytes", assume="used_experts=99") if row[0] == 20]
    assert row[1] == 2 * 2 * 672 + 7 * 3 * 8 + 16 * EXPERT * 2


@pytest.mark.long
def test_all_experts_fit_into_the_operations(traces: Traces) -> None:
    """8,192 tokens of 2,048 elements: reading all 4 experts takes less than their operations, so that the roof is known."""
    traces.take(
        op("vllm::moe_forward", 0, 9, ([8192, 2048], HALF), ([8192, 4], HALF), None), *launched(GEMM, 1, 300, 1), **H100
    )  # fmt: skip
    assume = "top_k=2,experts=4,expert_width=1024,matrices=3,weight_bytes=2"
    flops = 2 * 8192 * 2 * 3 * 1024 * 2048
    assert traces.ask("op_efficiency", "flops, bytes, bound, roof_percent, known_percent, assumed", assume=assume) == [
        (flops, None, "compute", pytest.approx(flops / 989.4e12 / 300e-6 * 100), 100,
         "top_k=2 experts=4 expert_width=1024 matrices=3 weight_bytes=2")
    ]  # fmt: skip
    [unknown] = traces.ask(
        "op_efficiency", "roof_percent, known_percent", assume="top_k=2,expert_width=1024,matrices=3"
    )
    assert unknown == (None, 0)


@pytest.mark.long
def test_groups_and_steps_say_what_is_assumed(experts: Traces) -> None:
    """Rows that hold an op whose cost rests on it; a step has the operations of the ops that are known without it, too."""
    rows = experts.ask("op_efficiency", "family, assumed", by="family", assume=f"{CHOSEN},used_experts=5")
    assert rows == [
        ("MoE", "top_k=3 used_experts=5 expert_width=40 matrices=3; used_experts=5"), ("GEMM", None)
    ]  # fmt: skip
    known = 2 * 7 * 3 * EXPERT + 2 * 7 * 8 * 96
    steps = "model_flops, known_percent, assumed"
    assert experts.ask("step_efficiency", steps) == [(known, pytest.approx(30), None)]
    assert experts.ask("step_efficiency", steps, assume=CHOSEN) == [
        (known + 2 * (7 + 1) * 3 * EXPERT, pytest.approx(100), "top_k=3 expert_width=40 matrices=3")
    ]
    stored = experts.warehouse.rows("SELECT e.model_flops, e.assumed FROM all_step_efficiency AS e")[1]
    assert stored == [(known + 2 * (7 + 1) * 3 * EXPERT, "top_k=3 expert_width=40 matrices=3")]
    # They stay when the file is read again, until others are given.
    experts.warehouse.ingest_again(folders=[experts.path.parent])
    assert experts.warehouse.rows("SELECT c.assumed FROM captures AS c")[1] == [(CHOSEN,)]
    assert experts.ask("step_efficiency", steps) == [(known, pytest.approx(30), None)]


WRONG = {
    "topk=4": "assume: nothing is called topk; the names are top_k, experts, expert_width, matrices, ",
    "top_k=4,experts": "assume: 'top_k=4,experts' is not a list of name=number with numbers above 0, of at most 12",
    "top_k=0": "is not a list of name=number with numbers above 0",
    "top_k=-1": "is not a list of name=number",
    "top_k=1e400": "is not a list of name=number",
    "top_k=4,top_k=5": "assume: 'top_k=4,top_k=5' has a name twice; give each once",
}


def test_what_is_no_size_is_an_error() -> None:
    for assume, message in WRONG.items():
        with pytest.raises(ArgumentError) as raised:
            etq.read(b"{}", assume=assume)
        assert message in str(raised.value)


def test_sizes_are_assumed_of_traces_alone() -> None:
    with pytest.raises(FormatError, match="not a PyTorch trace; assumed sizes are for traces only"):
        etq.read(CAPTURES / "mlp/mlp.etdp", assume=CHOSEN)


def test_sizes_may_be_more_than_are_needed(traces: Traces) -> None:
    """Of tokens without a size, nothing is known, whatever is assumed."""
    traces.take(op("vllm::moe_forward", 0, 9, None, None, None), *launched(GEMM, 1, 300, 1), **H100)
    assume = ",".join(f"{name}=2" for name in NAMES)
    [(flops, bytes, reason, assumed)] = traces.ask("op_efficiency", COSTS, assume=assume)
    assert (flops, bytes, assumed) == (None, None, None) and reason is not None


def test_each_way_to_ingest_takes_them(traces: Traces, tmp_path: Path) -> None:
    """Many files, of which other processes read the large ones; of files that aren't traces, nothing is assumed."""
    call = op("vllm::moe_forward", 0, 9, ROWS, GATES, None)
    padding = [event("user_annotation", "x" * 4000, 10 + at, 10.5 + at) for at in range(1200)]
    files = [tmp_path / f"{name}.pt.trace.json" for name in ("small", "large", "larger")]
    for number, file in enumerate(files):
        file.write_bytes(trace(call, *launched(GEMM, 1, 40, 1), *padding[: 1200 if number else 0], number=number))
    traces.warehouse.ingest_many([*files, CAPTURES / "mlp/mlp.etdp"], assume=CHOSEN)
    found = dict(traces.warehouse.rows("SELECT c.name, c.assumed FROM captures AS c")[1])
    assert found == {"small": CHOSEN, "large": CHOSEN, "larger": CHOSEN, "mlp": None}
    costs = traces.warehouse.rows("SELECT c.flops FROM call_costs AS c WHERE c.op = 'vllm::moe_forward'")[1]
    assert costs == [(2 * 7 * 3 * EXPERT,)] * 3


@pytest.mark.long
def test_ranks_take_them(traces: Traces) -> None:
    ranks = traces.warehouse.ingest_ranks(merged("process"), assume=CHOSEN)
    assert len(ranks) > 1
    assert {assumed for (assumed,) in traces.warehouse.rows("SELECT c.assumed FROM captures AS c")[1]} == {CHOSEN}
