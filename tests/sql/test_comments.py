"""Comments on changes: what is accepted is no regression any more, and the level of the series starts anew there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import etq
from etq.errors import EtqError, QueryError, WarehouseError
from etq.verdicts.changes import Least, Reset, changes_of
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.sampling import examples
from tests.sql.test_trends import capture
from tests.warehouses import empty_warehouse

LISTED = "SELECT what, op, verdict, last_good, first_bad, round(change_percent) FROM regressions()"
ALL = "SELECT op, first_bad, is_accepted, comment, author FROM regressions(with_accepted := true) ORDER BY position, op"


def stored(warehouse: Warehouse, scales: list[float], **labels: str) -> None:
    """A build for each scale of the op addmm, of 10 of 100 us."""
    made = [
        Labelled(f"{''.join(labels.values())}b{build}", capture(build, {"addmm": scale}), {"build": str(build), **labels})
        for build, scale in enumerate(scales, 1)
    ]  # fmt: skip
    ingest_all(warehouse, made)


@pytest.mark.long
def test_an_accepted_step_is_no_regression_and_later_ones_are_measured_from_there(warehouse: Warehouse) -> None:
    """Levels 1, 1.2 from build 16 on, and 1.5 from 31 on, a quarter above the second."""
    stored(warehouse, [1.0] * 15 + [1.2] * 15 + [1.5] * 15, model="net")
    steps = [row for row in warehouse.rows(LISTED)[1] if row[0] == "op"]
    assert steps == [("op", "addmm", "slower", "30", "31", 25.0), ("op", "addmm", "slower", "15", "16", 20.0)]
    number = warehouse.comment(
        "16", "new tokenizer", "model=net", what="op", item="addmm@0", author="ann", accepted=True
    )
    assert number == 1
    assert [row for row in warehouse.rows(LISTED)[1] if row[0] == "op"] == steps[:1]
    found = [row for row in warehouse.rows(ALL)[1] if row[0] == "addmm"]
    assert found == [("addmm", "16", True, "new tokenizer", "ann"), ("addmm", "31", False, None, None)]
    trend = warehouse.rows("SELECT label, is_accepted, comment FROM trend('op', 'addmm') WHERE p IS NOT NULL")[1]
    assert trend == [("16", True, "new tokenizer"), ("31", False, None)]
    warehouse.remove_comment(1)
    assert [row for row in warehouse.rows(LISTED)[1] if row[0] == "op"] == steps


@pytest.mark.long
def test_what_is_accepted_before_it_is_found_is_never_listed(warehouse: Warehouse) -> None:
    """A step is found once captures have followed it; who makes it knows before."""
    stored(warehouse, [1.0] * 15 + [1.3] * 2)
    warehouse.comment("16", "planned", what="all", accepted=True)
    more = [Labelled(f"later{build}", capture(build, {"addmm": 1.3}), {"build": str(build)}) for build in range(18, 33)]
    ingest_all(warehouse, more)
    assert warehouse.rows(LISTED)[1] == []
    assert [row[:3] for row in warehouse.rows(ALL)[1] if row[0] == "addmm"] == [("addmm", "16", True)]
    assert {row[2] for row in warehouse.rows(ALL)[1]} == {True}, "ops that did not change have no change"


@pytest.mark.long
def test_comments_are_on_their_own_series_and_op(warehouse: Warehouse) -> None:
    for number, device in enumerate(("a", "b")):
        made = []
        for build in range(1, 31):
            scale = {"addmm": 1.3, "add": 1.2} if build > 15 else None
            labels = {"build": str(build), "device": device, "model": "net"}
            made.append(Labelled(f"{device}{build}", capture(build + 100 * number, scale), labels))
        ingest_all(warehouse, made)
    query = "SELECT series, op FROM regressions() WHERE what = 'op' AND verdict = 'slower' ORDER BY ALL"
    every = [(f"device={device},model=net", op) for device in "ab" for op in ("add", "addmm")]
    assert warehouse.rows(query)[1] == every
    warehouse.comment("16", "wanted", "model=net,device=a", what="op", item="addmm@0", accepted=True)
    assert warehouse.rows("SELECT series FROM change_comments")[1] == [("device=a,model=net",)]
    left = [each for each in every if each != ("device=a,model=net", "addmm")]
    assert warehouse.rows(query)[1] == left
    # However series are separated, these captures are of that device and model; those of all devices are not.
    of_a = "SELECT op FROM regressions('device=a', \"by\" := 'device') WHERE what = 'op' AND verdict = 'slower'"
    assert warehouse.rows(of_a)[1] == [("add",)]
    of_both = (
        "SELECT DISTINCT op FROM regressions(\"by\" := 'model') WHERE what = 'op' AND verdict = 'slower' ORDER BY ALL"
    )
    assert warehouse.rows(of_both)[1] == [("add",), ("addmm",)]
    warehouse.comment("16", "wanted everywhere", "model=net", what="all", accepted=True)
    assert warehouse.rows(query)[1] == []


@pytest.mark.long
def test_a_comment_stays_on_its_op_when_instructions_are_numbered_anew(warehouse: Warehouse) -> None:
    """From build 31 on, another op comes first."""

    def made(build: int) -> bytes:
        random = np.random.default_rng(build)
        ops = ["other"] * (build > 30) + ["relu", "mm"]
        runs = []
        for _ in range(5):
            at, events = 0, []
            for number, op in enumerate(ops):
                length = round(20_000 * (1.3 if op == "mm" and build > 15 else 1.0) * random.normal(1, 0.005))
                events.append(kernel(op, at, at + length, number))
                at += length
            runs.append(run("Execute", *events, execute(0, at)))
        return dump(*runs)

    ingest_all(warehouse, [Labelled(f"b{build}", made(build), {"build": str(build)}) for build in range(1, 31)])
    query = "SELECT op, instruction_id FROM regressions() WHERE what = 'op' AND op = 'mm'"
    assert warehouse.rows(query)[1] == [("mm", 1)]
    warehouse.comment("16", "wanted", what="op", item="mm@1", accepted=True)
    assert warehouse.rows(query)[1] == []
    ingest_all(warehouse, [Labelled(f"b{build}", made(build), {"build": str(build)}) for build in range(31, 46)])
    assert warehouse.rows(query)[1] == []
    # Its trend has the captures in which it had another number, too, and no values of another op with this number.
    query = "SELECT count(*), min(label::INT) FILTER (WHERE is_accepted), max(p25) < 30 FROM trend('op', $item)"
    assert warehouse.rows(query, item="mm@2")[1] == [(45, 16, True)]
    assert warehouse.rows(query, item="relu@1")[1] == [(45, None, True)]
    with pytest.raises(QueryError, match="no op mm@1"):
        warehouse.rows(query, item="mm@1")


@pytest.mark.long
def test_notes_and_what_is_accepted(warehouse: Warehouse) -> None:
    """A step of 0.3, which goes back; the labels of the series have a comma and quotation marks."""
    stored(warehouse, [1.0] * 15 + [1.3] * 15 + [1.0] * 15, device='a, "b"', model="net")
    before = warehouse.rows(LISTED)[1]
    [(series,)] = warehouse.rows("SELECT DISTINCT series FROM regressions() WHERE op = 'addmm'")[1]
    # A note changes nothing, but is shown.
    warehouse.comment("16", "looking into it", series, what="op", item="addmm@0", author="bo")
    warehouse.comment("16", "found it", series, what="op", item="addmm@0", author="cy")
    assert warehouse.rows(LISTED)[1] == before
    shown = "SELECT comment, author, is_accepted FROM regressions() WHERE op = 'addmm' AND first_bad = '16'"
    assert warehouse.rows(shown)[1] == [("found it", "cy", False)]
    # A step back after an accepted one is a change of its own: without the comment, the first was reverted.
    back = ("op", "addmm", "faster", "30", "31", -23.0)
    assert [row for row in before if row[0] == "op"] == [("op", "addmm", "slower", "15", "16", 30.0)]
    reverted = "SELECT stage, reverted_at FROM regressions() WHERE op = 'addmm'"
    assert warehouse.rows(reverted)[1] == [("reverted", "31")]
    warehouse.comment("16", "wanted", series, what="all", accepted=True)
    assert {series for (series,) in warehouse.rows("SELECT series FROM change_comments")[1]} == {series}
    assert [row for row in warehouse.rows(LISTED)[1] if row[0] == "op"] == [back]
    # The comment is found at its place when its capture is gone.
    warehouse.remove('a, "b"netb16')
    assert [row[:3] for row in warehouse.rows(LISTED)[1] if row[0] == "op"] == [back[:3]]


@pytest.mark.long
def test_a_creep_is_accepted(warehouse: Warehouse) -> None:
    """By 1 % each build, which is not listed again; a step after it is."""
    growing = [1.0 + build / 100 for build in range(40)]
    stored(warehouse, [*growing, *[1.39] * 15])
    [(kind, first_bad)] = warehouse.rows("SELECT kind, first_bad FROM regressions() WHERE op = 'addmm'")[1]
    assert kind == "creep"
    warehouse.comment(first_bad, "more to do", what="op", item="addmm@0", accepted=True)
    assert warehouse.rows("SELECT kind FROM change_comments")[1] == [("creep",)]
    assert warehouse.rows("SELECT 1 FROM regressions() WHERE op = 'addmm'")[1] == []
    accepted = warehouse.rows(
        "SELECT kind, is_accepted, comment FROM regressions(with_accepted := true) WHERE op = 'addmm'"
    )
    assert accepted[1] == [("creep", True, "more to do")]


@pytest.mark.long
def test_a_creep_after_an_accepted_one_has_not_its_comment(warehouse: Warehouse) -> None:
    growing = [1.012**build for build in range(60)]
    stored(warehouse, growing[:36])
    [(first_bad,)] = warehouse.rows("SELECT first_bad FROM regressions() WHERE op = 'addmm'")[1]
    warehouse.comment(first_bad, "known", what="op", item="addmm@0", accepted=True)
    stored(warehouse, growing)
    query = "SELECT is_accepted, last_good, comment FROM regressions(with_accepted := true) WHERE op = 'addmm'"
    assert sorted(warehouse.rows(query)[1]) == [(False, first_bad, None), (True, "1", "known")]


@pytest.fixture(scope="module")
def few() -> Iterator[Warehouse]:
    """Three builds, without comments."""
    with empty_warehouse() as made:
        stored(made, [1.0] * 3, model="net")
        yield made


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("99", "x"), {}, QueryError, "no capture has build 99; etq regressions lists first_bad"),
        (("3", ""), {}, EtqError, "the text of a comment has 1 to 1,000 characters"),
        (("3", "x" * 1001), {}, EtqError, "the text of a comment has 1 to 1,000 characters"),
        (("3", "a\x1b[31m"), {}, EtqError, "has a character that can't be displayed"),
        (("3", "x"), {"author": "\u202e"}, EtqError, "the author of a comment has a character"),
        (("3", "x"), {"what": "op"}, EtqError, "name the op that changed"),
        (("3", "x"), {"what": "op", "item": "gone@7"}, QueryError, "no op gone@7 in these captures"),
        (("3", "x"), {"what": "table"}, EtqError, "'table' is not total, op, module, metric, all"),
        (("3", "x", "build>=3"), {}, EtqError, "a comment is on captures with labels, KEY=VALUE,KEY=VALUE"),
        (("3", "x", "@latest"), {}, EtqError, "a comment is on captures with labels"),
        (("3", "x", "b3"), {}, EtqError, "a comment is on captures with labels"),
        (("3", "x", "model=none"), {}, QueryError, "none"),
    ],
)  # fmt: skip
def test_errors(
    few: Warehouse, arguments: tuple[str, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        few.comment(*arguments, **options, accepted=True)
    assert few.rows("FROM change_comments")[1] == []


@pytest.mark.long
def test_what_cannot_be_changed(few: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(EtqError, match="no comment has the number 4; etq comment lists them"):
        few.remove_comment(4)
    with etq.open(tmp_path / "lab.duckdb") as made:
        stored(made, [1.0] * 3)
    with etq.open(tmp_path / "lab.duckdb", read_only=True) as reader, pytest.raises(WarehouseError, match="read-only"):
        reader.comment("3", "x", accepted=True)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 79), max_size=3), st.integers(0, 3))
@example(0, [40], 1)
def test_a_reset_makes_series_of_their_own(seed: int, places: list[int], steps: int) -> None:
    """What is found on each side of resets is what is found in these parts alone."""
    random = np.random.default_rng(seed)
    values = random.normal(0, 0.01, 80)
    for _ in range(steps):
        values[random.integers(5, 75) :] += random.choice([-0.3, 0.2, 0.1])
    [(found, _)] = changes_of([values], [Least(0.03)], [[Reset(place) for place in places]])
    ends = [0, *sorted({place for place in places if place > 0}), 80]
    # Together, as a product of matrices rounds otherwise than one of vectors.
    parts = changes_of([values[first:end] for first, end in pairwise(ends)], [Least(0.03)] * (len(ends) - 1))
    expected = [
        (first + change.place, change.step, change.p, change.is_creep)
        for first, part in zip(ends, parts, strict=False)
        for change in part.changes
    ]
    assert [(each.place, each.step, each.p, each.is_creep) for each in found if not each.is_accepted] == expected
    assert {each.place for each in found if each.is_accepted} <= {*ends[1:-1]}
    assert changes_of([values[:2]], [Least(0.03)], [[Reset(1)]])[0].changes == []
