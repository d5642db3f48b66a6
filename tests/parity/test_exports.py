"""Files that etq exports, read by the tools they are for: Perfetto, speedscope, Model Explorer, and by etq itself."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq.report
from etq.export import parts
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_linked
from tests.conftest import CAPTURES, shared_file
from tests.parity.oracle import answer, names
from tests.parity.readers import perfetto, speedscope_package
from tests.sampling import IS_WHOLE, thinned
from tests.warehouses import empty_warehouse

TRACES = sorted(path.name for path in (CAPTURES / "torch").glob("*.pt.trace.json.gz"))
GPU_TRACES = ("alexnet", "cpu_only_rank34", "mi250_rocm", "resnet50_dataloader", "resnet50_list_format", "triton")
# All slices and their places in Perfetto, without instants, which etq doesn't store. Perfetto puts a slice without
# length into any other slice that begins at the same time.
SLICES = """
    SELECT s.name, s.category, s.ts, s.dur, t.name AS thread, p.name AS process, parent.name AS parent
    FROM slice AS s
    LEFT JOIN slice AS parent ON parent.id = s.parent_id AND s.dur > 0
    LEFT JOIN thread_track AS k ON k.id = s.track_id
    LEFT JOIN thread AS t USING (utid)
    LEFT JOIN process AS p USING (upid)
    WHERE s.category IS NOT NULL
"""
# Errors and data loss that Perfetto reports.
COMPLAINTS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


@pytest.fixture(scope="module")
def captures() -> Iterator[Warehouse]:
    """Real captures with their records, by name."""
    with empty_warehouse() as opened:
        ingest_linked(
            opened, [CAPTURES / f"{n}/{n}.etdp" for n in ("convnet", "mlp_xnn", "transformer", "multimethod")]
        )
        opened.ingest(CAPTURES / "prof_result" / "iterations.prof_result.bin", name="iterations")
        yield opened


def exported(warehouse: Warehouse, capture: str, to: str, **options: Any) -> bytes:
    return "".join(parts(warehouse, capture, to, **options)).encode()


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp_xnn", "iterations"])
def test_perfetto_shows_each_event_where_it_was(captures: Warehouse, name: str) -> None:
    """Names, times and parents equal those in the base tables."""
    query = """
        SELECT e.label, e.start_ticks - min(e.start_ticks) OVER (), e.duration_ticks, e.run_index, e.event_index,
            coalesce(e.parent_index, -1), e.kind = 'delegate'
        FROM events AS e WHERE e.capture_id = _capture_id($c) ORDER BY ALL
    """
    logged = captures.rows(query, c=name)[1]
    with perfetto(exported(captures, name, "chrome")) as viewer:
        assert viewer.query(COMPLAINTS) == []
        found = viewer.query(
            """
            SELECT s.name, s.ts, s.dur, EXTRACT_ARG(s.arg_set_id, 'args.run') AS run,
                EXTRACT_ARG(s.arg_set_id, 'args.event') AS event,
                coalesce(EXTRACT_ARG(p.arg_set_id, 'args.event'), -1) AS parent, t.name <> 'host' AS beside
            FROM slice AS s
            LEFT JOIN slice AS p ON p.id = s.parent_id
            JOIN thread_track AS k ON k.id = s.track_id
            JOIN thread AS t USING (utid)
            WHERE s.category <> 'run'
            ORDER BY s.name, s.ts, s.dur, run, event
            """
        )
        runs = viewer.query("SELECT count(*) FROM slice WHERE category = 'run' AND depth = 0")
    assert [row[:5] for row in found] == [row[:5] for row in logged]
    for shown, known in zip(found, logged, strict=True):
        assert shown[6] == known[6], "delegates' events stand on tracks of their own"
        if shown[2] > 0 and not shown[6]:
            assert shown[5] == known[5], shown
    assert runs == [(len({row[3] for row in logged}),)]


@pytest.mark.long
def test_perfetto_shows_a_records_words(captures: Warehouse) -> None:
    with perfetto(exported(captures, "transformer", "chrome")) as viewer:
        found = viewer.query(
            """
            SELECT DISTINCT EXTRACT_ARG(s.arg_set_id, 'args.op_types[0]') AS op,
                EXTRACT_ARG(s.arg_set_id, 'args.module') AS module,
                EXTRACT_ARG(s.arg_set_id, 'args.source') AS source,
                EXTRACT_ARG(s.arg_set_id, 'args.debug_handles[0]') AS handle
            FROM slice AS s WHERE s.name LIKE 'native_call_%softmax%' ORDER BY handle
            """
        )
    known = captures.rows(
        """SELECT op_types[1], module_path, source_file || ':' || source_line, debug_handles[1]
        FROM event_ops('transformer') WHERE event_name LIKE 'native_call_%softmax%' ORDER BY ALL"""
    )[1]
    assert found and sorted(found) == known


@pytest.mark.long
@pytest.mark.parametrize("name", TRACES if IS_WHOLE else TRACES[:1])
def test_perfetto_shows_a_trace_as_it_shows_the_file(name: str) -> None:
    path = CAPTURES / "torch" / name
    with empty_warehouse() as warehouse:
        warehouse.ingest(path, name="trace")
        text = exported(warehouse, "trace", "chrome")
    with perfetto(gzip.decompress(path.read_bytes())) as viewer:
        given = sorted(viewer.query(SLICES), key=str)
    with perfetto(text) as viewer:
        assert viewer.query(COMPLAINTS) == []
        assert sorted(viewer.query(SLICES), key=str) == given


# The stored rows of a trace. Positions in the file are compared by order, as skipped entries have none.
STORED = {
    "runs": "SELECT run_index, name, block_index, iteration FROM runs WHERE capture_id = $id",
    "events": """
        SELECT dense_rank() OVER (ORDER BY e.event_index), e.run_index, e.block_index, e.slot, e.occurrence, e.kind,
            e.category, e.label, e.family, e.start_ticks, e.duration_ticks, p.label, p.start_ticks, e.parent_run_index,
            t.process, t.thread, t.process_name, t.thread_name,
            x.external_id, x.correlation_id, x.sequence_number, x.forward_thread, x.call_stack,
            o.* EXCLUDE (capture_id, run_index, event_index),
            d.* EXCLUDE (
                capture_id, run_index, event_index, call_index, op_index, owner_index,
                wait_index, recorded_index, called_index, launch_index, backward_index
            ),
            call.label, call.start_ticks, op.label, op.start_ticks, owner.label, owner.start_ticks,
            wait.label, wait.start_ticks, recorded.label, recorded.start_ticks, called.label, called.start_ticks,
            launch.label, launch.start_ticks, backward.label, backward.start_ticks
        FROM events AS e
        JOIN trace_events AS x USING (capture_id, run_index, event_index)
        JOIN threads AS t USING (capture_id, thread_index)
        LEFT JOIN op_arguments AS o USING (capture_id, run_index, event_index)
        LEFT JOIN device_events AS d USING (capture_id, run_index, event_index)
        LEFT JOIN events AS p ON p.capture_id = e.capture_id AND p.run_index = e.parent_run_index
            AND p.event_index = e.parent_index
        LEFT JOIN events AS call ON call.capture_id = $id AND call.event_index = d.call_index
        LEFT JOIN events AS op ON op.capture_id = $id AND op.event_index = d.op_index
        LEFT JOIN events AS owner ON owner.capture_id = $id AND owner.event_index = d.owner_index
        LEFT JOIN events AS wait ON wait.capture_id = $id AND wait.event_index = d.wait_index
        LEFT JOIN events AS recorded ON recorded.capture_id = $id AND recorded.event_index = d.recorded_index
        LEFT JOIN events AS called ON called.capture_id = $id AND called.event_index = d.called_index
        LEFT JOIN events AS launch ON launch.capture_id = $id AND launch.event_index = d.launch_index
        LEFT JOIN events AS backward ON backward.capture_id = $id AND backward.event_index = d.backward_index
        WHERE e.capture_id = $id
    """,
    "memory": """
        SELECT dense_rank() OVER (ORDER BY m.event_index), t.process, t.thread,
            m.* EXCLUDE (capture_id, event_index, thread_index, call_index), call.name, call.start_ticks
        FROM trace_memory AS m
        JOIN threads AS t USING (capture_id, thread_index)
        LEFT JOIN events AS call ON call.capture_id = $id AND call.event_index = m.call_index
        WHERE m.capture_id = $id
    """,
    "counters": """
        SELECT t.start_ticks, c.counter, c.value
        FROM event_counters AS c JOIN event_ticks AS t USING (capture_id, run_index, event_index) WHERE c.capture_id = $id
    """,
    "devices": "SELECT * EXCLUDE (capture_id) FROM trace_devices WHERE capture_id = $id",
    "rank": "SELECT key, value FROM labels WHERE capture_id = $id AND key IN ('rank', 'world_size')",
}


def _assert_round_trip(path: Path) -> None:
    with empty_warehouse() as warehouse:
        first = warehouse.ingest(path, name="first")
        second = warehouse.ingest(exported(warehouse, "first", "chrome"), name="second")
        for what, query in STORED.items():
            given, found = (warehouse.rows(f"{query} ORDER BY ALL", id=each.capture_id)[1] for each in (first, second))
            assert found == given, what
        assert warehouse.rows("SELECT count(*) FROM events")[1] != [(0,)]
        tables = [warehouse.rows("FROM key_averages($c)", c=each)[1] for each in (first, second)]
        assert tables[0] == tables[1]


# A trace of a CPU; one of a rank, of which the export has collectives and the number of ranks; counters of kernels.
OWN = ("torch_gpu/rank1", "torch_counters/counters", *(f"torch/{name.split('.')[0]}" for name in TRACES))


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(OWN, OWN[:3]))
def test_a_trace_comes_out_as_it_went_in(name: str) -> None:
    _assert_round_trip(CAPTURES / f"{name}.pt.trace.json.gz")


@pytest.mark.parametrize("name", thinned(GPU_TRACES, ["triton"]))
def test_a_trace_of_a_gpu_comes_out_as_it_went_in(name: str) -> None:
    _assert_round_trip(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz"))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Speedscope's own files."""
    return speedscope_package(tmp_path_factory.mktemp("speedscope"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["mlp_xnn", "iterations"])
def test_profiles_keep_to_speedscopes_schema(captures: Warehouse, release: Path, name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="schemas are checked with the package jsonschema")
    schema = json.loads((release / "file-format-schema.json").read_text())
    profiles = json.loads(exported(captures, name, "speedscope"))
    jsonschema.validate(profiles, schema)
    del profiles["profiles"][0]["unit"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(profiles, schema)


# Programs whose nodes Model Explorer's adapter named, by record, stage and method.
PROGRAMS = [
    (name, *reversed(stage.split("/"))) for name in names("model_explorer") for stage in answer(name, "model_explorer")
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "method", "graph"), thinned(PROGRAMS, [PROGRAMS[0][0]]))
def test_model_explorer_has_nodes_of_these_names(captures: Warehouse, name: str, method: str, graph: str) -> None:
    """The graph's id and its nodes' are those that Model Explorer's adapter gave the same program."""
    known = answer(name, "model_explorer")[f"{graph}/{method}"]
    text = exported(captures, name, "model-explorer", method=method, graph=graph)
    [(graph_id, data)] = json.loads(text).items()
    assert graph_id == known["id"]
    assert set(data["results"]) <= set(known["nodes"]) and len(data["results"]) >= 3
    check_with_model_explorer(graph_id, data)


@pytest.mark.long
@pytest.mark.parametrize("name", ["convnet", "mlp_xnn", "multimethod", "transformer"] if IS_WHOLE else ["mlp_xnn"])
def test_model_explorer_has_the_nodes_of_overlays(name: str) -> None:
    """`etq graph` names all nodes of the edge program's top graph as Model Explorer's adapter does."""
    with empty_warehouse() as warehouse:
        folder = CAPTURES / name
        warehouse.ingest(folder / f"{name}.etdp", name="run", etrecord=folder / f"{name}.etrecord")
        methods = warehouse.rows("SELECT DISTINCT method FROM node_totals('run') ORDER BY ALL")[1]
        assert methods
        for (method,) in methods:
            known = answer(name, "model_explorer")[f"edge_dialect_exported_program/{method}"]
            for overlay in ("time", "flops", "backend", "op"):
                text = etq.report.graph_node_data_of(warehouse, "run", overlay=overlay, method=method)
                [(graph_id, data)] = json.loads(text).items()
                assert graph_id == known["id"]
                assert set(data["results"]) <= set(known["nodes"])
            # The last overlay has all ops: what the adapter has besides are inputs, the output and parts of results.
            others = [label for node, label in known["nodes"].items() if node not in data["results"]]
            assert all(label == "getitem" or "." not in label for label in others)
            assert len(data["results"]) >= 3
            check_with_model_explorer(graph_id, data)


def check_with_model_explorer(graph_id: str, data: dict[str, Any]) -> None:
    """If Model Explorer is installed: its own classes write the same data."""
    try:
        from model_explorer import node_data_builder as builder
    except ImportError:
        return
    results = {node: builder.NodeDataResult(**result) for node, result in data["results"].items()}
    gradient = [builder.GradientItem(**item) for item in data.get("gradient", ())]
    given = {**data, "results": results} | ({"gradient": gradient} if gradient else {})
    again = builder.ModelNodeData({graph_id: builder.GraphNodeData(**given)})
    read = json.loads(again.to_json_string())[graph_id]
    assert {key: read[key] for key in data} == data


@pytest.mark.long
def test_perfetto_shows_the_ranks_of_a_job_beside_each_other() -> None:
    """Each slice of each rank, in a process of that rank; collectives end at the same time."""
    folder = CAPTURES / "torch_gpu"
    with empty_warehouse() as warehouse:
        for rank in range(2):
            warehouse.ingest(folder / f"rank{rank}.pt.trace.json.gz", labels={"job": "a"})
        query = """
            SELECT 'rank ' || l.value, s.label, t.elapsed_ticks FROM event_ticks AS t
            JOIN signatures AS s USING (capture_id, signature_index)
            JOIN labels AS l ON l.capture_id = t.capture_id AND l.key = 'rank'
        """
        known = sorted(warehouse.rows(query)[1])
        text = exported(warehouse, "job=a", "chrome")
    with perfetto(text) as viewer:
        assert viewer.query(COMPLAINTS) == []
        shown = viewer.query(f"SELECT process, name, dur FROM ({SLICES})")
    assert sorted((process.split("]")[0].strip("["), name, length) for process, name, length in shown) == known
