"""Times by lines of the user's code: of small traces by hand, of real ones as plain Python adds them up."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.ingest.trace.classes import rules
from tests.command_line import run_etq
from tests.conftest import CAPTURES, shared_file
from tests.pairs.json_traces import Trace
from tests.sampling import thinned
from tests.source_reference import NO_LINE, NO_STACK, source_rows
from tests.trace_builders import event, trace
from tests.traces import Traces

COLUMNS = (
    "source, function, calls, launches, host_time, coalesce(device_time, 0), backward_host_time,"
    " coalesce(backward_device_time, 0)"
)
# Bundled traces with stacks, and their programs' files.
RECORDED = {
    "pair_mlp": ("run.py", "models.py"), "pair_convnet": ("run.py", "models.py"),
    "pair_transformer": ("run.py", "models.py"), "transformer_stack": ("make_traces.py",),
}  # fmt: skip
OF_GPUS = {"gpu/mi300_resnet_checkpoint": ("train_ddp.py",), "gpu/mi300_ddp_no_allocator": ("train_single_gpu.py",)}
STACK = "torch/nn/functional.py(5): linear;net.py(14): forward;torch/nn/module.py(9): call;run.py(3): <module>"


def frame(name: str, start: float, end: float, thread: int = 1) -> dict[str, Any]:
    return event("python_function", name, start, end, thread)


# A step of run.py calls net.py, which calls torch; the backward pass of what net.py called runs on a thread of its own.
TRAINING = [
    event("user_annotation", "ProfilerStep#1", 10, 200),
    frame("run.py(3): <module>", 0, 210),
    frame("net.py(12): forward", 20, 80),
    frame("torch/nn/functional.py(5): linear", 30, 70),
    frame("<built-in function linear>", 32, 66),
    event("cpu_op", "aten::linear", 35, 65, **{"Sequence number": 4, "Fwd thread id": 0}),
    event("cuda_runtime", "cudaLaunchKernel", 40, 50, correlation=7),
    event("kernel", "gemm", 60, 100, 7, correlation=7, device=0, stream=7),
    frame("torch/optim/sgd.py(9): step", 120, 150),
    event("cpu_op", "aten::add_", 125, 145),
    event("cpu_op", "AddmmBackward0", 90, 115, 2, **{"Sequence number": 4, "Fwd thread id": 1}),
    event("cuda_runtime", "cudaLaunchKernel", 95, 99, 2, correlation=8),
    event("kernel", "gemm_backward", 101, 107, 7, correlation=8, device=0, stream=7),
    event("cpu_op", "torch::autograd::AccumulateGrad", 116, 119, 2),
    event("gpu_memcpy", "Memcpy DtoD", 110, 112, 7, device=0, stream=7),
    frame("threading.py(8): wait", 0, 30, 3),
]


def test_lines_of_a_training_step(traces: Traces) -> None:
    """By hand: the backward pass's 25 us, 4 of them in a launch, are net.py's, as the op that it belongs to."""
    traces.take(*TRAINING)
    assert traces.ask("trace_sources", COLUMNS, unit="us") == [
        ("net.py:12", "forward", 6 + 1, 2, 60 + 25, 46, 25, 6), ("(no stack)", None, 1, 1, 3, 2, 0, 0),
        ("run.py:3", "<module>", 4, 0, 210 - 60, 0, 0, 0), ("(no line of the user's)", None, 1, 0, 30, 0, 0, 0),
    ]  # fmt: skip
    shares = "source, source_file, source_line, host_percent, device_percent, steps, host_per_step, device_per_step"
    rows = traces.ask("trace_sources", shares, unit="us")
    assert rows[0] == ("net.py:12", "net.py", 12, pytest.approx(8500 / 268), pytest.approx(4600 / 48), 1, 85, 46)
    assert rows[2] == ("run.py:3", "run.py", 3, pytest.approx(15000 / 268), 0, 1, 150 - 20, 0)


def test_lines_of_older_traces_are_those_of_calls(traces: Traces) -> None:
    """Before Python functions were recorded, ops had the lines that called them; what they call has the same."""
    traces.take(
        event("cpu_op", "aten::linear", 0, 30, 1, **{"Call stack": STACK}),
        event("cpu_op", "aten::addmm", 5, 25),
        event("cpu_op", "aten::relu", 40, 50, 1, **{"Call stack": "torch/nn/functional.py(5): relu"}),
        event("cpu_op", "aten::add", 60, 70),
    )
    assert traces.ask("trace_sources", COLUMNS, unit="us") == [
        ("net.py:14", "forward", 2, 0, 30, 0, 0, 0), ("(no line of the user's)", None, 1, 0, 10, 0, 0, 0),
        ("(no stack)", None, 1, 0, 10, 0, 0, 0),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", thinned([*RECORDED, *OF_GPUS], ("pair_mlp", "transformer_stack", *[*OF_GPUS][:1])))
def test_lines_are_those_of_plain_python(name: str) -> None:
    """Each line's events and times, exactly; and together they are those of `key_averages`."""
    files = {**RECORDED, **OF_GPUS}[name]
    file = f"{name}.pt.trace.json.gz"
    path = CAPTURES / "torch" / file if name in RECORDED else shared_file(f"captures/torch/{file}")
    # The profiler writes backslashes of Windows' paths as they are.
    written = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    expected = source_rows(Trace(written), lambda file: file in files)
    with etq.read(path) as warehouse:
        found = warehouse.rows(f"SELECT {COLUMNS} FROM trace_sources('@latest', unit := 'ns')")[1]
        whole = """SELECT sum(self_cpu_time), sum(CASE WHEN NOT is_device THEN self_device_time END)
            FROM key_averages('@latest', unit := 'ns')"""
        [(host, device)] = warehouse.rows(whole)[1]
    assert {row[:2]: list(row[2:]) for row in found} == expected
    assert sum(row[4] for row in found) == host
    assert sum(row[5] for row in found) == (device or 0)
    assert expected.keys() - {NO_STACK, NO_LINE}


def test_a_trace_without_stacks_says_how_to_record_them(tmp_path: Path) -> None:
    path = tmp_path / "plain.pt.trace.json"
    path.write_bytes(trace(event("cpu_op", "aten::relu", 0, 10)))
    found = run_etq("ops", str(path), "--by", "source")
    assert "has no stacks, so nothing has a line: record it with with_stack=True" in found.stderr
    assert not found.stdout.strip()
    assert "leave out --method" in run_etq("ops", str(path), "--by", "source", "--method", "forward").stderr


@pytest.mark.parametrize(
    ("function", "is_library"),
    [
        ("torch/nn/functional.py(5): linear", True), ("torch_utils.py(5): f", False), ("torchvision/ops.py(1): f", True),
        ("/usr/lib/python3.12/re/__init__.py(163): match", True), ("mine/re/__init__.py(163): match", False),
        ("/home/me/env/lib/python3.11/site-packages/own/net.py(3): f", True), ("<built-in function len>", True),
        ("/usr/lib/python3/dist-packages/own/net.py(3): f", True), ("<frozen importlib._bootstrap>(9): f", True),
        (r"C:\Python311\Lib\threading.py(3): wait", True), (r"C:\work\net.py(3): f", False),
        ("<string>(2): __init__", True), ("<ipython-input-4-ab>(3): train", False), ("<stdin>(1): <module>", False),
        ("/tmp/ipykernel_71/29.py(3): train", False), ("/tmp/torchinductor_me/ob/cob.py(48): call", True),
        ("/opt/pytorch/torch/nn/functional.py(5): linear", True), ("train.py(1): main", False),
        ("profile.py(3): main", False), ("datasets/own.py(3): load", False), ("transformers/a.py(3): f", True),
    ],
)  # fmt: skip
def test_which_code_is_the_users(function: str, is_library: bool) -> None:
    assert rules().is_library(function) == is_library


def test_modules_of_python_are_libraries() -> None:
    """All that this Python has in files, without those that scripts are called as, too."""
    others = {"antigravity", "cmd", "code", "idlelib", "profile", "pydoc_data", "this", "trace", "turtle", "turtledemo"}
    folder = Path(json.__file__).parents[1]
    modules = {name for name in sys.stdlib_module_names if (folder / f"{name}.py").exists() or (folder / name).is_dir()}
    assert {name for name in modules if not rules().is_library(f"{name}.py(1): f")} <= others
    assert len(modules) > 150
