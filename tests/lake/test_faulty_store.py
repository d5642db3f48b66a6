"""A lake in an object store loses nothing, whichever request fails: lost, refused, cut or late."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.annotations.comments import Comment, add_comment
from etq.errors import WarehouseError
from etq.lake import check, compact
from etq.lake.reading.state import live
from etq.lake.reading.tables import Lake
from etq.lake.writing.sharing import edit
from tests.lake.faulty_store import FAULTS, OPTIONS, Fault, Faults, Plan, proxied
from tests.lake.moto_server import client, made, serving
from tests.lake.test_lake import FLEET
from tests.sampling import IS_WHOLE

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
BUCKETS = count(1)


@dataclass
class Store:
    """A store, and the proxy before it."""

    endpoint: str
    proxy: str
    faults: Faults

    def lake(self, of: Lake | None = None) -> tuple[Lake, Lake]:
        """A lake in a bucket of its own, as it is and through the proxy: empty, or a copy."""
        bucket = f"faulty{next(BUCKETS)}"
        options = made(self.endpoint, bucket)
        if of is not None:
            s3, source = client(self.endpoint), of.url.split("/")[2]
            for each in s3.list_objects_v2(Bucket=source).get("Contents", []):
                s3.copy_object(Bucket=bucket, Key=each["Key"], CopySource={"Bucket": source, "Key": each["Key"]})
        url = f"s3://{bucket}/fleet"
        return Lake.at(url, options), Lake.at(url, {**options, **OPTIONS, "AWS_ENDPOINT_URL": self.proxy})


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with serving() as endpoint, proxied(endpoint) as (proxy, faults):
        yield Store(endpoint, proxy, faults)


def add(lake: Lake, files: list[Path]) -> int:
    return etq.lake.add(lake, lambda warehouse: warehouse.ingest_many(files)).new


@pytest.fixture(scope="module")
def start(store: Store) -> Lake:
    """A lake of three loads."""
    lake, _ = store.lake()
    for path in FLEET[:3]:
        add(lake, [path])
    return lake


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """The rows that captures of the fleet have in a warehouse."""
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[:4])
        return rows(warehouse)


def rows(warehouse: etq.Warehouse) -> list[Any]:
    """The captures and how many rows each has in each table, by name."""
    tables = ("runs", "event_ticks", "signatures", "capture_ops", "op_times")
    counts = ", ".join(f"(SELECT count(*) FROM {each} AS t WHERE t.capture_id = c.capture_id)" for each in tables)
    return warehouse.rows(f"SELECT c.name, c.sha256, {counts} FROM captures AS c ORDER BY ALL")[1]


def is_whole(lake: Lake) -> list[Any]:
    """The rows of a lake, of which nothing may be missing, neither by its own notes nor by the logs of its tables."""
    fresh = Lake.at(lake.url, lake.options)
    with etq.open(fresh.url, storage_options=fresh.options) as warehouse:
        found = rows(warehouse)
    assert [fault for fault in check(fresh.url, storage_options=fresh.options) if not fault.is_left_over] == []
    there = fresh.listed()
    missing = [f"{table}/{each.path}" for table, files in live(fresh).items() for each in files]
    assert [each for each in missing if each not in there] == []
    return found


def survives(store: Store, start: Lake, expected: list[Any], what: str, plan: Plan) -> tuple[bool, list[str]]:
    """Add to a lake, or compact it, while a request fails: whether it was done all the same, and which request failed.

    Whether it reports an error or not, the lake is whole, and doing it again completes it.
    """
    direct, faulty = store.lake(start)
    before, after = expected[:3], expected if what == "add" else expected[:3]

    def work(lake: Lake) -> object:
        if what == "add":
            return add(lake, FLEET[3:4])
        return compact(lake.url, leave_seconds=-1, storage_options=lake.options)

    is_done = True
    store.faults.plan(plan)
    try:
        work(faulty)
    except WarehouseError as error:
        is_done = False
        print(plan, error)  # shown if the test fails
        assert str(error).startswith(direct.url)
        assert not re.search(r"\n|\\[nx]|Traceback|\u21b3", str(error)), "one line, without the library's layers"
    finally:
        failed = store.faults.plan(None)
    found = is_whole(direct)
    assert found == after if is_done else found in (before, after)
    work(Lake.at(direct.url, direct.options))
    assert is_whole(direct) == after
    if what == "compact":
        assert check(direct.url, storage_options=direct.options) == []
    return is_done, failed


def commit_to(table: str) -> str:
    """The pattern of requests that commit to a table."""
    return f"^PUT .*/{table}/_delta_log/[0-9]+.json"


@pytest.mark.parametrize("fault", ["lost", "500", "cut", "late"])
def test_a_commit_whose_answer_does_not_arrive_is_found(
    store: Store, start: Lake, expected: list[Any], fault: Fault
) -> None:
    """The store has it. What the library asks again is refused, as by another writer who was faster."""
    for what in ("add", "compact"):
        is_done, failed = survives(store, start, expected, what, Plan(fault, pattern=commit_to("captures")))
        assert is_done and len(failed) == 1


@pytest.mark.parametrize("what", ["add", "compact"])
def test_a_store_that_is_gone_after_a_commit(store: Store, start: Lake, expected: list[Any], what: str) -> None:
    """Nobody can know whether the commit was made, so nothing that it may name is deleted."""
    for table in ("captures", "event_ticks"):
        plan = Plan("lost", pattern=commit_to(table), is_gone_after=True)
        assert not survives(store, start, expected, what, plan)[0]


def test_a_store_that_is_gone_during_an_upload(store: Store, start: Lake, expected: list[Any]) -> None:
    """The error is one line, also that of the library's own cleaning."""
    plan = Plan("lost", pattern=r"^PUT .*partNumber=", is_gone_after=True)
    assert not survives(store, start, expected, "add", plan)[0]


def test_a_file_whose_upload_is_not_confirmed(store: Store, start: Lake, expected: list[Any]) -> None:
    is_done, failed = survives(store, start, expected, "add", Plan("lost", pattern=r"^POST .*\?uploadId="))
    assert is_done and len(failed) == 1


# The requests that are tried of an add (some 90) and of a compaction (some 350).
STEP = {"add": 1 if IS_WHOLE else 29, "compact": 1 if IS_WHOLE else 97}


@pytest.mark.parametrize("is_gone_after", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("what", STEP)
def test_each_request_in_turn(store: Store, start: Lake, expected: list[Any], what: str, is_gone_after: bool) -> None:
    number, tried = 1 + STEP[what] // 2 * is_gone_after, 0
    while True:
        for fault in FAULTS if IS_WHOLE else [FAULTS[tried % len(FAULTS)]]:
            plan = Plan(fault, number, is_gone_after=is_gone_after)
            _, failed = survives(store, start, expected, what, plan)
        if not failed:
            break
        tried += 1
        number += STEP[what]
    assert tried > (50 if IS_WHOLE else 1)


def test_a_comment_is_there_once_whichever_request_fails(store: Store, start: Lake) -> None:
    """The first of a lake, which makes its table, and one more; one of which an error was told may be there, too."""

    def write(lake: Lake, text: str) -> None:
        made = Comment("", "total", None, None, "build", "1", "step", "note", text, None)
        edit(lake, "change_comments", partial(add_comment, comment=made))

    number, tried = 1, 0
    for first in (True, False):
        number = 1
        while True:
            direct, faulty = store.lake(start)
            if not first:
                write(direct, "before")
            is_done = True
            store.faults.plan(Plan(FAULTS[tried % len(FAULTS)], number))
            try:
                write(faulty, "mine")
            except WarehouseError as error:
                is_done = False
                assert str(error).startswith(direct.url) and "\n" not in str(error)
            finally:
                failed = store.faults.plan(None)
            write(Lake.at(direct.url, direct.options), "after")
            with etq.open(direct.url, storage_options=direct.options) as warehouse:
                query = "SELECT comment_id, text FROM change_comments ORDER BY ALL"
                found = warehouse.rows(query)[1]
            before = [] if first else ["before"]
            texts = [text for _, text in found]
            assert (
                texts == [*before, "mine", "after"]
                if is_done
                else texts
                in (
                    [*before, "mine", "after"],
                    [*before, "after"],
                )
            )
            assert [each for each, _ in found] == list(range(1, len(found) + 1))
            assert [
                fault for fault in check(direct.url, storage_options=direct.options) if not fault.is_left_over
            ] == []
            if not failed:
                break
            tried += 1
            number += 1 if IS_WHOLE else 4
    assert tried > 4
