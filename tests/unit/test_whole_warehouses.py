"""Warehouses as a whole: of several one with the rows of all; etq db check finds each fault that is put into one."""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

import etq
from etq.advice.filling import refill
from etq.cli import main
from etq.errors import EtqError, WarehouseError
from etq.maintenance import checking
from etq.maintenance.merge import Merged, merge
from etq.version import SCHEMA_VERSION
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace
from tests.unit.test_warehouse import ONE, TWO, contents
from tests.warehouses import copy_of

pytestmark = pytest.mark.long

MLP, CONVNET = CAPTURES / "mlp", CAPTURES / "convnet"
FIRST = [MLP / "mlp.etdp", CONVNET / "convnet_debug.etdp"]
SECOND = [MLP / "mlp_alloc.etdp", MLP / "mlp.etdp", CAPTURES / "torch/pair_mlp.pt.trace.json.gz"]


def fill(warehouse: Warehouse, files: list[Path]) -> None:
    """Ingest files, each linked to its program and record, if there are any."""
    for path in files:
        stem = path.parent / path.parent.name
        program, record = (
            file if (file := stem.with_suffix(suffix)).exists() else None for suffix in (".pte", ".etrecord")
        )
        labels, moment = {"model": path.parent.name}, datetime(2026, 1, 2)
        capture = warehouse.ingest(path, labels=labels, captured_at=moment, pte=program, etrecord=record)
        if not warehouse.rows("SELECT 1 FROM metrics AS m WHERE m.capture_id = $key", key=capture.capture_id)[1]:
            warehouse.metric(capture, "temperature", 40)


def test_merging_is_ingesting_all_into_one(tmp_path: Path) -> None:
    for name, files in (("a", FIRST), ("b", SECOND), ("all", [*FIRST, *SECOND])):
        with etq.open(tmp_path / f"{name}.duckdb") as warehouse:
            fill(warehouse, files)
    before = [(tmp_path / f"{name}.duckdb").read_bytes() for name in "ab"]
    merged = etq.merge([tmp_path / "a.duckdb", tmp_path / "b.duckdb"], tmp_path / "c.duckdb")
    assert merged == Merged(4, 1, ())
    assert [(tmp_path / f"{name}.duckdb").read_bytes() for name in "ab"] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.duckdb", "all.duckdb", "b.duckdb", "c.duckdb"]
    with etq.open(tmp_path / "c.duckdb") as made, etq.open(tmp_path / "all.duckdb") as expected:
        assert repr(contents(made)) == repr(contents(expected))
        assert made.op_totals("mlp").fetchall() == expected.op_totals("mlp").fetchall()
        assert made.ingest(ONE).capture_id == 5


def test_annotations_of_both_are_united(tmp_path: Path) -> None:
    with etq.open(tmp_path / "a.duckdb") as first:
        first.ingest(ONE, name="run", labels={"device": "a", "build": "1"})
        first.metric("run", "temperature", 40)
        first.phase("run", "prefill", runs="0")
    with etq.open(tmp_path / "b.duckdb") as second:
        second.ingest(TWO, name="else", labels={"device": "c"})
        second.ingest(
            ONE, name="one", labels={"device": "b", "model": "m"}, time_scale="us", captured_at=datetime(2026, 1, 2)
        )
        second.metric("one", "temperature", 50)
        second.metric("one", "battery", 80, "%")
        second.ingest_metrics("one", b'{"load": 3}')
        second.phase("one", "decode", runs="0")
    merged = merge([tmp_path / "a.duckdb", tmp_path / "b.duckdb"], tmp_path / "c.duckdb")
    path = tmp_path / "b.duckdb"
    assert merged == Merged(
        2,
        1,
        (
            f"{path}: run: label device: a stays, not b",
            f"{path}: run: metric temperature: 40.0 stays, not 50.0",
            f"{path}: run: phases: those of the first stay, and differ for 1 runs",
            f"{path}: run: time_scale: ns stays, not us",
        ),
    )
    with etq.open(tmp_path / "c.duckdb", read_only=True) as made:
        assert made.rows("SELECT s.name, s.labels, s.captured_at FROM capture_summary AS s")[1] == [
            ("run", "build=1, device=a, model=m", datetime(2026, 1, 2)),
            ("else", "device=c", None),
        ]
        assert made.rows("SELECT m.capture_id, m.name, m.value FROM metrics AS m ORDER BY 1, 2")[1] == [
            (1, "battery", 80.0), (1, "load", 3.0), (1, "temperature", 40.0),
        ]  # fmt: skip
        assert made.rows("SELECT r.phase FROM runs AS r ORDER BY r.capture_id")[1] == [("prefill",), (None,)]


def test_what_can_not_be_merged_is_refused(tmp_path: Path) -> None:
    good, old, output = tmp_path / "good.duckdb", tmp_path / "old.duckdb", tmp_path / "c.duckdb"
    etq.open(good).close()
    with etq.open(old) as warehouse:
        warehouse.connection.execute("UPDATE warehouse SET schema_version = 0")
    refused: list[tuple[list[Path], Path, str]] = [
        ([good, old], output, f"old.duckdb: has tables of version 0, and this etq reads version {SCHEMA_VERSION}"),
        ([good, tmp_path / "none.duckdb"], output, "none.duckdb: no such file; make a warehouse"),
        ([good], old, "old.duckdb: exists; a merge makes a new warehouse"),
        ([good], tmp_path / "no/c.duckdb", "no/c.duckdb: its folder does not exist; create it first"),
    ]
    for paths, to, text in refused:
        with pytest.raises(EtqError, match=text):
            merge(paths, to)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.duckdb", "old.duckdb"]
    with etq.open(good), pytest.raises(WarehouseError):
        merge([good], output)
    assert not output.exists()


DUMP, TRACE = CAPTURES / "mlp/mlp_debug.etdp", CAPTURES / "torch_steps/before.pt.trace.json.gz"
# The first block of a file comes after its three headers.
HEADERS = 3 * 4096


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with captures of all kinds, a record and a program, and the files they are from."""
    folder = tmp_path_factory.mktemp("lab")
    for file in (DUMP, DUMP.with_suffix(".bin"), CAPTURES / "mlp/mlp.etrecord", CAPTURES / "mlp/mlp.pte", TRACE):
        shutil.copy(file, folder)
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest(
            folder / DUMP.name, name="dump", debug_buffer=folder / "mlp_debug.bin", labels={"a": "b", "c": "d"},
            etrecord=folder / "mlp.etrecord", pte=folder / "mlp.pte",
        )  # fmt: skip
        warehouse.phase("dump", "decode", name="Execute")
        warehouse.metric("dump", "temperature", 41)
        warehouse.ingest(folder / TRACE.name, name="trace")
        prof_result = min((CAPTURES / "prof_result").glob("*.bin"))
        warehouse.ingest(prof_result.read_bytes(), name="prof")
    return folder


@pytest.fixture
def db(stored: Path, tmp_path: Path) -> Path:
    return copy_of(stored / "lab.duckdb", tmp_path)


def checked(db: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["db", "check", str(db), *options])


def changed(db: Path, *statements: str) -> list[str]:
    """The problems of a warehouse after statements of DuckDB alone."""
    with duckdb.connect(str(db)) as connection:
        for statement in statements:
            connection.execute(statement)
    done = checked(db)
    problems = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert done.exit_code == 1 and done.stderr == f"Error: {db}: {len(problems)} problem{'s'[: len(problems) > 1]}\n"
    return problems


def test_a_warehouse_has_no_problem(stored: Path, db: Path) -> None:
    done = checked(db)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert len(done.stdout.splitlines()) == 6 and all(line.endswith(": ok") for line in done.stdout.splitlines())
    with duckdb.connect(str(db), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = sum(connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in names)
    assert done.stdout.startswith(f"tables ({len(names)}, with {rows:,} rows): ok\n")
    assert "rollups, by the events (3 captures): ok" in done.stdout
    assert "files of the folder that they were read from (0 of 5): ok" in done.stdout
    assert "files of the folder that they were read from (4 of 5): ok" in checked(db, "--files", str(stored)).stdout


FAULTS = {
    "INSERT INTO labels VALUES (99, 'a', 'b')":
        "labels: 1 rows whose capture_id is in no row of captures, such as capture_id 99",
    "UPDATE captures SET record_id = 7 WHERE name = 'prof'":
        "captures: 1 rows whose record_id is in no row of records, such as record_id 7",
    "DELETE FROM op_nodes WHERE record_id = 1 AND graph_id = 0 AND node_index = 3":
        "node_values: 1 rows whose node_index is in no row of op_nodes, such as record_id 1, graph_id 0, node_index 3",
    "DELETE FROM methods":
        "planned_buffers: 2 rows whose method is in no row of methods, such as program_id 1, method forward",
    "UPDATE event_ticks SET parent_index = 5000 WHERE capture_id = 1 AND run_index = 1 AND event_index = 7":
        "event_ticks: 1 rows whose parent_index is in no row of event_ticks, such as capture_id 1, run_index 1, event_index 5000",
}  # fmt: skip
# The third: the time of an event, and so what is left to the one that contains it.
OF_EVENTS = {
    "UPDATE event_ticks SET self_ticks = self_ticks + 1 WHERE capture_id = 1 AND run_index = 1 AND event_index = 7":
        "event_ticks: dump: the times of 1 rows differ from what the events within them give",
    "UPDATE event_ticks SET is_additive = false WHERE capture_id = 2 AND rowid = "
    "(SELECT min(e.rowid) FROM event_ticks AS e WHERE e.capture_id = 2)":
        "event_ticks: trace: the times of 1 rows differ from what the events within them give",
    "UPDATE event_ticks SET elapsed_ticks = elapsed_ticks + 1 WHERE capture_id = 3 AND rowid = "
    "(SELECT min(e.rowid) FROM event_ticks AS e WHERE e.capture_id = 3 AND e.parent_index IS NOT NULL)":
        "event_ticks: prof: the times of 2 rows differ from what the events within them give",
    "UPDATE runs SET kernel_ticks = kernel_ticks + 1 WHERE capture_id = 1 AND run_index = 2":
        "runs: dump: the times of 1 rows differ from what the events within them give",
}  # fmt: skip
# Of a table, a change of one row, and the rows that differ then: one of the two that are stored, or both.
OF_ROLLUPS = {
    "UPDATE op_times SET p50 = p50 + 1 WHERE capture_id = 1 AND op_index = 1 AND phase IS NULL":
        "op_times: dump: 2 rows of the rollup differ from what its events give",
    "UPDATE all_op_totals SET total = total + 1 WHERE capture_id = 1 AND place = 1":
        "all_op_totals: dump: 2 rows of the rollup differ from what its events give",
    "UPDATE signature_times SET self_ticks = self_ticks + 1 WHERE rowid = "
    "(SELECT min(t.rowid) FROM signature_times AS t WHERE t.capture_id = 1)":
        "signature_times: dump: 2 rows of the rollup differ from what its events give",
    "DELETE FROM all_headline WHERE capture_id = 1 AND place = 1":
        "all_headline: dump: 1 rows of the rollup differ from what its events give",
    "DELETE FROM capture_ops WHERE capture_id = 3":
        "capture_ops: prof: 1 rows of the rollup differ from what its events give",
    "INSERT INTO module_times SELECT * REPLACE ('other' AS module_path) FROM module_times LIMIT 1":
        "module_times: dump: 1 rows of the rollup differ from what its events give",
    "UPDATE step_times SET ticks = ticks + 1 WHERE rowid = 0":
        "step_times: trace: 2 rows of the rollup differ from what its events give",
    "UPDATE op_shapes SET calls = calls + 1 WHERE rowid = 0":
        "op_shapes: trace: 2 rows of the rollup differ from what its events give",
    "UPDATE runs SET is_typical = NOT is_typical, scope = 'other' WHERE capture_id = 3 AND run_index = 0":
        "runs: prof: 2 rows in its derived columns differ from what its events give",
}  # fmt: skip


@pytest.mark.parametrize("faults", [FAULTS, OF_EVENTS, OF_ROLLUPS], ids=["keys", "events", "rollups"])
def test_faults_are_found(db: Path, faults: dict[str, str]) -> None:
    """Each is of another table, so that all are found at once."""
    assert {*faults.values()} <= {*changed(db, *faults)}


def test_of_many_captures_a_sample_is_computed_again(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three, each with a fault: it is found in that one; with --all in each."""
    monkeypatch.setattr(checking, "SAMPLE", 1)
    monkeypatch.setattr(checking, "_RANGES", 1)
    problems = changed(db, "UPDATE runs SET kernel_ticks = 7", "DELETE FROM capture_ops", "DELETE FROM step_times")
    captures = {problem.split(": ")[1] for problem in problems}
    assert len(captures) == 1 and "times of events and runs (1 of 3 captures)" in checked(db).stdout
    found = checked(db, "--all").stdout
    assert all(f": {name}: " in found for name in ("dump", "trace", "prof"))
    assert "rollups, by the events (3 captures)" in found


def test_launches_that_differ_are_found(tmp_path: Path) -> None:
    db = tmp_path / "gpu.duckdb"
    with etq.open(db) as warehouse:
        warehouse.ingest(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz", name="gpu")
    assert checked(db).exit_code == 0
    first = "(SELECT min(d.rowid) FROM device_events AS d WHERE d.call_index IS NOT NULL)"
    problem = "device_events: gpu: 1 rows differ from their events, or from the events that launched them"
    assert changed(db, f"UPDATE device_events SET call_ticks = call_ticks + 1 WHERE rowid = {first}") == [problem]
    problem = "trace_events: gpu: 1 rows differ from event_ticks, or from what is computed from it"
    assert changed(db, "UPDATE trace_events SET elapsed_ticks = elapsed_ticks + 1 WHERE rowid = 0")[0] == problem


FACTS = {
    "signatures": ("call_cause = 'call'",),
    "costed_ops": ("is_recomputed = NOT is_recomputed", "owner_index = 1", "host_ticks = 1"),
    "trace_devices": ("is_used = NOT is_used",),
    "trace_events": ("pass = 'optimizer'", "backward_index = 1", "device_ticks = 1", "device_before_ticks = 1"),
    "device_events": ("pass = 'optimizer'", "backward_index = 1", "launch_index = 1", "wait_kind = 'none'"),
    "device_gaps": ("host_ticks = host_ticks + 1",),
    "gap_parts": ("ticks = ticks + 1", "did = 'other'", "host_signature = 0"),
    "host_waits": ("since_ticks = since_ticks - 1",),
    "recordings": ("path_thread = NULL",),
    "trace_steps": ("end_thread = 7",),
}
# Of a trace without devices.
HOST_FACTS = {
    "costed_ops": ("inner_flops = 1", "host_ticks = host_ticks + 1"),
    "host_collectives": ("message_bytes = 1", "collective = 'other'", "group_size = group_size + 1"),
}
# Of a trace that records memory.
MEMORY_FACTS = {
    "trace_memory": ("call_index = 1", "counts_as = 'device'", "is_outside = NOT is_outside"),
    "event_memory": ("cpu_bytes = cpu_bytes + 1", "self_cpu_bytes = 7", "device_bytes = 7", "self_device_bytes = 7"),
}
MISSING = {
    "parent_index = event_index": "an event contains itself",
    "parent_index = 999999": "a number has no event",
    "event_signature = 999": "a signature or thread is missing",
}


@pytest.mark.parametrize(
    ("file", "facts", "missing"),
    [
        ("torch_gpu/rank0.pt.trace.json.gz", FACTS, MISSING),
        ("torch_gloo/rank0.pt.trace.json.gz", HOST_FACTS, {}),
        ("torch/mlp_train.pt.trace.json.gz", MEMORY_FACTS, {}),
    ],
    ids=["gpu", "gloo", "memory"],
)
def test_facts_of_traces_that_differ_are_found(
    file: str, facts: dict[str, tuple[str, ...]], missing: dict[str, str]
) -> None:
    with etq.open() as warehouse:
        warehouse.ingest(CAPTURES / file, name="gpu")

        def problems(table: str, change: str) -> list[str]:
            warehouse.connection.execute("BEGIN")
            warehouse.connection.execute(
                f"UPDATE {table} SET {change} WHERE rowid = (SELECT max(t.rowid) FROM {table} AS t)"
            )
            found = checking.wait_problems(warehouse.connection)
            warehouse.connection.execute("ROLLBACK")
            return found

        assert checking.wait_problems(warehouse.connection) == []
        for table, changes in facts.items():
            for change in changes:
                assert problems(table, change) == [
                    f"{table}: gpu: 1 rows differ from what the events of the trace give"
                ]
        for change, why in missing.items():
            assert problems("trace_events", change) == [f"trace_events: gpu: facts can't be computed: {why}"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE trace_events SET parent_index = event_index WHERE event_index = 3", "an event contains itself"),
        ("UPDATE trace_events SET parent_index = 99999 WHERE event_index = 3", "a number has no event"),
        ("DELETE FROM threads", "a number has no event"),
        ("DELETE FROM signatures", "a signature or thread is missing"),
    ],
)
def test_advice_about_damaged_events_is_an_error(tmp_path: Path, statement: str, why: str) -> None:
    """It doesn't end in a traceback, and it ends; a check finds the damage."""
    db = tmp_path / "gpu.duckdb"
    with etq.open(db) as warehouse:
        warehouse.ingest(CAPTURES / "torch_steps/after.pt.trace.json.gz", name="gpu", labels={"job": "a", "rank": "0"})
    found = changed(db, statement)
    assert any(problem.endswith(f"facts can't be computed: {why}") for problem in found)
    with etq.open(db) as warehouse, pytest.raises(WarehouseError, match=f"events of gpu are damaged: {why}; etq db"):
        refill(warehouse.connection, [1])


def test_times_beyond_64_bits_are_a_problem(tmp_path: Path) -> None:
    db = tmp_path / "gpu.duckdb"
    with etq.open(db) as warehouse:
        warehouse.ingest(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz", name="gpu")
    for table in ("device_events", "event_ticks"):
        found = changed(db, f"UPDATE {table} SET start_ticks = {2**63 - 1}")
        assert any(each.startswith("can't be computed: Out of Range Error: Overflow in addition") for each in found)


def test_damaged_blocks_are_found(db: Path) -> None:
    """DuckDB itself lists which blocks a table takes."""
    with duckdb.connect(str(db), read_only=True) as connection:
        query = "SELECT DISTINCT block_id FROM pragma_storage_info('event_ticks') WHERE block_id >= 0 ORDER BY 1"
        blocks = [block for (block,) in connection.execute(query).fetchall()]
        [(size,)] = connection.execute("SELECT block_size FROM pragma_database_size()").fetchall()
    assert blocks
    with db.open("r+b") as file:
        file.seek(HEADERS + blocks[0] * 65536 + size // 2)
        [byte] = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))
    done = checked(db)
    assert done.exit_code == 1, done.output
    assert "event_ticks: damaged: " in done.stdout and "keys" not in done.stdout, done.output
    assert "Traceback" not in done.output


def test_files_that_changed(stored: Path, tmp_path: Path) -> None:
    db = copy_of(stored / "lab.duckdb", tmp_path)
    folder = tmp_path / "files"
    folder.mkdir()
    assert "(0 of 5): ok" in checked(db, "--files", str(folder)).stdout
    shutil.copy(stored / "mlp.pte", folder)
    content = (stored / "mlp.etrecord").read_bytes()
    (folder / "mlp.etrecord").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (folder / DUMP.name).write_bytes(b"longer" + DUMP.read_bytes())
    os.mkfifo(folder / TRACE.name)
    done = checked(db, "--files", str(folder))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-3:] == [
        "files of the folder that they were read from (3 of 5): 2 problems",
        f"  capture dump: {DUMP.name}: the file changed after it was read",
        "  record mlp: mlp.etrecord: the file changed after it was read",
    ]


def test_files_outside_of_the_folder_are_not_read(db: Path, tmp_path: Path) -> None:
    """Whoever wrote the warehouse chose the name: what the file is must not show."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "folder").mkdir()
    with duckdb.connect(str(db)) as connection:
        connection.execute(f"UPDATE captures SET uri = if(name = 'dump', '{tmp_path}/secret', '../secret')")
    assert "(0 of 5): ok" in checked(db, "--files", str(tmp_path / "folder")).stdout


def test_a_large_trace_is_written_once(tmp_path: Path) -> None:
    """A checkpoint keeps the blocks that were written while the trace was read: few blocks of the file are free."""
    db = tmp_path / "large.duckdb"
    events = [event("cpu_op", f"aten::op{at % 50}", 3 * at, 3 * at + at % 3) for at in range(400_000)]
    with etq.open(db) as warehouse:
        warehouse.ingest(trace(*events), name="large")
    with duckdb.connect(str(db), read_only=True) as connection:
        [(used, free)] = connection.execute("SELECT used_blocks, free_blocks FROM pragma_database_size()").fetchall()
    assert 3 * free < used  # more than half as many as used if row groups are written again
