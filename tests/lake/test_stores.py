"""A lake in an object store: S3 as moto's server speaks it on the loopback."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import etq
from etq import catalog
from etq.cli import main
from etq.errors import EtqError, WarehouseError
from etq.lake import Added, check, compact, export, is_lake, repair, restore
from etq.lake.reading import connection as reading
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import Lake
from tests.conftest import CAPTURES
from tests.lake.moto_server import made, serving
from tests.lake.test_lake import FLEET, is_same
from tests.sampling import whole

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
ROOT = Path(__file__).parents[2]
BUCKETS = count(1)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store's own log, with a line for each request."""
    return tmp_path_factory.mktemp("store") / "log"


@pytest.fixture(scope="module")
def endpoint(log: Path) -> Iterator[str]:
    """The address of an initially empty store, served by a separate process."""
    with serving(log) as address:
        yield address


@pytest.fixture
def store(endpoint: str) -> tuple[str, dict[str, str]]:
    """The address of a lake in a separate bucket, and the store's options."""
    bucket = f"lab{next(BUCKETS)}"
    return f"s3://{bucket}/fleet", made(endpoint, bucket)


def add(url: str, files: list[Path], options: dict[str, str], **labels: str) -> Added:
    return etq.lake.add(url, lambda warehouse: warehouse.ingest_many(files, labels=labels), storage_options=options)


@whole
def test_a_lake_in_a_store_is_as_one_in_a_folder(store: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, options = store
    with pytest.raises(WarehouseError, match="fleet: an address; a warehouse is a file, or a lake"):
        etq.open(url, storage_options=options)
    with etq.open() as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        warehouse.ingest_many([CAPTURES / "mlp/mlp.etdp", *FLEET[:2]], link_to=[record], labels={"build": "1"})
        for place, given in ((url, options), (tmp_path / "fleet", None)):
            assert export(place, warehouse, storage_options=given) == Added(3, 0, 0)
    assert (
        add(url, FLEET[1:4], options, build="2")
        == add(str(tmp_path / "fleet"), FLEET[1:4], {}, build="2")
        == Added(2, 1, 0)
    )
    with etq.open(url, storage_options=options) as one, etq.open(tmp_path / "fleet") as other:
        for table in catalog.tables():
            if table.name != "warehouse":
                columns = ", ".join(column.name for column in table.columns if column.name != "ingested_at")
                query = f"SELECT {columns} FROM {table.name} ORDER BY ALL"
                assert one.rows(query) == other.rows(query), table.name
        for query in ("FROM op_totals('mlp')", "FROM compare_ops('build=1', 'build=2')"):
            assert is_same(one.rows(query), other.rows(query)) and one.rows(query)[1]
        with pytest.raises(WarehouseError, match="captures of a lake are read-only"):
            one.label("mlp", a="b")
    assert check(url, storage_options=options) == []
    version = read(Lake.at(url, options)).version
    assert compact(url, storage_options=options) == (3, 2)
    with etq.open(url, storage_options=options) as now, etq.open(url, version=version, storage_options=options) as then:
        query = "SELECT name, events FROM capture_summary ORDER BY name"
        assert now.rows(query) == then.rows(query) and len(now.rows(query)[1]) == 5
    assert restore(url, 1, storage_options=options) == (5, 3)
    assert repair(url, storage_options=options) == []
    assert restore(url, version, storage_options=options) == (3, 5)
    with etq.open(url, storage_options=options) as now:
        assert now.rows(query)[1] == [*sorted(now.rows(query)[1])] and len(now.rows(query)[1]) == 5
    compact(url, leave_seconds=-1, storage_options=options)
    assert check(url, storage_options=options) == []


def _add_some(url: str, files: list[Path], options: dict[str, str]) -> None:
    for path in files:
        add(url, [path], options)


def test_several_writers_of_a_store_lose_nothing(store: tuple[str, dict[str, str]]) -> None:
    url, options = store
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_some, args=(url, [FLEET[1 + part], FLEET[0]], options)) for part in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [each.exitcode for each in writers] == [0, 0]
    with etq.open(url, storage_options=options) as warehouse:
        assert warehouse.rows("SELECT count(*), count(DISTINCT sha256) FROM captures")[1] == [(3, 3)]
    assert [fault for fault in check(url, storage_options=options) if not fault.is_left_over] == []


def requests_of(log: Path) -> int:
    """How many requests a store has had, once it has no more: the library may have begun some that nobody waits for."""
    number = -1
    while number != (number := log.read_bytes().count(b" HTTP/1.")):
        time.sleep(0.3)
    return number


def test_one_captures_question_takes_few_requests(
    store: tuple[str, dict[str, str]], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three to open a lake, and for each load one for each table that the question reads; compacting takes some hundred."""
    url, options = store
    fetched, attach, made_of = [], reading.attach, list[Any]()

    def noted(connection: duckdb.DuckDBPyConnection, state: LakeState) -> Any:
        made_of.append(attach(connection, state))
        return made_of[-1]

    def requests(work: Callable[[], Any]) -> tuple[int, Any]:
        before = requests_of(log)
        result = work()
        return requests_of(log) - before, result

    def ask(warehouse: etq.Warehouse) -> int:
        return len(warehouse.rows("FROM op_totals('00')")[1])

    monkeypatch.setattr(reading, "attach", noted)
    tables = 4
    for begin, end in ((0, 2), (2, 12)):
        add(url, FLEET[begin:end], options)
        for loads in range(1 if begin == 0 else 2, 0, -1):
            opening, warehouse = requests(lambda: etq.open(url, storage_options=options))
            with warehouse:
                files = made_of[-1]
                asking, rows = requests(lambda: ask(warehouse))  # noqa: B023
                assert rows > 0
                assert (opening, asking) == (3, tables * loads) and files.requests == asking
                assert requests(lambda: ask(warehouse)) == (0, rows)  # noqa: B023
            if loads == 1:
                fetched.append(files.fetched)
            else:
                compacting, _ = requests(lambda: compact(url, leave_seconds=-1, storage_options=options))
                assert compacting < 400
    assert fetched[1] < 6 << 18, fetched


@pytest.mark.long
def test_adding_takes_no_more_requests_with_each_capture(store: tuple[str, dict[str, str]], log: Path) -> None:
    """A writer reads the log of each table from its last checkpoint on, which every tenth commit writes."""
    url, options = store
    taken = []
    for file in FLEET[:11]:
        before = requests_of(log)
        add(url, [file], options)
        taken.append(requests_of(log) - before)
    growth = {later - before for before, later in itertools.pairwise(taken[1:8])}
    assert max(growth) <= 15, taken
    assert taken[9] < taken[7], taken
    names = [
        name
        for table in ("captures", "op_times")
        for name in Lake.at(url, options).listed(f"{table}/_delta_log")
        if ".checkpoint." in name
    ]
    assert len(names) == 2, names
    assert check(url, storage_options=options) == []
    with etq.open(url, storage_options=options) as warehouse:
        assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(11,)]


def test_by_commands(store: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The options of the store come from the environment."""
    url, options = store
    for name, value in options.items():
        monkeypatch.setenv(name, value)
    shutil.copy(FLEET[0], tmp_path / "run.etdp")
    runner = CliRunner()
    assert runner.invoke(main, ["lake", "add", url, str(tmp_path / "run.etdp")]).exit_code == 0
    assert is_lake(url)
    asked = runner.invoke(main, ["ops", "run", "--db", url])
    assert asked.exit_code == 0 and "add" in asked.output
    for command in ("check", "compact"):
        assert runner.invoke(main, ["lake", command, url]).exit_code == 0, command
    result = runner.invoke(main, ["sql", "--safe", "SELECT 1", "--db", url])
    assert (
        isinstance(result.exception, EtqError | SystemExit)
        and "in an object store" in str(result.exception) + result.output
    )


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "x",
               "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "x", "max_retries": "0", "timeout": "1s"}  # fmt: skip
    with pytest.raises(WarehouseError, match="^s3://none/lake: [^\n]*: Connection refused [^\n]*$"):
        etq.open("s3://none/lake", storage_options=options)


def test_a_store_without_credentials() -> None:
    """One line names the options to set; the library's warnings are not shown."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "x", "HOME": "/nowhere"}
    command = [sys.executable, "-m", "etq", "ops", "run", "--db", "s3://none/lake"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert ran.returncode == 1 and ran.stderr.startswith("Error: s3://none/lake: the store needs credentials: set them")
    assert len(ran.stderr.splitlines()) == 1
