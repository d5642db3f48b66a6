"""Questions about captures of all kinds: what is asked of each view, of DuckDB and of Spark alike.

They are real but for a GPU's trace, which is small enough to be kept here.
"""

from __future__ import annotations

import os
from pathlib import Path

import etq
from etq import catalog
from etq.advice.filling import fill_rollups
from etq.catalog import SqlObject
from etq.storage.linking import link_many
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.trace_builders import event, memory, trace, two_steps

# Of each kind: kernels alone, a delegate with a map and one without, control flow, values logged, PyTorch, the old format.
KINDS = ("mlp", "convnet_xnn", "demo_str", "cond_mixed", "values", "mlp_train", "iterations")
# Whether each view is queried on every kind, which takes a quarter of an hour.
ALL_KINDS = bool(os.environ.get("ETQ_ALL_KINDS"))
_TRACES = ("mlp", "mlp_train", "gpu")  # views of traces only
_RECORDED = {"mlp": "mlp", "convnet_xnn": "convnet_xnn", "demo_str": "demo_str", "loops": "maploop", "values": "mlp"}
_SIDES = (
    "'side=mlp,device=fleet', 'side=convnet,device=fleet'",
    "'half=0', 'half=1'",
    "'mlp', 'values', allow_mismatch := true",
)
# Where a view needs more than a capture, or has more to ask.
_MORE = {
    "capture_groups": ["'model'", "'device', selectors := ['half=0', 'mlp']"],
    "compare_calls": ["'before', 'after'", "'mlp_train', 'pair_mlp'"],
    "compare_efficiency": ["'before', 'after'", "'before', 'after', \"by\" := 'op'"],
    "compare_jobs": ["'gpu', 'gpu'"], "compare_graphs": ["'mlp', 'convnet_xnn'"], "compare_programs": ["'mlp', 'convnet_xnn'"],
    "delegation": ["'convnet_xnn'", "'demo_str'", "'convnet_xnn', program := 'convnet_xnn'"],
    "device_idle": ["'gpu'", "'gpu', \"by\" := 'stream'"], "device_idle_causes": ["'gpu'"], "event_times": ["'loops'"],
    **{view: ["'gpu'"] for view in ("kernel_launches", "launch_totals", "queue_lengths", "queue_summary")},
    "device_breakdown": ["'gpu'", "'gpu', \"by\" := 'step'"],
    **{view: ["'gpu'"] for view in ("held_memory", "memory_leaks", "peak_memory")},
    "passes": ["'gpu', \"by\" := 'step'"], "backward_times": ["'gpu'", "'mlp_train', \"by\" := 'op'"],
    "tensor_core_use": ["'gpu', \"by\" := 'step'"], "wide_steps": ["'gpu'"], "step_efficiency": ["'gpu'"],
    "clock_offsets": ["selector := 'gpu'", "unit := 'ns'"], "collective_waits": ["selector := 'gpu'"],
    "collectives": ["'gloo_0'"], "rank_steps": ["selector := 'gpu'"], "serving_phases": ["'gpu'"],
    "serving_steps": ["'gpu'"], "stragglers": ["selector := 'gpu'"], "work_totals": ["'gpu'"], "work_types": ["'gpu'"],
    **{
        view: ["'gpu'"] for view in ("annotation_kernels", "copies", "copy_totals", "fusable_chains", "kernel_families")
    },
    "jobs": ["selector := 'gpu'"], "kernel_counters": ["'counters'"], "rank_ops": ["selector := 'gpu'"],
    "rank_waits": ["selector := 'gpu'"], "job_critical_path": ["selector := 'gpu'"],
    "kernel_sequences": ["'gpu', min_length := 1"],
    "find_total_for_module": ["'mlp', 'L__self__'", "'convnet_xnn', 'features', match := 'substring'"],
    "inspector_events": ["'loops', repeats := 'last'", "'loops'", "'mlp', phase := 'decode', unit := 'ms'"],
    "key_averages": ["'mlp_train', \"by\" := 'shape'", "'gpu'", "'mlp_train', \"by\" := 'stack'"],
    "memory_totals": ["'memory'"],
    "model_map": ["'mlp', 'pair_mlp'"],
    "node_costs": ["'mlp'", "'convnet_xnn'"],
    "node_gaps": ["'values', 'values', 'snr'"],
    "numeric_gap": ["'values', 'values', 'mse'", "'values', 'values', 'snr'"],
    "op_costs": ["'convnet_xnn'"],
    "op_totals": [
        "'convnet_xnn', \"by\" := 'instance', steps := 'skip_first=3'",
        "'mlp', \"by\" := 'shape', unit := 'ms'",
    ],
    "causes": ["'device=fleet'"], "series": ["'device=fleet'"],
    "compared_devices": ["'device=fleet'"],
    "outliers": ["'device=fleet', \"by\" := 'build'"],
    "op_trends": ["'device=fleet', over := 'build'"], "percentiles": ["'mlp', quantiles := [0.25, 0.99, 1]"],
    "planned_memory": ["'convnet_xnn'", "'mlp'"], "prof_result_memory": ["'iterations'"],
    "prof_result_profile": ["'iterations'"], "prof_result_tax": ["'iterations', 'ns'"], "program_size": ["'mlp'"],
    "regressions": ["'device=fleet', over := 'build'", "'device=fleet', over := 'place'"],
    "trend": ["'total', NULL, 'device=fleet', over := 'build'", "'total', NULL, 'device=fleet', over := 'place'"],
    **{
        f"compare_{what}": list(_SIDES)
        for what in ("captures", "parts", "ops", "modules", "findings", "memory", "metrics", "startup")
    },
    "compared_captures": list(_SIDES),
    "trace_sources": ["'pair_mlp'"],
    "trace_diff": ["'before', 'after', steps := 'skip_first=2'"],
}  # fmt: skip
# Comparisons of traces: whole ones, or by their steps.
for _name in ("compare_captures", "compare_ops"):
    _MORE[_name].append("'mlp_train', 'pair_mlp'")
for _name in ("compare_findings", "compared_captures"):
    _MORE[_name].append("'before', 'after'")
# Views without an order of rows.
_ORDERED = {
    "events": """(
        FROM events
        WHERE capture_id IN (SELECT c.capture_id FROM captures AS c WHERE c.name IN ('mlp', 'demo_str', 'cond_mixed'))
            AND run_index < 5
        ORDER BY capture_id, run_index, event_index
    )""",
    **{
        f"all_{view}": f"(FROM all_{view} ORDER BY capture_id, place)"
        for view in ("module_totals", "delegate_coverage", "source_totals")
    },
    "all_inspector_events": """(
        FROM all_inspector_events WHERE kind = 'kernel' ORDER BY capture_id, block_index, slot, occurrence
    )""",
    "labelled_captures": "(FROM labelled_captures ORDER BY capture_id)",
    "missing_needs": "(FROM missing_needs ORDER BY capture, need)",
    "known_metrics": "(FROM known_metrics ORDER BY name)",
}


def asked() -> list[SqlObject]:
    """The views and table macros that can be asked."""
    return [each for each in catalog.public_objects() if each.kind in ("view", "table macro")]


def calls(view: SqlObject) -> list[str]:
    """The queries for a view."""
    if view.kind == "view":
        return [_ORDERED.get(view.name, view.name)]
    given = list(_MORE.get(view.name, []))
    if [each.name for each in view.parameters if each.default is None] == ["capture"]:
        kinds: tuple[str, ...] = _TRACES if view.file.startswith("traces/") and view.name != "key_averages" else KINDS
        if not ALL_KINDS:
            # One of them, which differs from view to view: Spark takes seconds for each question.
            first = sorted(each.name for each in asked()).index(view.name)
            kinds = (kinds[first % len(kinds)],)
        given += [f"'{name}'" for name in kinds if f"'{name}'" not in given]
    return [f"{view.name}({arguments})" for arguments in given]


def _gpu_trace() -> bytes:
    """Two steps of a GPU's training, with modules, memory and a synchronization."""
    synchronization = event("cuda_runtime", "cudaDeviceSynchronize", 60, 95, correlation=10)
    modules = [
        event("python_function", "nn.Module: Net_0", 5, 45),
        event("python_function", "nn.Module: Linear_0", 8, 42),
        event("python_function", "nn.Module: ReLU_0", 105, 125),
    ]
    allocations = [
        memory(16, 64, 64), memory(25, 128, 128, type=1, device=0), memory(111, -16, 48), memory(115, 32, 80),
    ]  # fmt: skip
    devices = [{"id": 0, "name": "A GPU", "totalGlobalMem": 1000, "computeMajor": 7, "computeMinor": 0, "numSms": 80}]
    return trace(*two_steps(), synchronization, *modules, *allocations, deviceProperties=devices)


def build(place: Path) -> None:
    """A warehouse of these captures, with records, programs, labels, metrics, phases and values."""
    with etq.open(place) as warehouse:
        records = {
            model: warehouse.ingest_record(CAPTURES / model / f"{model}.etrecord").record_id
            for model in ("mlp", "convnet_xnn", "demo_str", "cond", "maploop")
        }
        programs = [warehouse.ingest_program(CAPTURES / each / f"{each}.pte") for each in ("mlp", "convnet_xnn")]
        files = {
            "mlp": "mlp/mlp_100runs.etdp", "convnet_xnn": "convnet_xnn/convnet_xnn_100runs.etdp",
            "demo_str": "demo_str/demo_str.etdp", "cond_mixed": "cond/cond_mixed.etdp", "loops": "maploop/maploop.etdp",
            "memory": "mlp/mlp_alloc.etdp", "mlp_train": "torch/mlp_train.pt.trace.json.gz",
            "pair_mlp": "torch/pair_mlp.pt.trace.json.gz", "before": "torch_steps/before.pt.trace.json.gz",
            "after": "torch_steps/after.pt.trace.json.gz", "counters": "torch_counters/counters.pt.trace.json.gz",
            "gloo_0": "torch_gloo/rank0.pt.trace.json.gz", "gloo_1": "torch_gloo/rank1.pt.trace.json.gz",
            "iterations": "prof_result/iterations.prof_result.bin",
        }  # fmt: skip
        note = {"device": "desk", "note": 'a "b", c'}
        made = [Labelled(name, CAPTURES / file, note | {"model": name}) for name, file in files.items()]
        made.append(Labelled("gpu", _gpu_trace()))
        for of_side, side in enumerate(("mlp", "convnet")):
            for number, path in enumerate(sorted((CAPTURES / "fleet" / side).glob("*.etdp"))[:8]):
                labels = {"side": side, "device": "fleet", "build": str(number), "place": str(8 * of_side + number)}
                half = {"half": str(number % 2)} if side == "mlp" else {}
                made.append(Labelled(f"{side}_{number}", path, labels | half))
        keys = {capture.name: capture.capture_id for capture in ingest_all(warehouse, made)}
        buffer = CAPTURES / "mlp/mlp_debug.bin"
        values = warehouse.ingest(CAPTURES / "mlp/mlp_debug.etdp", name="values", debug_buffer=buffer, keep_values=True)
        keys["values"] = values.capture_id
        of_fleet = {f"mlp_{number}": "mlp" for number in range(8)}
        for name, record in (_RECORDED | of_fleet).items():
            link_many(warehouse.connection, [keys[name]], "record_id", records[record])
        for program in programs:
            link_many(warehouse.connection, [keys[program.name]], "program_id", program.program_id)
        fill_rollups(warehouse.connection, min(keys.values()), max(keys.values()))
        for name in keys:
            if name in of_fleet or (name.startswith("convnet_") and name != "convnet_xnn"):
                warehouse.metric(name, "decode_rate", 10 + int(name[-1]) / 7, unit="tokens/s")
        warehouse.metric("mlp", "temperature", 41)
        warehouse.metric("gpu", "peak_flops", 1e12)
        warehouse.phase("mlp", "decode", runs="2-")
