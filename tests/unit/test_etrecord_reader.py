"""The reader of ETRecords: what it reads of graphs, and clear errors and nothing stored of damaged and hostile ones."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from etq import FormatError
from etq.ingest.etrecord.reader import read_etrecord
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file

EDGE = "edge_dialect_exported_program/forward"
SMALLEST = (CAPTURES / "nones/nones.etrecord").read_bytes()
# The first member, ETRECORD_V0, is empty: a header of 30 bytes and its name.
SECOND = f"at byte {30 + len('ETRECORD_V0')}: "
TABLES = re.findall(
    r"CREATE TABLE (\w+)", (Path(__file__).parents[2] / "sql/tables/records.sql").read_text(encoding="utf-8")
)


def record(members: Mapping[str, Any], packed: int = zipfile.ZIP_STORED) -> bytes:
    """An ETRecord of these members and the identifier: bytes and texts unchanged, other values as JSON."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        archive.writestr("ETRECORD_V0", "")
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, bytes | str) else json.dumps(content))
    return file.getvalue()


def program(**metadata: str) -> dict[str, Any]:
    """A program of one node, which is called `n`."""
    node = {"name": "n", "target": "torch.ops.aten.add.Tensor", "metadata": metadata}
    return {"graph_module": {"graph": {"nodes": [node]}}}


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "ETRECORD_V0"}


def read(data: bytes) -> dict[str, list[dict[str, Any]]]:
    return {table: batch.to_pylist() for table, batch in read_etrecord(data, "test.etrecord")}


def findings(data: bytes) -> list[tuple[str, str]]:
    return [(row["rule"], row["detail"]) for row in read(data).get("record_findings", [])]


def refusal(data: bytes) -> str:
    """The text of the error without the file's name, which it must begin with; it is one line."""
    with pytest.raises(FormatError) as caught:
        read(data)
    text = str(caught.value)
    assert text.startswith("test.etrecord: ") and "\n" not in text
    return text.removeprefix("test.etrecord: ")


def patched(data: bytes, name: str, at: int, value: bytes, at_local: int | None = None) -> bytes:
    """A zip with other bytes in a member's entry of the directory, and in its own header."""
    found = bytearray(data)
    entry = data.rindex(name.encode()) - 46
    assert data[entry : entry + 4] == b"PK\x01\x02"
    found[entry + at : entry + at + len(value)] = value
    if at_local is not None:
        own = data.index(name.encode()) - 30
        assert data[own : own + 4] == b"PK\x03\x04"
        found[own + at_local : own + at_local + len(value)] = value
    return bytes(found)


def assert_nothing_is_stored(warehouse: Warehouse) -> None:
    for table in TABLES:
        assert warehouse.rows(f"SELECT count(*) FROM {table}")[1] == [(0,)], table


def test_files_that_are_not_records_are_reported(warehouse: Warehouse, tmp_path: Path) -> None:
    without, newer, older = io.BytesIO(), io.BytesIO(), io.BytesIO()
    for file, members in (
        (without, ("b", "a")),
        # As torch.export.save writes them in torch 2.14 and 2.7.
        (newer, ("net/models/model.json", "net/archive_format", "net/byteorder")),
        (older, ("serialized_exported_program.json", "version")),
    ):
        with zipfile.ZipFile(file, "w") as archive:
            for member in members:
                archive.writestr(member, "")
    exported = "not an ETRecord: a program of torch.export (.pt2), without times; give the .etrecord or .pte that"
    for content, message in (
        (b"", "not an ETRecord: expected a zip (`PK` at byte 0), found b''"),
        (b"hello, world", "not an ETRecord: expected a zip (`PK` at byte 0), found b'hell'"),
        (b"PK\x03\x04", "the zip is damaged: File is not a zip file"),
        (without.getvalue(), "not an ETRecord: a zip without the member ETRECORD_V0; unpack a, b"),
        (newer.getvalue(), f"{exported} was made of it"),
        (older.getvalue(), f"{exported} was made of it"),
    ):
        assert refusal(content) == message
        path = tmp_path / "some.etrecord"
        path.write_bytes(content)
        with pytest.raises(FormatError) as caught:
            warehouse.ingest_record(path)
        # The warehouse may report an empty file before the reader does.
        assert str(caught.value).startswith(f"{path}: ")
    assert_nothing_is_stored(warehouse)


def test_truncated_at_any_byte() -> None:
    """The directory of a zip is at its end: without it, the members are unknown."""
    small = record({"debug_handle_map": {"forward": {"0": 1}}, EDGE: program(debug_handle="1")})
    for size in range(4, len(small)):
        assert refusal(small[:size]).startswith("the zip is damaged: ")
    for size in range(4, len(SMALLEST), 997):
        # If the record is cut after one of torch's nested zips, the rest ends as that zip does.
        assert refusal(SMALLEST[:size]).startswith(
            ("the zip is damaged: ", "not an ETRecord: a zip without the member ETRECORD_V0; unpack archive/")
        )


def test_members_that_cannot_be_unpacked() -> None:
    name = "debug_handle_map"
    whole = record({name: {"forward": {"0": 1}}})
    assert "is encrypted" in refusal(patched(whole, name, 8, b"\x01", 6))
    for method in (1, 9, 95):
        assert refusal(patched(whole, name, 10, struct.pack("<H", method), 8)) == (
            f"{SECOND}member {name} is packed by method {method}; expected 0 (stored) or 8 (deflated)"
        )
    # These could only be unpacked all at once, whatever size they claim to have.
    for packed in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        error = refusal(record({name: {"forward": {"0": 1}}}, packed))
        assert error.endswith(f"member {name} is packed by method {packed}; expected 0 (stored) or 8 (deflated)")
    assert refusal(whole.replace(b'"0": 1', b'"0": 2')) == (
        f"{SECOND}member {name} is damaged: Bad CRC-32 for file '{name}'"
    )
    assert (
        refusal(patched(whole, name, 20, 2 * struct.pack("<I", 10**6)))
        in (
            f"{SECOND}member {name} is damaged: it ends early",
            f"{SECOND}member {name} is damaged: Overlapped entries: '{name}' (possible zip bomb)",  # later versions of Python
        )
    )
    deflated = bytearray(record({name: {"forward": {str(number): 1 for number in range(50)}}}, zipfile.ZIP_DEFLATED))
    deflated[deflated.index(name.encode()) + len(name)] ^= 0xFF
    assert f"member {name} is damaged: Error -3 while decompressing data: " in refusal(bytes(deflated))
    named = bytearray(record({"debug_é": "{}"}))
    named[named.rindex("é".encode())] = 0xFF
    assert refusal(bytes(named)).startswith("the zip is damaged: 'utf-8' codec can't decode byte 0xff")


def graph(**fields: Any) -> dict[str, Any]:
    return {"graph_module": {"graph": {"nodes": [], **fields}}}


def nested(**fields: Any) -> dict[str, Any]:
    """A graph within the second argument of the second node."""
    within = {"arg": {"as_graph": {"name": "g", "graph": {"nodes": [], **fields}}}}
    return graph(nodes=[{"target": "t"}, {"target": "cond", "inputs": [{"arg": {"as_int": 1}}, within]}])


MANY = [{"target": "t"}] * 600
OF_NESTED = "$.graph_module.graph.nodes[1].inputs[1].arg.as_graph.graph"
MALFORMED = [
    (EDGE, '{"graph_module": ?}', "JSON is malformed: invalid character (byte 17)"),
    ("debug_handle_map", '{"forward": {"0": 1', "Input data was truncated"),
    ("delegate_map", "", "Input data was truncated"),
    (EDGE, graph(nodes=5), "Expected `array`, got `int` - at `$.graph_module.graph.nodes`"),
    (EDGE, graph(nodes=[{}]), "Object missing required field `target` - at `$.graph_module.graph.nodes[0]`"),
    (EDGE, graph(nodes=[*MANY, {"target": 5}]), "Expected `str`, got `int` - at `$.graph_module.graph.nodes[600].target`"),
    (EDGE, graph(nodes=[*MANY, {"target": "t", "metadata": {"nn_module_stack": 5}}]),
     "Expected `str | null`, got `int` - at `$.graph_module.graph.nodes[600].metadata.nn_module_stack`"),
    (EDGE, graph(tensor_values={"x": None}), "Expected `object`, got `null` - at `$.graph_module.graph.tensor_values[...]`"),
    ("debug_handle_map", {"forward": {"0": "x"}}, "Expected `int | array`, got `str` - at `$[...][...]`"),
    ("delegate_map", [], "Expected `object`, got `array`"),
    ("export_graph_id", "[]", "Expected `int | str`, got `array`"),
    ("debug_handle_map", {"forward": {"0": 2**31}}, "Expected `int` <= 2147483647 - at `$[...][...]`"),
    ("debug_handle_map", {"forward": {"0": [1, 2**70]}}, "Expected `int` <= 2147483647 - at `$[...][...][1]`"),
    ("instruction_id_to_num_outs_map", {"forward": {"0": 2**40}}, "Expected `int` <= 2147483647 - at `$[...][...]`"),
    (EDGE, nested(nodes=[{"target": 5}]), f"Expected `str`, got `int` - at `{OF_NESTED}.nodes[0].target`"),
    (EDGE, nested(tensor_values={"x": {"sizes": [{"as_int": "a"}]}}),
     f"Expected `int | null`, got `str` - at `{OF_NESTED}.tensor_values[...].sizes[0].as_int`"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), MALFORMED)
def test_errors_in_json_name_the_member_and_position(name: str, content: Any, message: str) -> None:
    assert refusal(record({name: content})) == f"{SECOND}member {name}: {message}"


def test_invalid_instruction_numbers() -> None:
    for name, value in (("debug_handle_map", 1), ("delegate_map", {"name": "B"})):
        for written in ("x", "-1", "", "1234567890", "²"):
            assert refusal(record({name: {"forward": {written: value}}})) == (
                f"the debug handle or delegate map of method forward has the key {written!r}; expected the number of an "
                "instruction"
            )


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_sizes_beyond_64_bits(value: int) -> None:
    tensors = {"x": {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": value}]}}
    error = refusal(record({EDGE: graph(tensor_values=tensors)}))
    assert error.startswith(f"{SECOND}member {EDGE}: Expected `int` ")
    assert error.endswith(" - at `$.graph_module.graph.tensor_values[...].sizes[1].as_int`")


@pytest.mark.parametrize(
    "deep",
    [
        '{"forward": ' + '{"a": ' * 1_000_000,
        '{"skipped": ' + "[" * 1_000_000 + "]" * 1_000_000 + "}",
        '{"graph_module": {"graph": '
        + '{"nodes": [{"target": "t", "inputs": [{"arg": {"as_graph": {"name": "g", "graph": ' * 100_000,
    ],
    ids=["objects", "skipped", "graphs"],
)
def test_json_nested_deep(deep: str) -> None:
    assert refusal(record({EDGE: deep})).startswith(f"{SECOND}member {EDGE}: JSON is nested too deeply")


@pytest.mark.parametrize(
    ("from_node", "message"),
    [
        ("nope", "JSON is malformed: "),
        ("[5]", "Expected `object`, got `int` - at `$[0]`"),
        ('[{"name": "a", "from_node": ' * 100_000, "JSON is nested too deeply"),
    ],
    ids=["malformed", "type", "deep"],
)
def test_json_within_json(from_node: str, message: str) -> None:
    broken = program(debug_handle="1", from_node=from_node)
    error = refusal(record({EDGE: broken, "exported_program": program(), "export_graph_id": "7"}))
    assert error.startswith(f"member {EDGE}: from_node of the node n: {message}")


@pytest.mark.parametrize(
    ("dropped", "lacks"),
    [
        ({"debug_handle_map"}, "debug_handle_map"),
        ({"delegate_map"}, "delegate_map"),
        ({EDGE, "exported_program"}, "edge_dialect_exported_program"),
    ],
)
def test_missing_members_are_reported_and_the_rest_is_read(warehouse: Warehouse, dropped: set[str], lacks: str) -> None:
    kept = {name: content for name, content in members_of(SMALLEST).items() if name not in dropped}
    found = warehouse.ingest_record(record(kept))
    assert found.is_new and not found.is_complete
    assert warehouse.rows("SELECT rule, detail FROM record_findings")[1] == [
        ("half-written", f"lacks {lacks}: events can't be mapped to ops")
    ]
    # By eye, from the member's text: Linear is one ATen op and two of the edge dialect; both maps name instructions.
    nodes = warehouse.rows("SELECT g.stage, n.op FROM op_nodes AS n JOIN graphs AS g USING (graph_id)")[1]
    expected = [] if "exported_program" in dropped else [("exported_program", "linear")]
    if EDGE not in dropped:
        expected += [("edge_dialect_exported_program", op) for op in ("permute_copy", "addmm")]
    assert nodes == expected
    handles = warehouse.rows("SELECT instruction_id, debug_handle FROM debug_handles")[1]
    assert handles == ([] if "debug_handle_map" in dropped else [(0, 1), (1, 1)])
    listed = [name for (name,) in warehouse.rows("SELECT name FROM record_members ORDER BY member_index")[1]]
    assert listed == ["ETRECORD_V0", *kept]


def test_handles_that_no_node_has() -> None:
    data = record(
        {
            EDGE: program(debug_handle="1"),
            "debug_handle_map": {"forward": {"0": 1, "1": [9, 7, 0, 9], "999": [3, 4, 5, 6]}},
            "delegate_map": {"forward": {"888": {"name": "B", "delegate_map": {"a": 99, "b": [98, 1], "c": None}}}},
            "instruction_id_to_num_outs_map": {"forward": {"777": 2}, "other": {"888": 1}},
        }
    )
    # 0 is unset. Handles within delegates are kept as they are, and so are instructions: a record has no program.
    assert findings(data) == [("lost handles", "debug handles of method forward without a node: 6 (3, 4, 5, 6, 7, …)")]
    tables = read(data)
    assert tables["records"] == [{"export_graph_id": None, "is_complete": True}]
    assert [tuple(row.values()) for row in tables["delegates"]] == [("forward", 888, "B", None, True)]
    assert [tuple(row.values())[2:] for row in tables["delegate_debug_handles"]] == [
        ("a", 0, 0, 99),
        ("b", 1, 0, 98),
        ("b", 1, 1, 1),
    ]
    assert [row["instruction_id"] for row in tables["debug_handles"]] == [0, 1, 1, 1, 1, 999, 999, 999, 999]


def test_names_that_come_again_and_nested_graphs() -> None:
    """An edge comes from the last preceding node of the same graph that gave a value with the name."""
    x, y = {"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "y"}}
    inner = {"nodes": [{"target": "b", "inputs": [{"arg": x}], "outputs": [x]}], "inputs": [x]}
    nodes = [
        {"target": "a", "inputs": [{"arg": x}], "outputs": [x]},
        {
            "target": "cond",
            "inputs": [{"arg": x}, {"arg": {"as_graph": {"name": "g", "graph": inner}}}],
            "outputs": [y],
        },
        {"target": "c", "inputs": [{"arg": {"as_tensors": [{"name": "y"}, {"name": "x"}]}}], "outputs": [x]},
        {"target": "d", "inputs": [{"arg": x}]},
    ]
    tensors = {"x": {"dtype": 7, "sizes": [{"as_int": 2}, {}], "strides": []}}
    graph = {"nodes": nodes, "inputs": [x], "tensor_values": tensors}
    tables = read(record({EDGE: {"graph_module": {"graph": graph}}}))
    assert [(row["node_index"], row["subgraph"], row["op"]) for row in tables["op_nodes"]] == [
        (0, "", "a"), (1, "", "cond"), (2, "g", "b"), (3, "", "c"), (4, "", "d"),
    ]  # fmt: skip
    edges = [(row["from_node"], row["to_node"], row["position"]) for row in tables["op_edges"]]
    assert edges == [(0, 1, 0), (1, 3, 0), (0, 3, 1), (3, 4, 0)]
    # Inputs are values, too: those of the graph (0) and of the nested one (3).
    taken = [(row["node_index"], row["position"], row["value_index"]) for row in tables["node_arguments"]]
    assert taken == [(0, 0, 0), (1, 0, 1), (2, 0, 3), (3, 0, 2), (3, 0, 1), (4, 0, 5)]
    assert [row["value_index"] for row in tables["node_values"]] == [0, 1, 2, 3, 4, 5]
    columns = ("node_index", "value_name", "kind", "dtype", "sizes", "strides")
    assert [tuple(row[column] for column in columns) for row in tables["node_values"]] == [
        (None, "x", "input", "float32", [2, None], []), (0, "x", "result", "float32", [2, None], []),
        (1, "y", "result", None, None, None), (None, "x", "input", None, None, None),
        (2, "x", "result", None, None, None), (3, "x", "result", "float32", [2, None], []),
    ]  # fmt: skip


def test_arguments_of_nodes() -> None:
    """Values and literals are stored as written; None, dtypes, symbolic numbers and unknown values have no rows."""
    arguments: list[tuple[str, dict[str, Any]]] = [
        ("input", {"as_tensor": {"name": "x"}}), ("weight", {"as_tensor": {"name": "nobody's"}}),
        ("bias", {"as_none": True}), ("stride", {"as_ints": [1, 2]}), ("dim", {"as_int": -1}),
        ("transposed", {"as_bool": False}), ("eps", {"as_float": 1e-05}), ("approximate", {"as_string": "tanh \u00e9"}),
        ("dtype", {"as_scalar_type": 7}), ("size", {"as_sym_int": {"as_name": "s0"}}),
        (
            "tensors",
            {"as_optional_tensors": [{"as_tensor": {"name": "y"}}, {"as_none": True}, {"as_tensor": {"name": "x"}}]},
        ),
        ("", {"as_int": 3}),
    ]  # fmt: skip
    node = {"target": "a", "inputs": [{"name": name, "arg": value} for name, value in arguments]}
    graph = {"nodes": [node], "inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "y"}}]}
    found = read(record({EDGE: {"graph_module": {"graph": graph}}}))["node_arguments"]
    columns = ("node_index", "position", "argument", "value_index", "literal")
    assert [tuple(row[column] for column in columns) for row in found] == [
        (0, 0, "input", 0, None), (0, 3, "stride", None, "[1, 2]"), (0, 4, "dim", None, "-1"),
        (0, 5, "transposed", None, "false"), (0, 6, "eps", None, "1e-05"),
        (0, 7, "approximate", None, '"tanh \\u00e9"'), (0, 10, "tensors", 1, None), (0, 10, "tensors", 0, None),
        (0, 11, "", None, "3"),
    ]  # fmt: skip


def test_names_of_nodes_that_have_none() -> None:
    """As `torch.fx` makes them: of the single result's, else of the op's, in lower case, numbered where it is taken."""
    edge, torch_op = "executorch.exir.dialects.edge.ops.aten.topk.default", "torch.ops.aten.topk.default"
    one, two = [{"as_tensor": {"name": "r"}}], [{"as_tensor": {"name": "v"}}, {"as_tensor": {"name": "topk_default"}}]
    nodes = [
        {"target": edge, "outputs": one},
        {"target": edge, "outputs": two},
        {"target": edge, "outputs": [{"as_tensors": [{"name": "w"}]}]},
        {"target": torch_op, "outputs": two},
        {"target": "torch.ops.higher_order.executorchCall", "outputs": []},
        {"target": edge, "outputs": two, "name": "given"},
    ]
    graph = {"nodes": nodes, "inputs": [{"as_tensor": {"name": "aten_topk_default"}}]}
    found = read(record({EDGE: {"graph_module": {"graph": graph}}}))["op_nodes"]
    made = ["r", "aten_topk_default_1", "aten_topk_default_2", "topk_default_1", "executorch_call", "given"]
    assert [row["name"] for row in found] == made


def test_the_older_layout() -> None:
    path = shared_file("captures/upstream/example.etrecord")
    tables = read(path.read_bytes())
    assert [tuple(row.values()) for row in tables["graphs"]] == [
        (0, "aten_dialect_output", "forward", "aten_dialect_output/forward", None),
        (1, "edge_dialect_exported_program", "forward", "edge_dialect_exported_program", None),
    ]
    assert [(row["name"], row["op_type"], row["source_line"], row["module_path"]) for row in tables["op_nodes"]] == [
        ("mul", "aten.mul.Tensor", 18, None),
        ("aten_mul_tensor", "aten.mul.Tensor", 18, None),
    ]
    columns = ("graph_id", "node_index", "value_name", "kind", "dtype", "sizes", "strides")
    assert [tuple(row[column] for column in columns) for row in tables["node_values"]] == [
        (0, None, "arg0_1", "input", "float32", [3, 2], [2, 1]),
        (0, None, "arg1_1", "input", "float32", [3, 2], [2, 1]),
        (0, 0, "mul", "result", "float32", [3, 2], [2, 1]),
        (1, None, "arg0_1", "input", "float32", [3, 2], [2, 1]),
        (1, None, "arg1_1", "input", "float32", [3, 2], [2, 1]),
        (1, 0, "aten_mul_tensor", "result", "float32", [3, 2], [2, 1]),
    ]
    assert [tuple(row.values()) for row in tables["node_debug_handles"]] == [(1, 0, 2)]
    assert "debug_handles" not in tables and "record_findings" not in tables
    assert tables["records"] == [{"export_graph_id": None, "is_complete": True}]


def test_zip_bombs_are_refused_before_they_are_unpacked() -> None:
    size = 64 * 2**20
    name = "debug_handle_map"
    bomb = record({name: bytes(size)}, zipfile.ZIP_DEFLATED)
    # A member with a false size is unpacked only up to the size that it claims.
    hidden = patched(bomb, name, 24, struct.pack("<I", 16))
    stored = record({name: "{}"})
    huge = patched(stored, name, 20, struct.pack("<II", 2**30 + 1, 2**30 + 1))
    tracemalloc.start()
    try:
        messages = [refusal(data) for data in (bomb, hidden, huge)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert re.fullmatch(
        rf"at byte \d+: member {name} would unpack to 67,108,864 bytes from [\d,]+: refused", messages[0]
    )
    assert messages[1].endswith(f"member {name} is damaged: Bad CRC-32 for file '{name}'")
    assert messages[2] == f"{SECOND}member {name} would unpack to 1,073,741,825 bytes from 1,073,741,825: refused"
    assert peak < size / 16


class Payload:
    """Creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_run(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "created"
    payload = pickle.dumps(Payload(target))
    pickle.loads(payload)
    assert target.is_dir(), "the payload works"
    target.rmdir()
    weights = io.BytesIO()
    with zipfile.ZipFile(weights, "w") as archive:
        archive.writestr("archive/data.pkl", payload)
    pickles = dict.fromkeys(("reference_outputs", "representative_inputs"), payload)
    replaced = {
        name: weights.getvalue() if name.endswith(("_state_dict", "_constants", "_example_inputs")) else content
        for name, content in members_of(SMALLEST).items()
    }
    # Nor is anything unpacked, wherever a member's name points.
    names = ("../../evil", str(target), "..\\evil", "a/../../../evil", "C:\\evil", "\\\\host\\evil", "evil\0.json")
    monkeypatch.chdir(tmp_path)
    found = warehouse.ingest_record(record({**replaced, **pickles, **dict.fromkeys(names, "{}")}))
    assert found.is_complete and [*tmp_path.iterdir()] == []
    listed = warehouse.rows("SELECT kind, size_bytes, count(*) FROM record_members GROUP BY ALL ORDER BY ALL")[1]
    assert ("pickle", len(payload), 2) in listed and ("weights", len(weights.getvalue()), 6) in listed
