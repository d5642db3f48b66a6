"""Views of programs: small ones checked by eye, and a real one computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_csv
from tests.conftest import CAPTURES
from tests.program_builders import (
    Table,
    delegate,
    delegate_call,
    jump_false,
    kernel,
    method,
    move,
    named,
    program,
    subsegments,
    tensor,
    tensor_list,
)
from tests.warehouses import empty_warehouse

# Six floats in, three instructions; value 1 ends where 3 begins.
CHAIN = method(
    "forward", [tensor(6, at=0), tensor(2, at=24), tensor(4, at=32), tensor(1, at=24), tensor(5, constant=1)],
    [kernel("aten::mul.out", 0, 4, 1), kernel("aten::exp.out", 1, 2), kernel("aten::sum.out", 2, 3)], inputs=[0],
    outputs=[3], buffers=[0, 48],
)  # fmt: skip


def assert_of_programs(query: str, expected: str, data: bytes, **others: bytes) -> None:
    """The query's answer on a program `test` (and others, by name) is this CSV."""
    with empty_warehouse() as warehouse:
        for name, each in {"test": data, **others}.items():
            warehouse.ingest_program(each, name=name)
        assert_csv(warehouse, query, expected)


def of(values: list[Table], instructions: list[Any], **given: Any) -> bytes:
    return program(method("forward", values, instructions, **given), blobs=[b"blob"])


# Of each program: the first and last instruction of its values, and the peak's bytes, instruction and op.
LIVES: dict[str, tuple[bytes, list[tuple[int | None, int | None]], tuple[int, int, str]]] = {
    # 0: the input and value 1, 24 + 8; 1: values 1 and 2, 8 + 16; 2: values 2 and 3, 16 + 4.
    "a chain": (program(CHAIN), [(0, 0), (0, 1), (1, 2), (2, 2)], (32, 0, "aten::mul")),
    # Nothing uses value 2. Value 3 has a name, so it outlives a run, but it has the place of value 1.
    "inputs live from the start, outputs to the end": (
        of(
            [tensor(2, at=0), tensor(1, at=8), tensor(1, at=16), tensor(1, at=8, name="state")],
            [delegate_call(0, 1), kernel("aten::a", 1), kernel("aten::b", 0)],
            inputs=[0],
            outputs=[1],
            delegates=[delegate("Npu", 0)],
        ),
        [(0, 2), (0, 2), (None, None), (0, 2)],
        (12, 0, "Npu"),
    ),
    "tensors in lists are used where the list is": (
        of(
            [tensor(1, at=0), tensor(1, at=4), tensor_list(0, 1)],
            [kernel("aten::a", 0), kernel("aten::b", 1), kernel("aten::cat", 2)],
        ),
        [(0, 2), (1, 2)],
        (8, 1, "aten::b"),
    ),
    # Value 0 is read at 1, in a loop of 1 to 2: the next round reads it again. Value 1 begins in the loop.
    "a loop keeps what was there before it": (
        of(
            [tensor(1, at=0), tensor(1, at=4), tensor(1, type=11)],
            [kernel("aten::a", 0), kernel("aten::b", 0, 1), kernel("aten::c", 1), jump_false(2, 1), kernel("aten::d")],
        ),
        [(0, 3), (1, 2)],
        (8, 1, "aten::b"),
    ),
    "moved values live as long as their target": (
        of([tensor(1, at=0), tensor(1, at=4)], [kernel("aten::a", 0), move(0, 1), kernel("aten::b", 1)]),
        [(0, 2), (1, 2)],
        (8, 1, "move"),
    ),
}


@pytest.mark.parametrize("what", LIVES)
def test_lives_and_peaks(warehouse: Warehouse, what: str) -> None:
    data, lives, peak = LIVES[what]
    warehouse.ingest_program(data, name="test")
    rows = warehouse.rows("FROM planned_memory('test') SELECT first_instruction, last_instruction, is_live_at_peak, "
                          "peak_bytes, peak_instruction, peak_op ORDER BY value_index")[1]  # fmt: skip
    assert [row[:2] for row in rows] == lives
    assert {row[3:] for row in rows} == {peak}
    assert [row[2] for row in rows] == [
        first is not None and last is not None and first <= peak[1] <= last for first, last in lives
    ]


PARTS = program(
    method("a", [], delegates=[delegate("Npu", 0), delegate("Npu", 2, in_segment=True)]),
    method("b", [], delegates=[delegate("Npu", 2, in_segment=True)]),
    constants=[b"", b"1234"],
    blobs=[b"blob"],
    segments=[b"c" * 20, b"m" * 8, b"right", b"weights", b"?"],
    fields={5: subsegments(0, 0, 0, 16), 6: [subsegments(1, 0, 0)], 7: [named("w", 3), named("v", 3)]},
)


def test_parts_of_a_file() -> None:
    assert_of_programs(
        "SELECT part, item, methods, number, bytes FROM program_size('test') WHERE part <> 'program'",
        """
        part,item,methods,number,bytes
        constants,,,3,24
        delegate,Npu,"[""a""]",1,4
        delegate,Npu,"[""a"",""b""]",1,5
        mutable data,,,1,8
        named data,"v, w",,1,7
        segment,,,1,1
        padding,,,1,{padding}
        """.replace("{padding}", str(padding(PARTS))),
        PARTS,
    )
    assert_of_programs(
        "SELECT sum(bytes)::BIGINT AS bytes, round(sum(share_percent), 9) AS share FROM program_size('test')",
        f"bytes,share\n{len(PARTS)},100.0\n",
        PARTS,
    )


def padding(data: bytes) -> int:
    """The bytes outside of the FlatBuffers part, whose size is in the header, and of the 41 bytes of segments."""
    return len(data) - int.from_bytes(data[16:24], "little") - 41


def test_what_changed_between_two_programs() -> None:
    base = program(
        method("forward", [], [kernel("aten::add.out"), kernel("aten::mul.out"), kernel("aten::mul.out")], buffers=[0, 64]),
        constants=[b"1234"],
    )  # fmt: skip
    new = program(
        method(
            "forward", [], [kernel("aten::add.out"), kernel("aten::mul.out"), delegate_call(0)],
            delegates=[delegate("Npu", 0)], buffers=[0, 32, 8],
        ),
        method("warm", [], [kernel("aten::mul.out")], buffers=[0]),
        constants=[b"1234"],
        blobs=[b"blob"],
    )  # fmt: skip
    query = """
        SELECT kind, method, item, change, base_number AS n, new_number AS m, number_difference AS d,
            base_bytes AS b, new_bytes AS c, bytes_difference AS e
        FROM compare_programs({}) WHERE item <> 'program'"""
    assert_of_programs(
        query.format("'test', 'other'"),
        """
        kind,method,item,change,n,m,d,b,c,e
        part,,constants,same,1,1,0,4,4,0
        part,,delegate,added,0,1,1,0,4,4
        part,,padding,same,1,1,0,0,0,0
        memory,forward,1,changed,1,1,0,64,32,-32
        memory,forward,2,added,0,1,1,0,8,8
        delegate,forward,Npu,added,0,1,1,0,4,4
        op,forward,aten::add.out,same,1,1,0,,,
        op,forward,aten::mul.out,changed,2,1,-1,,,
        op,warm,aten::mul.out,added,0,1,1,,,
        """,
        base,
        other=new,
    )
    assert_of_programs(
        "SELECT item, change FROM compare_programs('other', 'test') WHERE change = 'removed' AND method = 'warm'",
        "item,change\naten::mul.out,removed\n",
        base,
        other=new,
    )


@pytest.fixture(scope="module")
def programs() -> Iterator[Warehouse]:
    """All captured programs; the mlp's is there once, under the name of the first of its copies."""
    with empty_warehouse() as warehouse:
        for path in sorted(CAPTURES.glob("*/*.pte")):
            warehouse.ingest_program(path)
        yield warehouse


@pytest.mark.long
def test_every_captured_program(programs: Warehouse) -> None:
    """Its parts add up to the file; it is the same as itself; the argument of the views may be a column."""
    rows = programs.rows("""
        SELECT p.name, p.size_bytes, sum(s.bytes)::BIGINT, min(s.bytes)
        FROM programs AS p, LATERAL (FROM program_size(p.name)) AS s
        GROUP BY ALL""")[1]
    assert len(rows) == 14
    assert [row for row in rows if row[1] != row[2] or row[3] < 0] == []
    same = "SELECT DISTINCT change FROM programs AS p, LATERAL (FROM compare_programs(p.sha256, p.sha256)) AS v"
    assert programs.rows(same)[1] == [("same",)]
    for view in ("program_size(p.name)", "planned_memory(p.name)", "compare_programs('mlp', p.sha256)"):
        together = programs.rows(f"SELECT p.name, v.* FROM programs AS p, LATERAL (FROM {view}) AS v")[1]
        for name in ("mlp_xnn", "cond"):
            alone = programs.rows("FROM " + view.replace("p.name", f"'{name}'").replace("p.sha256", f"'{name}'"))[1]
            assert sorted([row[1:] for row in together if row[0] == name], key=repr) == sorted(alone, key=repr) != []


def test_a_program_is_named_by_name_or_hash(programs: Warehouse) -> None:
    [(sha256,)] = programs.rows("SELECT sha256 FROM programs WHERE name = 'twins'")[1]
    by_name = programs.program_size("twins").fetchall()
    assert programs.program_size(sha256[:6].upper()).fetchall() == by_name
    for asked, message in {
        "twin": "no program matches twin; the nearest is twins$",
        sha256[:3]: "no program matches",
    }.items():
        with pytest.raises(QueryError, match=message):
            programs.program_size(asked).fetchall()
    with pytest.raises(QueryError, match="unknown method encod; there are decode, encode"):
        programs.planned_memory("multimethod", method="encod").fetchall()
    with (
        empty_warehouse() as empty,
        pytest.raises(QueryError, match="no program matches x; the warehouse has no programs"),
    ):
        empty.program_size("x").fetchall()
