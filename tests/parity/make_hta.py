"""Make the answers of HolisticTraceAnalysis 0.5.0 again, and the traces that it answers about:

    ENV/bin/python -m tests.parity.make_hta    # in its environment

`expected/hta.json.gz` is about the traces of `tests.launch_traces` and `tests.path_traces`; `torch_counters` has that of
`tests.counter_traces`; `torch_diff` those of `tests.trace_pairs`, and the rows of its TraceDiff for each step and all.

The traces are whole microseconds, which it reads as they are; fractions it would round.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from hta.trace_analysis import TraceAnalysis
from hta.trace_diff import DeviceType, LabeledTrace, TraceDiff

from tests.counter_traces import INSTRUCTIONS, OTHERS, counted
from tests.launch_traces import OF_HTA, SHAPES
from tests.parity.making import write_json
from tests.path_traces import OF_HTA as PATHS
from tests.path_traces import STEP
from tests.trace_pairs import Planted, trained

CAPTURES: Final = Path(__file__).parents[1] / "captures"
STEPS: Final = 2
PAIRS: Final = {
    "base": Planted(),
    "slower": Planted(host={"aten::conv2d": 1.2}, device={"conv_kernel": 1.2}),
    "calls": Planted(calls={"aten::relu": 3, "aten::mul": 1}),
    "kernel": Planted(kernels={"aten::mul": "mul_kernel_v2", "aten::sum": None, "aten::linear": "extra_kernel"}),
}


def rows(frame: Any) -> list[dict[str, Any]]:
    """A data frame by rows, as plain numbers and texts."""
    found: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return found


@contextmanager
def analysed(content: bytes) -> Iterator[Any]:
    """Its analysis of a trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank.json"
        path.write_bytes(content)
        yield TraceAnalysis(trace_files={0: str(path)}, trace_dir=folder, include_last_profiler_step=True)


def answers(content: bytes) -> dict[str, Any]:
    with analysed(content) as analysis:
        idle, _ = analysis.get_idle_time_breakdown(visualize=False)
        launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
        queues = analysis.get_queue_length_time_series()
        summary = analysis.get_queue_length_summary()
        summary.columns = [column[-1] for column in summary.columns]
        types, kernels = analysis.get_gpu_kernel_breakdown(
            visualize=False, num_kernels=1000, include_memory_kernels=True
        )
        found = {
            "idle": rows(idle), "launches": rows(launches), "queues": rows(queues[0][["ts", "stream", "queue_length"]]),
            "queue_summary": rows(summary.reset_index()),
            "temporal": rows(analysis.get_temporal_breakdown(visualize=False)), "kernel_types": rows(types),
            "kernels": rows(kernels),
        }  # fmt: skip
        if b"nccl" in content:
            found["overlap"] = rows(analysis.get_comm_comp_overlap(visualize=False))
        return found


def critical_path(content: bytes) -> list[tuple[str, int, int]]:
    """Type, start and end of each edge of the critical path of a trace's step that takes time."""
    with analysed(content) as analysis:
        graph, _ = analysis.critical_path_analysis(rank=0, annotation=STEP, instance_id=0)
        nodes = graph.critical_path_nodes
        edges = [graph.edges[pair]["object"] for pair in pairwise(nodes)]
        return [
            (each.type.name, int(graph.node_list[each.begin].ts), int(graph.node_list[each.end].ts))
            for each in edges
            if each.weight
        ]


def counters(content: bytes) -> list[dict[str, Any]]:
    with analysed(content) as analysis:
        [frame] = analysis.get_cupti_counter_data_with_operators()
    columns = ["name", "top_level_op", "bottom_level_op", "op_stack", *INSTRUCTIONS, *OTHERS]
    found: list[dict[str, Any]] = frame.sort_values("ts")[columns].to_dict(orient="records")
    return found


def rounded(content: bytes) -> bytes:
    """The same trace with a rank, in whole microseconds: HolisticTraceAnalysis rounds starts up and ends down."""
    read: dict[str, Any] = json.loads(content)
    for each in read["traceEvents"]:
        start, end = round(each["ts"]), round(each["ts"] + each["dur"])
        each |= {"ts": start, "dur": end - start}
    return json.dumps({**read, "distributedInfo": {"rank": 0, "world_size": 1}}, separators=(",", ":")).encode()


def differences(base: str, new: str) -> Iterator[dict[str, Any]]:
    """What differs between two folders of a trace each: of each step and of all, on the host and on the device."""
    for steps in [*([each] for each in range(STEPS)), list(range(STEPS))]:
        for device in (DeviceType.CPU, DeviceType.GPU):
            sides = (LabeledTrace(folder.rpartition("/")[2], trace_dir=folder) for folder in (base, new))
            given = {"control_iteration": steps, "test_iteration": steps, "device_type": device}
            found = TraceDiff.compare_traces(*sides, **given)
            yield {"steps": steps, "device": device.name, "rows": rows(found.reset_index())}


def make_pairs(folder: Path) -> None:
    answered: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for seed, (name, planted) in enumerate(PAIRS.items()):
            packed = gzip.compress(rounded(trained(seed, planted, steps=STEPS)), mtime=0)
            (folder / f"{name}.pt.trace.json.gz").write_bytes(packed)
            (Path(scratch) / name).mkdir()
            (Path(scratch) / name / "rank0.pt.trace.json.gz").write_bytes(packed)
            answered[name] = list(differences(f"{scratch}/base", f"{scratch}/{name}")) if seed else []
    del answered["base"]
    write_json(folder / "trace_diff.json.gz", answered)


if __name__ == "__main__":
    made = {name: answers(SHAPES[name]().trace()) for name in (*OF_HTA, "differing")}
    write_json(
        CAPTURES / "expected" / "hta.json.gz",
        {**made, "critical paths": {name: critical_path(content) for name, content in PATHS.items()}},
    )
    (CAPTURES / "torch_counters" / "counters.pt.trace.json.gz").write_bytes(gzip.compress(counted(), mtime=0))
    write_json(CAPTURES / "torch_counters" / "counters.hta.json.gz", counters(counted()))
    make_pairs(CAPTURES / "torch_diff")
