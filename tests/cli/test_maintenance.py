"""etq merge, remove, prune and compact, and the sizes that etq captures reports."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import etq
from etq.cli import main
from tests.conftest import CAPTURES

FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        for number, file in enumerate(FLEET[:4]):
            warehouse.ingest(file, name=f"run{number}", labels={"build": str(number // 2)})
    return path


@pytest.fixture
def db(stored: Path, tmp_path: Path) -> Path:
    """A warehouse of four captures of two builds, to be written to."""
    return Path(shutil.copy(stored, tmp_path))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def names(db: Path) -> list[str]:
    return run("captures", "--db", db, "--format", "csv").stdout.split("\n")[1:-1]


def test_ingest_prints_a_line_for_each_file(tmp_path: Path) -> None:
    """With many files, damaged ones are reported and the others are ingested, as with single files."""
    (tmp_path / "empty.etdp").write_bytes(b"")
    db, record = tmp_path / "lab.duckdb", CAPTURES / "mlp/mlp.etrecord"
    files = [FLEET[0], tmp_path / "empty.etdp", FLEET[1], FLEET[0]]
    ended = run("ingest", *files, "--etrecord", record, "--label", "a=b", "--db", db)
    assert ended.exit_code == 1
    assert [line for line in ended.stderr.splitlines() if not line.startswith("Note")] == [
        "00: ingested",
        f"Error: {tmp_path / 'empty.etdp'}: the file is empty; expected an ETDump",
        "01: ingested",
        "00: known already, options applied",
        "1 of 4 files could not be ingested",
    ]
    with etq.open(db, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.record_id FROM captures AS c")[1] == [(1,), (1,)]
        assert len(warehouse.module_totals("01").fetchall()) > 3


@pytest.mark.long
def test_remove(db: Path) -> None:
    refused = run("remove", "run0", "--db", db)
    assert (refused.exit_code, refused.stderr) == (1, "Error: 1 capture would be removed (run0); confirm with -y\n")
    assert run("remove", "build=0", "-y", "--db", db).stderr.startswith(
        "Error: build=0 matches 2 captures (run0, run1)"
    )
    assert "no capture matches none" in run("remove", "--all", "build=0", "none", "-y", "--db", db).stderr
    assert len(names(db)) == 4
    done = run("remove", "--all", "build=0", "run3", "-y", "--db", db)
    assert (done.exit_code, done.stderr) == (0, "3 captures removed; etq compact gives the space back\n")
    assert [line.split(",")[0] for line in names(db)] == ["run2"]


@pytest.mark.long
def test_prune(db: Path) -> None:
    arguments = ["prune", "--keep-last", "1", "--by", "build", "--db", db]
    dry = run(*arguments, "--dry-run")
    assert (dry.exit_code, dry.stdout, dry.stderr) == (0, "run0\nrun2\n", "2 captures to prune\n")
    assert run(*arguments).stderr == "Error: 2 captures would be removed (run0, run2); confirm with -y\n"
    done = run(*arguments, "--keep-rollups", "-y")
    assert done.stderr == "2 captures pruned; etq compact gives the space back\n"
    assert run(*arguments, "--keep-rollups").stderr == "0 captures to prune\n"
    asked = run("ops", "run0", "--db", db)
    assert asked.exit_code == 1
    assert asked.stderr.startswith("Error: the events of run0 were pruned")
    assert run("metric", "run0", "--db", db).exit_code == 0
    assert run(*arguments, "-y").exit_code == 0
    assert [line.split(",")[0] for line in names(db)] == ["run1", "run3"]


def test_compact_and_sizes(db: Path) -> None:
    listed = run("captures", "--size", "--sort", "stored_bytes", "--reverse", "--db", db, "--format", "csv")
    assert listed.exit_code == 0, listed.stderr
    head, *rows = listed.stdout.splitlines()
    assert head.endswith(",stored_bytes") and len(rows) == 4
    sizes = [int(row.rsplit(",", 1)[1]) for row in rows]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] > 1000
    assert run("captures", "--size", "--by", "build", "--db", db).exit_code == 2
    run("remove", "run0", "run1", "run2", "-y", "--db", db)
    before = db.stat().st_size
    done = run("compact", "--db", db)
    assert done.stderr == f"{db}: {db.stat().st_size / 1e6:.1f} MB, before {before / 1e6:.1f} MB\n"
    assert db.stat().st_size <= before and len(names(db)) == 1


@pytest.mark.long
def test_merge(db: Path, tmp_path: Path) -> None:
    other, output = tmp_path / "other.duckdb", tmp_path / "all.duckdb"
    with etq.open(other) as warehouse:
        warehouse.ingest(FLEET[0], labels={"build": "7"})
        warehouse.ingest(FLEET[5])
    done = run("merge", db, other, "-o", output)
    assert (done.exit_code, done.stderr) == (
        0,
        f"Note: {other}: run0: label build: 0 stays, not 7\n{output}: 5 captures; 1 were in several\n",
    )
    assert [line.split(",")[0] for line in names(output)] == ["run0", "run1", "run2", "run3", "05"]
    again = run("merge", db, other, "-o", output)
    assert (again.exit_code, again.stderr) == (1, f"Error: {output}: exists; a merge makes a new warehouse\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("compact",), ("prune", "--keep-last", 1, "-y"), ("remove", "run", "-y"), ("label", "run", "a=b"),
        ("link", "run", "m.etrecord"), ("metric", "run", "a=1"), ("phase", "run", "decode", "--runs", "1"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_mistyped_warehouse_is_not_made(arguments: tuple[object, ...], tmp_path: Path) -> None:
    missing = tmp_path / "missing.duckdb"
    ended = run(*arguments, "--db", missing)
    message = f"Error: {missing}: no such file; make a warehouse with: etq ingest FILE... --db {missing}\n"
    assert (ended.exit_code, ended.stderr) == (1, message)
    assert not missing.exists()


def test_a_mistyped_file_makes_no_warehouse(tmp_path: Path) -> None:
    ended = run("ingest", tmp_path / "none.etdp", "--db", tmp_path / "lab.duckdb")
    assert (ended.exit_code, ended.stderr) == (1, f"Error: {tmp_path / 'none.etdp'}: no such file\n")
    assert not any(tmp_path.iterdir())


def test_a_warehouse_is_named_in_either_way(db: Path) -> None:
    for command in ("check", "compact"):
        for arguments in ([db], ["--db", db], [db, "--db", db]):
            assert run(command, *arguments).exit_code == 0, (command, arguments)
    two = run("check", db, "--db", "other.duckdb")
    assert (two.exit_code, f"{db} and --db other.duckdb are two warehouses" in two.stderr) == (2, True)
