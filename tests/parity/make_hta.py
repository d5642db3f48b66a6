"""Make the answers of HolisticTraceAnalysis 0.5.0 on the traces of `tests.launch_traces` and `tests.path_traces`:
`make_hta.py`, in its environment.

The traces are whole microseconds, which it reads as they are; fractions it would round.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from hta.trace_analysis import TraceAnalysis

from tests.launch_traces import OF_HTA, SHAPES
from tests.path_traces import OF_HTA as PATHS
from tests.path_traces import STEP

TARGET = Path(__file__).parents[1] / "captures" / "expected" / "hta.json.gz"


def rows(frame: Any) -> list[dict[str, Any]]:
    """A data frame by rows, as plain numbers and texts."""
    found: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return found


def answers(content: bytes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank.json"
        path.write_bytes(content)
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=folder, include_last_profiler_step=True)
        idle, _ = analysis.get_idle_time_breakdown(visualize=False)
        launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
        queues = analysis.get_queue_length_time_series()
        summary = analysis.get_queue_length_summary()
        summary.columns = [column[-1] for column in summary.columns]
        types, kernels = analysis.get_gpu_kernel_breakdown(
            visualize=False, num_kernels=1000, include_memory_kernels=True
        )
        found = {
            "idle": rows(idle),
            "launches": rows(launches),
            "queues": rows(queues[0][["ts", "stream", "queue_length"]]),
            "queue_summary": rows(summary.reset_index()),
            "temporal": rows(analysis.get_temporal_breakdown(visualize=False)),
            "kernel_types": rows(types),
            "kernels": rows(kernels),
        }
        if b"nccl" in content:
            found["overlap"] = rows(analysis.get_comm_comp_overlap(visualize=False))
        return found


def critical_path(content: bytes) -> list[tuple[str, int, int]]:
    """Type, start and end of each edge of the critical path of a trace's step that takes time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank.json"
        path.write_bytes(content)
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=folder, include_last_profiler_step=True)
        graph, _ = analysis.critical_path_analysis(rank=0, annotation=STEP, instance_id=0)
        nodes = graph.critical_path_nodes
        edges = [graph.edges[pair]["object"] for pair in pairwise(nodes)]
        return [
            (each.type.name, int(graph.node_list[each.begin].ts), int(graph.node_list[each.end].ts))
            for each in edges
            if each.weight
        ]


if __name__ == "__main__":
    made = {name: answers(SHAPES[name]().trace()) for name in (*OF_HTA, "differing")}
    made["critical paths"] = {name: critical_path(content) for name, content in PATHS.items()}
    TARGET.write_bytes(gzip.compress(json.dumps(made, sort_keys=True).encode(), mtime=0))
    print(TARGET, TARGET.stat().st_size)
