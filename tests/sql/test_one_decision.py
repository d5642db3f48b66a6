"""`trend` and `regressions` are two views of one decision, of drawn series: they have the same changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.sampling import IS_WHOLE
from tests.warehouses import empty_warehouse

# Their times in ns: the tiny op is 0.03 % of the total.
OPS = (("mm", 200_000), ("permute", 30_000), ("permute", 40_000), ("add", 50_000), ("relu", 60_000), ("tiny", 100))
BUILDS = 48
MODELS = ("a", "b")


@pytest.fixture(scope="module")
def drawn() -> Iterator[Warehouse]:
    """Two series, in which every fourth build has two captures. The times of ops are replaced by each test."""
    made = []
    for model in MODELS:
        for place in range(BUILDS + BUILDS // 4):
            build, at, events = place if place < BUILDS else 4 * (place - BUILDS), 0, []
            for number, (op, length) in enumerate(OPS):
                events.append(kernel(op, at, at + length, number))
                at += length
            content = dump(run("Execute", *events, execute(0, at + 10 * place + (model == "b"))))
            made.append(Labelled(f"{model}{place}", content, {"model": model, "build": str(build)}))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, made)
        yield warehouse


def shape_of(random: np.random.Generator) -> Any:
    """The logarithms of an op's times in each build: noise, with steps, growth, a bump, states, or none of these."""
    t, noise = np.arange(BUILDS), random.choice([0.003, 0.01, 0.02])
    values = random.normal(0, noise, BUILDS)
    size = random.choice([-1, 1]) * np.log1p(random.choice([0.02, 0.03, 0.035, 0.05, 0.1, 0.3, 2.0]))
    first, last = np.sort(random.integers(1, BUILDS, 2))
    match random.integers(7):
        case 0 | 1:
            values += size * (t >= first)
        case 2:
            values += size * ((t >= first) & (t < last))
        case 3:
            values += size * np.clip((t - first) / BUILDS, 0, 1)
        case 4:
            values += size * (random.random(BUILDS) < 0.4)
        case 5:
            values += size * (t >= first) + size * np.maximum(0, t - last) / BUILDS
    return values


def replace_times(warehouse: Warehouse, random: np.random.Generator) -> None:
    """Draw the times of all ops; the total is their sum."""
    connection = warehouse.connection
    columns = "t.capture_id, t.op_index, t.instruction_id, l.value, b.value"
    rows = connection.execute(
        f"SELECT {columns} FROM op_times AS t JOIN labels AS l ON l.capture_id = t.capture_id AND l.key = 'model' "
        "JOIN labels AS b ON b.capture_id = t.capture_id AND b.key = 'build' WHERE t.phase IS NULL"
    ).fetchall()
    shapes = {(model, number): shape_of(random) for model in MODELS for number in range(len(OPS))}
    times: dict[tuple[int, int], float] = {}
    for capture, op_index, number, model, build in rows:
        if op_index:
            value = shapes[model, number][int(build)] + random.normal(0, 0.002)
            times[capture, op_index] = OPS[number][1] * float(np.exp(value))
    for capture, op_index, *_ in rows:
        if not op_index:
            times[capture, 0] = sum(time for (of, at), time in times.items() if of == capture and at)
    captures, indexes = zip(*times, strict=True)
    table = pa.table({"capture_id": captures, "op_index": indexes, "p25": [*times.values()]})
    connection.register("drawn_times", table)
    connection.execute(
        "UPDATE op_times SET p25 = d.p25 FROM drawn_times AS d WHERE d.capture_id = op_times.capture_id "
        "AND d.op_index = op_times.op_index"
    )
    connection.unregister("drawn_times")


COLUMNS = ("stage", "kind", "last_good", "reverted_at", "builds_after", "base", "new")
NUMBERS = ("change_percent", "p")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6 if IS_WHOLE else 3))
def test_two_views_of_one_decision(drawn: Warehouse, seed: int) -> None:
    random = np.random.default_rng(seed)
    replace_times(drawn, random)
    options: dict[str, Any] = {
        "alpha": float(random.choice([0.001, 0.05])),
        "min_effect": float(random.choice([0.03, 0.06])),
    }
    given = ", ".join(f"{name} := {value}" for name, value in options.items())
    columns = f"series, first_bad, {', '.join(COLUMNS)}, {', '.join(NUMBERS)}"
    listed = drawn.rows(
        f"SELECT what, op, instruction_id, {columns} FROM regressions({given}) WHERE instances = 1 OR what = 'instance'"
    )[1]
    expected = {
        (None if what == "total" else f"{op}@{number}", *rest[:-2]): rest[-2:] for what, op, number, *rest in listed
    }
    found = {}
    for item in (None, *(f"{op}@{number}" for number, (op, _) in enumerate(OPS))):
        call = f"trend({', '.join([*(['what := $what', 'item := $item'] if item else []), given])})"
        query = f"SELECT {columns.replace('first_bad', 'label AS first_bad')} FROM {call} WHERE stage <> 'returned'"
        for row in drawn.rows(query, **({"what": "op", "item": item} if item else {}))[1]:
            found[item, *row[:-2]] = row[-2:]
    assert {*found} == {*expected}
    for key, numbers in found.items():
        assert numbers == pytest.approx(expected[key], rel=1e-9), key
    assert all(not (key[0] or "").startswith("tiny") or abs(size) > 100 for key, (size, _) in found.items())


# What is copied of a capture, with what its copies differ by.
COPIED = {
    "captures": "t.capture_id + n AS capture_id, 'c' || n AS name, sha256(n::VARCHAR) AS sha256",
    "labels": "t.capture_id + n AS capture_id, CASE t.key WHEN 'build' THEN n::VARCHAR ELSE t.value END AS value",
    "op_times": "t.capture_id + n AS capture_id, "
    "t.p25 * CASE WHEN n >= 700 AND (t.kind = 'total' OR t.item LIKE '%|mm|%') THEN 1.2 ELSE 1 END AS p25",
    "capture_ops": "t.capture_id + n AS capture_id",
}


@pytest.mark.long
@pytest.mark.parametrize("query", ["FROM regressions()", "FROM trend('op', 'mm@0')"])
def test_no_capture_is_joined_with_all_others(query: str) -> None:
    """Rows between operators are as many as captures have ops, not as pairs of captures."""
    captures = 1000
    # Lengths that are no multiples of a clock's step.
    events = [kernel(op, 10 * number, 47 * number + length, number) for number, (op, length) in enumerate(OPS)]
    one = Labelled("c", dump(run("Execute", *events, execute(0, 400_000))), {"model": "a", "build": "0"})
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [one])
        for table, replaced in COPIED.items():
            warehouse.connection.execute(
                f"INSERT INTO {table} SELECT t.* REPLACE ({replaced}) FROM {table} AS t, range(1, {captures}) AS r(n)"
            )
        explained = f"EXPLAIN (ANALYZE, FORMAT json) {query}"
        [(_, plan)] = warehouse.rows(explained)[1]
        found = [*rows_between(json.loads(plan)["operator"][0])]
        assert warehouse.rows(f"SELECT count(*) > 0 FROM ({query}) WHERE stage = 'kept'")[1] == [(True,)]
    assert captures <= max(found) <= 3 * captures * len(OPS)


def rows_between(node: dict[str, Any]) -> Iterator[int]:
    yield node["intermediate_rows"]
    for child in node.get("children", []):
        yield from rows_between(child)
