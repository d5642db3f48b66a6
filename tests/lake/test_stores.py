"""A lake in an object store: S3 as moto's server speaks it on the loopback."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import etq
from etq import catalog
from etq.cli import main
from etq.errors import EtqError, WarehouseError
from etq.lake import Added, compact, export, is_lake
from etq.lake.reading.tables import Lake
from tests.conftest import CAPTURES
from tests.lake.engines import agree, by_etq, by_others
from tests.lake.faulty_store import OPTIONS, Fault, Faults, Plan, proxied
from tests.lake.moto_server import made, serving
from tests.lake.test_lake import FLEET
from tests.lake.test_writers import before_commit
from tests.sampling import IS_WHOLE, whole
from tests.spark.answers import differences

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
ROOT = Path(__file__).parents[2]
BUCKETS = count(1)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an initially empty store, served by a separate process."""
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def proxy(endpoint: str) -> Iterator[tuple[str, Faults]]:
    """An address before the store, whose answers fail as a test plans."""
    with proxied(endpoint) as found:
        yield found


@pytest.fixture
def lake(endpoint: str) -> Lake:
    """A lake in a separate bucket."""
    bucket = f"lab{next(BUCKETS)}"
    return Lake.at(f"s3://{bucket}/fleet", made(endpoint, bucket))


def faulty(lake: Lake, proxy: tuple[str, Faults]) -> Lake:
    """The lake, through the proxy."""
    return Lake.at(lake.url, {**(lake.options or {}), **OPTIONS, "AWS_ENDPOINT_URL": proxy[0]})


def add(lake: Lake, files: list[Path], **labels: str) -> Added:
    return etq.lake.add(lake, lambda warehouse: warehouse.ingest_many(files, labels=labels))


@whole
def test_a_lake_in_a_store_is_as_one_in_a_folder(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="fleet: an address; a warehouse is a file, or a lake"):
        etq.open(lake.url, storage_options=lake.options)
    folder = Lake.at(tmp_path / "fleet")
    with etq.open() as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        warehouse.ingest_many([CAPTURES / "mlp/mlp.etdp", *FLEET[:2]], link_to=[record], labels={"build": "1"})
        assert export(lake.url, warehouse, storage_options=lake.options) == export(folder, warehouse) == Added(3, 0, 0)
    assert add(lake, FLEET[1:4], build="2") == add(folder, FLEET[1:4], build="2") == Added(2, 1, 0)
    with etq.open(lake.url, storage_options=lake.options) as one, etq.open(folder.url) as other:
        for opened in (one, other):
            opened.label("mlp", build="3")
            opened.remove("00")
    assert compact(lake) == compact(folder)
    with etq.open(lake.url, storage_options=lake.options) as one, etq.open(folder.url) as other:
        for table in catalog.tables():
            if table.name != "warehouse":
                columns = ", ".join(column.name for column in table.columns if column.name != "ingested_at")
                query = f"SELECT {columns} FROM {table.name} ORDER BY ALL"
                assert one.rows(query) == other.rows(query), table.name
        for query in ("FROM op_totals('mlp')", "FROM compare_ops('build=3', 'build=2')"):
            found = one.rows(query)[1]
            assert found and differences(other.rows(query)[1], found) == []
        with pytest.raises(WarehouseError, match="this command does not change a lake"):
            one.ingest(FLEET[0])
        with pytest.raises(EtqError, match="disabled by configuration"):
            one.rows("FROM read_text('/etc/hostname')")
    assert by_others(lake).items() <= by_etq(lake).items() == by_etq(folder).items()


def _add_some(lake: Lake, files: list[Path]) -> None:
    for path in files:
        add(lake, [path])


@whole
def test_two_writers_that_overlap(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_some, args=(lake, [FLEET[1 + part], FLEET[0]])) for part in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0] and agree(lake, *FLEET[:3])
    before_commit(monkeypatch, lambda: add(lake, FLEET[2:5]))
    assert add(lake, FLEET[3:6]) == Added(1, 2, 0)
    assert agree(lake, *FLEET[:6])
    compact(lake)
    assert agree(lake, *FLEET[:6])


_COMMIT = "^PUT .*/captures/_delta_log/[0-9]+.json"


def test_adding_to_a_store_that_fails(lake: Lake, proxy: tuple[str, Faults]) -> None:
    """Readers see the lake of before or after, and adding again completes it."""
    through = faulty(lake, proxy)
    add(lake, FLEET[:1])
    proxy[1].plan(Plan("dropped", 20, is_gone_after=True))
    with pytest.raises(WarehouseError, match=f"^{lake.url}[^\n]*$"):
        add(through, FLEET[1:2])
    assert len(proxy[1].plan(None)) == 1
    found = by_etq(lake)
    assert (found["captures"], found["event_ticks"]) == (1, 1962)
    # A commit whose answer is lost is there: what the library asks again is refused, as if another writer was faster.
    faults: list[Fault] = ["lost", "cut", "500", "late"] if IS_WHOLE else ["lost"]
    for number, fault in enumerate(faults, 1):
        proxy[1].plan(Plan(fault, pattern=_COMMIT))
        assert add(through, FLEET[:1] + FLEET[number : number + 1]) == Added(1, 1, 0)
        assert len(proxy[1].plan(None)) == 1
    # Where the store is gone then, nobody can know whether the commit is there, so nothing is removed.
    last = FLEET[len(faults) + 1]
    proxy[1].plan(Plan("lost", pattern=_COMMIT, is_gone_after=True))
    with pytest.raises(WarehouseError, match="^s3://[^\n]*$"):
        add(through, [last])
    proxy[1].plan(Plan("lost", pattern=_COMMIT) if IS_WHOLE else None)
    assert add(lake, [last]) == Added(0, 1, 0)
    compact(through if IS_WHOLE else lake, leave_seconds=0)
    assert agree(lake, *FLEET[: len(faults) + 2])


# What fails, and the number of the request: an add has some 90 of them, a compaction some 200.
CASES: list[tuple[str, Fault, int, bool]] = [
    ("compact", "cut", 60, False), ("add", "503", 75, False), ("compact", "lost", 25, True)
]  # fmt: skip


@whole
@pytest.mark.parametrize(("what", "fault", "number", "is_gone_after"), CASES)
def test_a_request_that_fails(
    lake: Lake, proxy: tuple[str, Faults], what: str, fault: Fault, number: int, is_gone_after: bool
) -> None:
    """Whether an error is reported or not, readers see the lake of before or after, and repeating completes it."""
    work: Callable[[Lake], Any] = partial(add, files=FLEET[2:3]) if what == "add" else partial(compact, leave_seconds=0)
    for files in [FLEET[:2]] if what == "add" else [FLEET[:1], FLEET[1:2]]:
        add(lake, files)
    proxy[1].plan(Plan(fault, number, is_gone_after=is_gone_after))
    try:
        work(faulty(lake, proxy))
        seen = {3} if what == "add" else {2}
    except WarehouseError as error:
        assert "\n" not in str(error) and str(error).startswith(lake.url)
        seen = {2, 3} if what == "add" else {2}
    assert len(proxy[1].plan(None)) == 1
    found = by_etq(lake)
    assert found["captures"] in seen and found["event_ticks"] == 1962 * found["captures"]
    work(lake)
    compact(lake, leave_seconds=0)
    assert agree(lake, *FLEET[: 3 if what == "add" else 2])


def test_by_commands(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The options of the store come from the environment."""
    for name, value in (lake.options or {}).items():
        monkeypatch.setenv(name, value)
    shutil.copy(FLEET[0], tmp_path / "run.etdp")
    runner = CliRunner()
    assert runner.invoke(main, ["lake", "add", lake.url, str(tmp_path / "run.etdp")]).exit_code == 0
    assert is_lake(lake.url)
    asked = runner.invoke(main, ["ops", "run", "--db", lake.url])
    assert asked.exit_code == 0 and "add" in asked.output


def test_a_store_without_credentials() -> None:
    """One line names the options to set; the library's warnings are not shown."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "x", "HOME": "/nowhere"}
    command = [sys.executable, "-m", "etq", "ops", "run", "--db", "s3://none/lake"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert ran.returncode == 1 and ran.stderr.startswith("Error: s3://none/lake")
    assert ": the store needs credentials: set them" in ran.stderr and len(ran.stderr.splitlines()) == 1
