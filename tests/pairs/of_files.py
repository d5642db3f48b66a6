"""Contents of files: programs, records' costs, logged values, prof_results; and properties of captures."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from tests.builders import DebugEvent, Tensor
from tests.conftest import CAPTURES
from tests.pairs import dumps
from tests.pairs.asking import Asked, Sides, keyed, pair, sums
from tests.pairs.etrecords import Record
from tests.pairs.fleet import Fleet
from tests.pairs.of_execute import judged, taxes
from tests.pairs.of_fleets import pair as fleet_pair

WIDTHS: Final = {
    **dict.fromkeys(("BYTE", "CHAR", "BOOL"), 1), **dict.fromkeys(("SHORT", "HALF", "BFLOAT16"), 2),
    **dict.fromkeys(("INT", "FLOAT"), 4), **dict.fromkeys(("LONG", "DOUBLE"), 8),
}  # fmt: skip
DTYPES: Final = {
    **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool"},
}  # fmt: skip
SHARES_OF_EXECUTES: Final = ("copies", "dominating module", "dominating op", "fallback kernels", "nothing delegated")
# As the edge graph's JSON numbers them.
BYTES_OF: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 12: 1, 13: 2}


@cache
def program(name: str) -> Any:
    """A program as executorch's own deserialiser decodes it."""
    return json.loads(gzip.decompress((CAPTURES / f"expected/{name}.pte.json.gz").read_bytes()))


@pair(
    "program_size", "the file's size, and the sizes of blobs and constants by executorch's deserialiser", of="program"
)
def program_size(asked: Asked) -> Sides:
    found = asked.rows("SELECT part, number, bytes, share_percent FROM program_size($name)", name=asked.name)
    program_json = program(asked.name)
    constants = [size for size in program_json["constant_buffer"] if size]
    blobs = {each["processed"]["index"] for plan in program_json["execution_plan"] for each in plan["delegates"]}
    return {
        "bytes": sum(row[2] for row in found),
        "share": sum(row[3] for row in found),
        "delegate": sum(row[2] for row in found if row[0] == "delegate"),
        "constants": sum(row[1] for row in found if row[0] == "constants"),
        "none is negative": all(row[2] >= 0 for row in found),
    }, {
        "bytes": len(asked.data),
        "share": 100.0,
        "delegate": sum(program_json["backend_delegate_data"][blob] for blob in blobs),
        "constants": len(constants),
        "none is negative": True,
    }


@pair("planned_memory", "lives from the instructions' arguments, and the peak by adding up step by step", of="program")
def planned_memory(asked: Asked) -> Sides:
    columns = (
        "method, value_index, memory_id, memory_offset, size_bytes, first_instruction, last_instruction, peak_bytes,"
        " planned_bytes"
    )
    found = keyed(asked.rows(f"SELECT {columns} FROM planned_memory($name)", name=asked.name), 2)
    expected: dict[Any, list[Any]] = {}
    for plan in program(asked.name)["execution_plan"]:
        steps = [each["instr_args"] for chain in plan["chains"] for each in chain["instructions"]]
        if any("args" not in step for step in steps):
            return [], []  # there is no equally simple way for loops and moves
        lives = {value: life for value, life in _lives(plan, steps).items() if _memory(plan, value) is not None}
        rows = {value: _placed(plan, value) for value in lives}
        peak = max(
            (sum(rows[value][2] for value, (first, last) in lives.items() if first <= step <= last))
            for step in range(max(len(steps), 1))
        )  # fmt: skip
        for value, life in lives.items():
            expected[plan["name"], value] = [*rows[value], *life, peak, sum(plan["non_const_buffer_sizes"][1:])]
    return {key: row for key, row in found.items() if row[3] is not None}, expected


def _memory(plan: Any, value: int) -> Any:
    return plan["values"][value]["val"].get("allocation_info")


def _placed(plan: Any, value: int) -> list[int]:
    tensor = plan["values"][value]["val"]
    allocation = tensor["allocation_info"]
    size = int(np.prod(tensor["sizes"], dtype=int)) * WIDTHS[tensor["scalar_type"]]
    return [allocation["memory_id"], allocation["memory_offset_low"], size]


def _lives(plan: Any, steps: list[Any]) -> dict[int, tuple[int, int]]:
    used: defaultdict[int, list[int]] = defaultdict(list)
    for at, step in enumerate(steps):
        for value in step["args"]:
            inner = plan["values"][value]["val"]
            for each in [value, *(inner["items"] if "Tensor" in inner["__"] and "items" in inner else [])]:
                used[each].append(at)
    for value in plan["inputs"]:
        used[value].append(0)
    for value in plan["outputs"]:
        used[value].append(max(len(steps) - 1, 0))
    return {value: (min(at), max(at)) for value, at in used.items()}


@pair("node_costs", "operations by torch's FlopCounterMode, bytes by the sizes in the record's JSON", of="record")
def node_costs(asked: Asked) -> Sides:
    assert asked.record is not None
    counted = json.loads((CAPTURES / "expected/flops.json").read_text())["records"].get(asked.name, {})
    rows = asked.rows(
        "SELECT stage, method, name, flops, bytes_written, intensity, bytes_read FROM node_costs($name)",
        name=asked.name,
    )
    flops = {(f"{stage}/{method}", name): flops for stage, method, name, flops, *_ in rows}
    expected = {(graph, name): count for graph, nodes in counted.items() for name, count in nodes.items()}
    written = {name: size for stage, method, name, _, size, *_ in rows if stage.startswith("edge") and size}
    bytes_written = _bytes_written(asked.record)
    found = [row[5] for row in rows if row[3] is not None and row[6]]
    return [
        {key: flops.get(key) for key in expected},
        {name: size for name, size in written.items() if name in bytes_written},
        found,
    ], [
        expected,
        {name: bytes_written[name] for name in written if name in bytes_written},
        [row[3] / (row[4] + row[6]) for row in rows if row[3] is not None and row[6]],
    ]


def _bytes_written(path: Path) -> dict[str, int]:
    """The size of the output of each node with one output, in the records where one graph has it."""
    found: dict[str, int] = {}
    with zipfile.ZipFile(path) as archive:
        graphs = [
            name for name in archive.namelist()
            if name.startswith("edge_dialect_exported_program/")
            and not name.endswith(("_state_dict", "_constants", "_example_inputs"))
        ]  # fmt: skip
        if len(graphs) != 1:
            return {}
        graph = json.loads(archive.read(graphs[0]))["graph_module"]["graph"]
    for node in graph["nodes"]:
        values = [each["as_tensor"]["name"] for each in node["outputs"] if "as_tensor" in each]
        if len(values) == len(node["outputs"]) == 1:
            tensor = graph["tensor_values"][values[0]]
            sizes = [size["as_int"] for size in tensor["sizes"]]
            found[node["name"]] = int(np.prod(sizes, dtype=int)) * BYTES_OF[tensor["dtype"]]
    return found


@pair("op_costs", "the costs of the nodes of each op, added up", of="record")
def op_costs(asked: Asked) -> Sides:
    columns = "stage, method, op_type, nodes, flops, bytes_read, bytes_written, flops_percent"
    found = keyed(asked.rows(f"SELECT {columns} FROM op_costs($name)", name=asked.name), 3)
    query = "SELECT stage, method, op_type, flops, bytes_read, bytes_written FROM node_costs($name)"
    grouped: defaultdict[Any, list[Any]] = defaultdict(list)
    for stage, method, op, *costs in asked.rows(query, name=asked.name):
        grouped[stage, method, op].append(costs)
    known = sums((key[:2], (sum(costs[0] or 0 for costs in nodes),)) for key, nodes in grouped.items())
    expected = {}
    for key, nodes in grouped.items():
        of_op = [None if None in column else sum(column) for column in zip(*nodes, strict=True)]
        [whole] = known[key[:2]]
        expected[key] = [len(nodes), *of_op, None if of_op[0] is None or not whole else 100 * of_op[0] / whole]
    return found, expected


@pair("logged_values", "numpy over the debug buffer's bytes at the logged offsets")
def logged_values(asked: Asked) -> Sides:
    columns = "run_index, event_index, value_index, kind, number, sizes, min, max, mean, nan_count, inf_count, sha256"
    found = asked.keyed("logged_values", columns, 3)
    buffer = asked.path.with_suffix(".bin") if asked.path is not None else None
    data = buffer.read_bytes() if buffer is not None and buffer.exists() else None
    expected: dict[Any, list[Any]] = {}
    for number, run in enumerate(asked.dump.runs):
        for place, event in enumerate(run.events):
            if isinstance(event, DebugEvent):
                values = event.value if isinstance(event.value, tuple) else (event.value,)
                for at, value in enumerate(values):
                    expected[number, place, at] = _logged(value, data, isinstance(event.value, tuple))
    return found, expected


def _logged(value: Any, data: bytes | None, is_list: bool) -> list[Any]:
    if not isinstance(value, Tensor):
        kind = {type(None): "null", bool: "bool", int: "int", float: "double"}[type(value)]
        return [kind, None if value is None else float(value), *[None] * 7]
    kind, sizes = "tensor_list" if is_list else "tensor", list(value.sizes)
    dtype = np.dtype(DTYPES[value.scalar_type])
    count = int(np.prod(value.sizes, dtype=int))
    if data is None or value.offset + count * dtype.itemsize > len(data):
        return [kind, None, sizes, *[None] * 6]
    # The runtime writes nothing for a tensor without elements, and its offset is -1.
    array = np.frombuffer(data, dtype, count, max(value.offset, 0))
    finite = array[np.isfinite(array)].astype(float)
    hashed = hashlib.sha256(array.tobytes()).hexdigest()
    summary = [finite.min(), finite.max(), finite.mean()] if len(finite) else [None] * 3
    return [kind, None, sizes, *summary, int(np.isnan(array).sum()), int(np.isinf(array).sum()), hashed]


def _old_parsers(asked: Asked, scale: str = "TIME_IN_NS") -> Any:
    """The recorded answer of the prof_result parser of ExecuTorch; None if it raised."""
    assert asked.path is not None
    answer = json.loads(asked.path.with_name(f"{asked.name}.expected.json").read_text())[scale]
    return None if "error" in answer else answer


@pair("prof_result_profile", "the old parser's durations, entry by entry", of="prof_result")
def prof_result_profile(asked: Asked) -> Sides:
    rows = asked.rows(
        "SELECT block, entry, iteration, event_name, duration FROM prof_result_profile($name, time_scale := 'ns')",
        name=asked.name,
    )
    if (answer := _old_parsers(asked)) is None:
        return [], []
    return keyed(rows, 3), {
        (block, entry, iteration): [each["name"], duration]
        for block, entries in answer["profile"].items()
        for entry, each in enumerate(entries)
        for iteration, duration in enumerate(each["duration"])
    }


@pair("prof_result_tax", "the old parser's framework tax", of="prof_result")
def prof_result_tax(asked: Asked) -> Sides:
    rows = asked.rows(
        "SELECT block, iteration, execute, work, tax_percent FROM prof_result_tax($name, time_scale := 'ns')",
        name=asked.name,
    )
    if (answer := _old_parsers(asked)) is None:
        return [], []
    names = ("exec_time", "kernel_and_delegate_time", "framework_tax")
    return keyed(rows, 2), {
        (block, iteration): list(row)
        for block, columns in answer["framework_tax"].items()
        for iteration, row in enumerate(zip(*(columns[name] for name in names), strict=True))
    }


@pair("prof_result_memory", "the old parser's totals of allocators", of="prof_result")
def prof_result_memory(asked: Asked) -> Sides:
    rows = asked.rows("SELECT block, allocator, total_bytes FROM prof_result_memory($name)", name=asked.name)
    if (answer := _old_parsers(asked)) is None:
        return [], []
    return rows, [
        (block, each["allocator_name"], each["total_allocations_done"])
        for block, allocators in answer["memory"].items()
        for each in allocators
    ]


@pair("op_totals", "the executes of the old parser's profile", of="prof_result")
def prof_result_total(asked: Asked) -> Sides:
    rows = asked.view("op_totals", "total_ticks")
    if (answer := _old_parsers(asked, "CPU_CYCLES")) is None:
        return [], []
    executes = [each for entries in answer["profile"].values() for each in entries if each["name"] == "Method::execute"]
    if len(executes) != len(answer["profile"]):
        return [], []  # of several executes at a time, nested ones count once
    return sum(row[0] for row in rows), sum(sum(each["duration"]) for each in executes)


@pair("capture_summary", "the file's size and hash, its runs and its events", of="dump")
def capture_summary(asked: Asked) -> Sides:
    query = "SELECT format, runs, events, size_bytes, sha256 FROM capture_summary WHERE name = $name"
    dump = asked.dump
    hashed = hashlib.sha256(asked.data).hexdigest()[:12]
    return asked.rows(query, name=asked.name), [
        ("etdump", len(dump.runs), sum(map(len, dump.events)), len(asked.data), hashed)
    ]


@pair("capture_summary", "the file's size and hash, and its slices", of="trace")
def trace_summary(asked: Asked) -> Sides:
    query = "SELECT format, events, size_bytes, sha256 FROM capture_summary WHERE name = $name"
    hashed = hashlib.sha256(asked.data).hexdigest()[:12]
    return asked.rows(query, name=asked.name), [("torch_trace", len(asked.trace.slices), len(asked.data), hashed)]


@pair("advice", "medians of the typical runs' tax, and shares of their mean execute, in plain Python")
def advice(asked: Asked) -> Sides:
    table = asked.warehouse.advice(asked.name, unit="ns").to_arrow_table()
    rows = zip(*(table[name].to_pylist() for name in ("rule", "time_at_stake", "share_percent")), strict=True)
    typical = [run for run, (_, is_typical, _) in judged(asked).items() if is_typical]
    times = [time for run in typical if (time := asked.dump.executing[run]) is not None]
    taxed = [row for run in typical if (row := taxes(asked.dump, run))[5] is not None]
    found: list[Any] = []
    expected: list[Any] = []
    for rule, time, share in rows:
        found.append((rule, share is None or 0 <= share <= 100))
        expected.append((rule, True))
        if rule == "framework tax":
            found.append((rule, time, share))
            expected.append((rule, *(median(row[at] for row in taxed) for at in (5, 6))))
        elif rule in SHARES_OF_EXECUTES and time is not None:
            found.append((rule, share))
            expected.append((rule, 100 * time / (sum(times) / len(times))))
    return found, expected


@fleet_pair("compare_programs", "kernels, blobs and buffers of two programs by executorch's deserialiser")
def compare_programs(fleet: Fleet) -> Sides:
    for name in ("mlp", "convnet_xnn"):
        fleet.warehouse.ingest_program(CAPTURES / f"{name}/{name}.pte")
    found = keyed(
        fleet.warehouse.rows("""
            SELECT kind, item, base_number, new_number, base_bytes, new_bytes
            FROM compare_programs('mlp', 'convnet_xnn') WHERE kind <> 'part'""")[1], 2)  # fmt: skip
    sides = [_items("mlp"), _items("convnet_xnn")]
    expected: dict[Any, list[Any]] = {}
    for key in {*sides[0], *sides[1]}:
        numbers = [side.get(key, (0, 0)) for side in sides]
        sizes = [None, None] if key[0] == "op" else [size for _, size in numbers]
        expected[key] = [*(number for number, _ in numbers), *sizes]
    return found, expected


@fleet_pair("compare_graphs", "nodes of one module and op, in order, by the JSON of both records")
def compare_graphs(fleet: Fleet) -> Sides:
    paths = [CAPTURES / f"{name}/{name}.etrecord" for name in ("mlp", "mlp_xnn")]
    base, new = (fleet.warehouse.ingest_record(path).sha256 for path in paths)
    found = fleet.warehouse.sql(f"""
        SELECT base_node, new_node FROM compare_graphs('{base}', '{new}') WHERE base_op = new_op ORDER BY ALL""")
    places: list[dict[Any, list[int]]] = []
    for path in paths:
        places.append({})
        for node in Record(path).graphs["forward"]:
            places[-1].setdefault((node.levels, node.op_type), []).append(node.index)
    shared = places[0].keys() & places[1].keys()
    pairs = [both for key in shared for both in zip(places[0][key], places[1][key], strict=True)]
    return {"pairs": [list(each) for each in found.fetchall()]}, {"pairs": [list(each) for each in sorted(pairs)]}


def _items(name: str) -> dict[tuple[str, str], list[int]]:
    program_json = program(name)
    [plan] = program_json["execution_plan"]
    ops: Counter[str] = Counter()
    for chain in plan["chains"]:
        for each in chain["instructions"]:
            if "op_index" in each["instr_args"]:
                op = plan["operators"][each["instr_args"]["op_index"]]
                ops[op["name"] + (f".{op['overload']}" if op["overload"] else "")] += 1
    sizes = program_json["backend_delegate_data"]
    return sums(
        [
            *((("op", op), (number, 0)) for op, number in ops.items()),
            *((("delegate", each["id"]), (1, sizes[each["processed"]["index"]])) for each in plan["delegates"]),
            *((("memory", str(at)), (1, size)) for at, size in enumerate(plan["non_const_buffer_sizes"]) if at),
        ]
    )


@fleet_pair("numeric_gap", "numpy's errors of the same arrays")
def numeric_gap(fleet: Fleet) -> Sides:
    record = fleet.warehouse.record("mlp")
    random = np.random.default_rng(7)
    nodes = [row[0] for row in fleet.warehouse.rows("""
        SELECT p.name FROM op_nodes AS p JOIN graphs AS g ON g.record_id = p.record_id AND g.graph_id = p.graph_id
        JOIN node_debug_handles AS h ON h.record_id = p.record_id AND h.graph_id = p.graph_id
            AND h.node_index = p.node_index
        WHERE g.stage = 'exported_program' AND p.name IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY h.debug_handle ORDER BY p.node_index DESC) = 1
        ORDER BY p.node_index LIMIT 4""")[1]]  # fmt: skip
    base = {node: [random.normal(size=(3, 4)).astype(np.float32)] for node in nodes}
    new = {node: [arrays[0] + random.normal(size=(3, 4)).astype(np.float32) / 10] for node, arrays in base.items()}
    sides = [
        fleet.warehouse.ingest_reference(record, values, graph="exported_program", name=name)
        for name, values in (("truth", base), ("judged", new))
    ]  # fmt: skip
    found, expected = {}, {}
    for metric in ("mse", "l1", "snr", "max_abs"):
        query = "SELECT base_op, gap FROM numeric_gap($base, $new, metric := $metric) WHERE gap IS NOT NULL"
        found[metric] = dict(
            fleet.warehouse.rows(query, base=sides[0], new=sides[1], metric=metric)[1]
        )  # fmt: skip
        expected[metric] = {node: _gap(metric, base[node][0], new[node][0]) for node in nodes}
    return found, expected


def _gap(metric: str, base: Any, new: Any) -> float:
    truth, error = base.astype(float), new.astype(float) - base.astype(float)
    return float(
        {
            "mse": np.mean(error**2),
            "l1": np.abs(error).sum(),
            "snr": 10 * np.log10((truth**2).mean() / (error**2).mean()),
            "max_abs": np.abs(error).max(),
        }[metric]
    )


@fleet_pair("model_map", "ops' own times by run and their calls in the trace by pass, in plain Python")
def model_map(fleet: Fleet) -> Sides:
    etdump = fleet.warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="one")
    fleet.warehouse.link(etdump, "mlp")
    path = CAPTURES / "torch/pair_mlp.pt.trace.json.gz"
    trace = fleet.warehouse.ingest(path, name="other")
    columns = "op, etdump_calls, etdump_time, trace_calls, trace_time, ratio, excess"
    rows = fleet.warehouse.sql(f"SELECT {columns} FROM model_map($one, $other, unit := 'ns')", one=etdump, other=trace)
    given = rows.fetchall()
    of_ops = sums((op, [each or 0 for each in numbers]) for op, *numbers, _, _ in given)
    whole = [row[1:] for row in given if None not in row[1:5]]
    checked, by_hand = [row[4:] for row in whole], [(row[1] / row[3], row[1] - row[3]) for row in whole]
    dump = dumps.read((CAPTURES / "mlp/mlp.etdp").read_bytes())
    runs = len(dump.executing)
    ran = [event for event in dump.all_events if event.kind in ("kernel", "delegate_call")]
    own = sums((event.family.split(".")[0], (1 / runs, event.own / runs)) for event in ran)
    asked = Asked(fleet.warehouse, "other", path.read_bytes(), path)
    modules = [each for each in asked.trace.host if each.name.startswith("nn.Module: ")]
    outer = [each for each in modules if not any(_is_module(above) for above in _above(each))]
    passes = len(outer)
    linear = [each for each in asked.trace.host if each.name == "aten::linear" and any(map(_is_module, _above(each)))]
    torch = [len(linear) / passes, sum(each.length for each in linear) / passes]
    return [
        {op: row[:2] for op, row in of_ops.items() if row[0]}, of_ops["linear"][2:], checked,
    ], [own, torch, by_hand]  # fmt: skip


@fleet_pair("trace_diff", "slices of both files' JSON by name, in plain Python")
def trace_diff(fleet: Fleet) -> Sides:
    rows = []
    for is_new, model in enumerate(("convnet", "transformer")):
        path = CAPTURES / f"torch/pair_{model}.pt.trace.json.gz"
        fleet.warehouse.ingest(path, name=f"trace_{model}")
        for each in Asked(fleet.warehouse, f"trace_{model}", path.read_bytes(), path).trace.slices:
            if each.category != "Trace":
                numbers = (1 - is_new, is_new, each.length * (1 - is_new), each.length * is_new)
                rows.append(((each.family, each.is_device), numbers))
    columns = "name, is_device, base_calls, new_calls, base_time, new_time"
    query = f"SELECT {columns} FROM trace_diff('trace_convnet', 'trace_transformer', unit := 'ns')"
    return fleet.keyed(query, 2), sums(rows)


def _above(each: Any) -> list[Any]:
    return [] if each.parent is None else [each.parent, *_above(each.parent)]


def _is_module(each: Any) -> bool:
    return bool(each.name.startswith("nn.Module: "))
