"""Selectors: the captures that labels, @latest and @previous select, against a model in Python."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq import catalog
from etq.annotations.labels import check_labels
from etq.errors import ArgumentError, QueryError
from etq.selectors import selector_of
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, run
from tests.sampling import examples
from tests.warehouses import empty_warehouse

# Before all ingests, the times of which stand for unknown ones.
START = datetime(2024, 5, 1)


def made(number: int, labels: dict[str, str], day: int | None = None) -> Labelled:
    """A capture `c<number>`, measured on that day of May 2024."""
    moment = None if day is None else START + timedelta(days=day - 1)
    return Labelled(f"c{number}", dump(run("Execute", execute(0, number + 1))), labels, moment)


def matches(warehouse: Warehouse, selector: str) -> list[str]:
    query = "FROM _matching_captures($selector) AS m SELECT m.name ORDER BY 1"
    return [name for (name,) in warehouse.rows(query, selector=selector)[1]]


# Of mlp: on day 3, on a, day 1 on b, and undated, which was ingested years later; of cnn on day 2.
LAB = [
    made(0, {"model": "mlp", "device": "a"}, day=3),
    made(1, {"model": "mlp", "device": "b", "build": "10"}, day=1),
    made(2, {"model": "mlp", "build": "9"}),
    made(3, {"model": "cnn", "note": 'half, "baked"'}, day=2),
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """The captures of `LAB`; not to be written to."""
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, LAB)
        yield warehouse


SELECTED: dict[str, str] = {
    "@latest": "c2", "@previous": "c0", "model=cnn,@latest": "c3", "device=b,@latest": "c1",
    "@previous,model=mlp": "c0", "model=mlp,build=9,@latest": "c2", "model=cnn,@previous": "",
    "device=b,model=mlp,device=b": "c1", "model=mlp,device=c": "", 'note=half, "baked"': "c3",
    'note="half, ""baked""",model=cnn': "c3",
    # Numbers are compared as numbers, other labels as texts.
    "build<10": "c2", "build<=10": "c1 c2", "build>=9,build<10": "c2", "model=mlp,build>9.5": "c1",
    "model>cnn,device<=a": "c0", "build>9,device=a": "",
    # One of several values, and others: of captures that have the label.
    "device=a|b": "c0 c1", "device=a|c": "c0", "device!=a": "c1", "device!=a|b": "", "device!=c": "c0 c1",
    "model=mlp,build!=9": "c1", "model!=mlp,model!=cnn": "", "device!=a,@latest": "c1", "model=cnn|mlp,build>=10": "c1",
    'note!="half, ""baked"""': "", 'note=other|"half, ""baked"""|more,model=cnn': "c3", 'device="a|b"': "",
    # One label meets several parts.
    "build>=9,build=10": "c1", "build=9,build=10": "", 'model="mlp",model=mlp,model<n': "c0 c1 c2", "=": "",
    "model=": "",
    # Of days 3, 1 and 2, and unknown; what a time leaves out is included.
    "captured_at>=2024-05-02": "c0 c3", "captured_at>2024-05-02": "c0", "captured_at<2024-05-02": "c1",
    "captured_at<=2024-05-02": "c1 c3", "captured_at>2024-05-01T23:59": "c0 c3",
    "captured_at<2024-05-02T00:00:00.000001Z": "c1 c3", "captured_at<2024-05-02 00:00:00Z": "c1",
    "captured_at<=2024-05": "c0 c1 c3", "captured_at>2024": "",
    "model=mlp,captured_at>=2024-05-01,captured_at<2024-05-03": "c1", "captured_at<2024-05-03,@latest": "c3",
    "captured_at>2024-05-01,@previous": "c3",
    # The time of ingest stands for an unknown one.
    "since=1h": "c2", "since=52w,model=mlp,since=24h": "c2", "since=0d": "", "since=7x": "", "since=9999999h": "",
    "captured_at>yesterday": "", "captured_at>": "", "captured_at=2024-05-02": "",
}  # fmt: skip
NOT_THEN = ": none was recorded then; times are written captured_at>=2026-11-15, "
UNSELECTED: dict[str, str] = {
    **{
        each: f"{each} is not a selector: it takes one of @latest, @previous and @NAME, a view"
        for each in ("@oldest", "@latest,@previous", "model=mlp,@", "@latest@")
    },
    **{
        each: f"no capture matches {each}{NOT_THEN}"
        for each in ("captured_at>yesterday", "captured_at!=2024-05-02", "captured_at>=2024-05-01T14:00+02:00", "model=mlp,since=7x", "captured_at>2024-06")
    },
    "device!=a|b": "no capture matches device!=a|b: none has all of these labels",
    "devcie!=a": "no capture matches devcie!=a: no label is named 'devcie'; the nearest is device",
    "device=c|d": "no capture matches device=c|d: none has device=c; values are a, b",
    'since="7d"': "no capture matches since=\"7d\": no label is named 'since'",
    "bulid<3": "no capture matches bulid<3: no label is named 'bulid'; the nearest is build",
    "modle=mlp,since=7d": "no capture matches modle=mlp,since=7d: no label is named 'modle'; the nearest is model",
    "model=cn,captured_at>2024": "no capture matches model=cn,captured_at>2024: none has model=cn; the nearest is cnn",
}  # fmt: skip


@pytest.mark.long
def test_selectors(lab: Warehouse) -> None:
    assert {selector: " ".join(matches(lab, selector)) for selector in SELECTED} == SELECTED
    # Labels are shown as selectors take them.
    shown = lab.rows("SELECT s.labels FROM capture_summary AS s WHERE s.name = 'c3'")[1]
    assert shown == [('model=cnn, note="half, ""baked"""',)]


@pytest.mark.long
def test_errors(lab: Warehouse) -> None:
    for selector, message in UNSELECTED.items():
        with pytest.raises(QueryError) as raised:
            lab.capture(selector)
        assert str(raised.value).startswith(message)
    with empty_warehouse() as warehouse:
        with pytest.raises(etq.QueryError, match="^no capture matches a=b; the warehouse has no captures$"):
            warehouse.capture("a=b")
        ingest_all(warehouse, [made(0, {})])
        with pytest.raises(etq.QueryError, match="no capture matches @previous; there is c0"):
            warehouse.capture("@previous")
        ingest_all(warehouse, [made(1, {"build": "7"})])
        for query, message in (
            ("trend(\"by\" := 'soc')", "no capture has a label soc to separate series by; label is build"),
            (
                "outliers('c1', \"by\" := 'soc')",
                "no capture of c1 has a label soc; label is build; etq label CAPTURE soc=VALUE sets it",
            ),
        ):
            with pytest.raises(etq.QueryError) as raised:
                warehouse.sql(f"FROM {query}").fetchall()
            assert str(raised.value).endswith(message)
        for selector, message in (("soc=1", "named 'soc'; label is build"), ("build=x", "has build=x; value is 7")):
            with pytest.raises(etq.QueryError, match=f"{message}$"):
                warehouse.capture(selector)


def test_times_relative_to_now_and_labels_that_look_like_times(warehouse: Warehouse) -> None:
    today = (datetime.now(UTC).replace(tzinfo=None) - START).days + 1
    labels = {"since": "7d"}
    ingest_all(warehouse, [made(days, labels if days > 6 else {}, today - days) for days in (0, 6, 8, 20, 22)])
    assert [matches(warehouse, f"since={text}") for text in ("48h", "7d", "3w")] == [
        ["c0"], ["c0", "c6"], ["c0", "c20", "c6", "c8"],
    ]  # fmt: skip
    # In quotation marks, it is a label.
    assert matches(warehouse, 'since="7d"') == ["c20", "c22", "c8"]
    assert matches(warehouse, 'since="7d",since=10d') == ["c8"]


def test_selectors_are_columns_too(lab: Warehouse) -> None:
    asked = """SELECT v.selector, o.total FROM (VALUES ('model=mlp,@latest'), ('@previous')) AS v (selector),
        LATERAL (FROM op_totals(v.selector, unit := 'ns')) AS o ORDER BY ALL"""
    assert lab.rows(asked)[1] == [("@previous", 1), ("model=mlp,@latest", 3)]


@pytest.mark.long
@pytest.mark.parametrize(
    "selector",
    ["a" * 60_000, "a=" * 20_000, "=" * 40_000 + "\n", "captured_at>2" + "0" * 40_000, "since=1," * 9_000],
    ids=["name", "parts", "without an end", "time", "times"],
)
def test_errors_about_long_selectors_are_short(warehouse: Warehouse, selector: str) -> None:
    """Nor do they take minutes, as they did."""
    ingest_all(warehouse, [made(0, {"build": "1"})])
    warehouse.connection.execute("UPDATE captures SET name = '=' || repeat('a', 10000)")
    with pytest.raises(etq.QueryError, match="^no capture matches .{100,800}$"):
        warehouse.capture(selector)


NUMBERS = st.sampled_from(["1", "2", "10", "9a", "01"])
OPERATORS = {
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
FEW_KEYS = st.sampled_from(["a", "b"])
AGES = {"7d": 7, "48h": 2, "3w": 21}
SINCE = st.tuples(st.just("since"), st.just("=") | st.just('="'), st.sampled_from([*AGES]))
PART = st.tuples(FEW_KEYS, st.sampled_from([*OPERATORS, '="']), NUMBERS) | SINCE
PARTS = st.tuples(SINCE) | st.lists(PART, min_size=1, max_size=3)
LABELS = st.fixed_dictionaries({"a": NUMBERS}, optional={"b": NUMBERS, "since": st.sampled_from([*AGES])})
LABELLED = st.lists(LABELS, min_size=10, max_size=10)


def order(value: str) -> tuple[bool, float, str]:
    """Numbers before other texts, numbers that are equal as texts."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value


@pytest.fixture(scope="module")
def ten() -> Iterator[Warehouse]:
    """Captures c0 to c9, whose labels a test may replace."""
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, [made(number, {}) for number in range(10)])
        yield warehouse


@pytest.mark.long
@examples(200, few=33)
@given(labelled=LABELLED, parts=PARTS)
def test_each_part_of_a_selector_is_met(
    ten: Warehouse, labelled: list[dict[str, str]], parts: list[tuple[str, str, str]]
) -> None:
    """Capture c3 was measured three and a half days ago, and so on. Without quotation marks, since is about that."""

    def meets(number: int, labels: dict[str, str], key: str, sign: str, value: str) -> bool:
        if (key, sign) == ("since", "="):
            return number + 0.5 <= AGES[value]
        return key in labels and OPERATORS[sign.rstrip('"')](order(labels[key]), order(value))

    values = ", ".join(
        f"({number + 1}, '{key}', '{value}')" for number, labels in enumerate(labelled) for key, value in labels.items()
    )
    ten.connection.execute(f"DELETE FROM labels; INSERT INTO labels VALUES {values}")
    ten.connection.execute(
        "UPDATE captures SET captured_at = make_timestamp(epoch_us(now())) - to_hours(24 * capture_id - 12)"
    )
    found = matches(ten, ",".join(key + sign + value + sign[-1:].strip("<>=") for key, sign, value in parts))
    expected = [number for number, labels in enumerate(labelled) if all(meets(number, labels, *part) for part in parts)]
    assert found == [f"c{number}" for number in expected]


# Characters that selectors have a meaning for, in keys and values, and what would be a time.
KEYS = ["captured", "since7", "a|b", "!a", "a!b", "job", "a b", "latest"]
VALUES = st.one_of(
    st.sampled_from(["7d", '"7d"', "", "@latest", "a|b", "x,b=y", 'x,since="7d"', "a=b", "=", '"', "!=1", ">2024"]),
    st.text(st.sampled_from(',="|<>!@ a7d'), max_size=6),
)
WRITTEN = st.fixed_dictionaries({}, optional={"since": st.just("7d") | VALUES} | dict.fromkeys(KEYS, VALUES))


def test_a_space_at_an_end_is_quoted(warehouse: Warehouse) -> None:
    """Forms of pages drop it otherwise."""
    labels = {"a": "x ", "b": " x", "c": "x y"}
    [(written,)] = warehouse.rows(
        "SELECT string_agg(k.key || '=' || _selector_value(k.key, k.value), ',' ORDER BY k.key) "
        "FROM (SELECT unnest($keys) AS key, unnest($values) AS value) AS k",
        keys=[*labels],
        values=[*labels.values()],
    )[1]
    assert written == selector_of(labels) == 'a="x ",b=" x",c=x y'


@pytest.mark.long
@examples(300, few=50)
@given(labelled=st.lists(WRITTEN, min_size=10, max_size=10), data=st.data())
def test_written_selectors_read_back(ten: Warehouse, labelled: list[dict[str, str]], data: st.DataObject) -> None:
    """Those of Python and of SQL choose the captures that have these labels, and no others; also one of some values."""
    for labels in labelled:
        check_labels(labels)
    given = [pair for labels in labelled for pair in labels.items()]
    query = """
        SELECT concat(g.key, '=', _selector_value(g.key, g.value))
        FROM (SELECT unnest($keys::VARCHAR[]) AS key, unnest($values::VARCHAR[]) AS value) AS g
    """
    written = ten.rows(query, keys=[key for key, _ in given], values=[value for _, value in given])[1]
    assert written == [(selector_of({key: value}),) for key, value in given]
    labelled = [{**labels, "job": labels.get("job", "ddp")} for labels in labelled]
    stored = [(number, *pair) for number, labels in enumerate(labelled, 1) for pair in labels.items()]
    ten.connection.execute("DELETE FROM labels")
    ten.connection.execute(
        "INSERT INTO labels SELECT unnest(?), unnest(?), unnest(?)", [*map(list, zip(*stored, strict=True))]
    )
    chosen = data.draw(st.sampled_from(labelled))
    expected = [f"c{number}" for number, labels in enumerate(labelled) if chosen.items() <= labels.items()]
    assert matches(ten, selector_of(chosen)) == expected
    [key, *_] = chosen
    values = sorted({labels[key] for labels in labelled if key in labels})[:2]
    [(text,)] = ten.rows("SELECT _one_of_values($key, $values::VARCHAR[])", key=key, values=values)[1]
    assert matches(ten, text) == [f"c{n}" for n, labels in enumerate(labelled) if labels.get(key) in values]
    others = text.replace("=", "!=", 1)
    assert matches(ten, others) == [
        f"c{n}" for n, labels in enumerate(labelled) if labels.get(key, values[0]) not in values
    ]


def test_a_label_is_chosen_literally_where_nothing_else_is_meant(ten: Warehouse) -> None:
    ten.connection.execute("DELETE FROM labels; INSERT INTO labels VALUES (1, 'a', 'x|y'), (2, 'a', 'x,b=y')")
    assert [matches(ten, text) for text in ("a=x|y", "a=x,b=y")] == [["c0"], ["c1"]]
    ten.connection.execute("INSERT INTO labels VALUES (3, 'a', 'x'), (3, 'b', 'y')")
    assert [matches(ten, text) for text in ("a=x|y", "a=x,b=y")] == [["c2"], ["c2"]]


def test_groups(lab: Warehouse) -> None:
    def groups(by: str, *selectors: str) -> list[Any]:
        rows = lab.capture_groups(by, **({"selectors": list(selectors)} if selectors else {})).fetchall()
        return [(*row[:3], *(each and each.day for each in row[3:5]), row[5]) for row in rows]

    assert groups("model") == [("cnn", 1, 1, 2, 2, 0), ("mlp", 3, 3, 1, 3, 1)]
    assert groups("device") == [("a", 1, 1, 3, 3, 0), ("b", 1, 1, 1, 1, 0), (None, 2, 2, 2, 2, 1)]
    assert groups("device", "build=10", "model=mlp,@previous", "device=a") == [
        ("a", 1, 1, 3, 3, 0),
        ("b", 1, 1, 1, 1, 0),
    ]
    assert groups("device", "build=10", "@latest") == [("b", 1, 1, 1, 1, 0), (None, 1, 1, None, None, 1)]


def test_labels_are_set_and_taken_away(warehouse: Warehouse) -> None:
    lab = warehouse
    ingest_all(lab, LAB)
    assert lab.label("c0", device="z", build="") == {
        "build": "", "captured_at": "2024-05-03T00:00:00.000000Z", "device": "z", "model": "mlp",
    }  # fmt: skip
    assert lab.label("c0", device=None, nothing=None, captured_at=None) == {"build": "", "model": "mlp"}
    assert lab.label("c0", capture="yes", **{"soc-rev": "ü=2"})["capture"] == "yes"
    assert lab.capture("soc-rev=ü=2").name == "c0"
    assert lab.label("c0", captured_at="2026-05-01T14:00:00+02:00")["captured_at"] == "2026-05-01T12:00:00.000000Z"
    moment = lab.rows("SELECT c.captured_at FROM captures AS c WHERE c.name = 'c0'")[1][0][0]
    assert moment.replace(tzinfo=UTC) == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert lab.rows("SELECT count(*) FROM labels AS l WHERE l.key = 'captured_at'")[1] == [(0,)]


def test_invalid_labels_are_refused(lab: Warehouse) -> None:
    for key, value, message in (
        ("a=b", "x", "it has '=', which selectors can't contain"), ("a,b", "x", "it has ','"),
        ('a"b', "x", "it has '\"'"), ("@a", "x", "it has '@'"), ("a\nb", "x", r"it has '\\n'"),
        ("a<b", "x", "it has '<'"), ("a>", "x", "it has '>'"), ("a!", "x", "it ends with '!', which selectors read as !="),
        ("", "x", "it must not be empty"), (" a", "x", "nor begin or end with a space"),
        ("a", "x\ny", r"is not a value; it has the control character '\\n'"),
        ("a", "\ud800", "is not a value; it has the control character"), ("a", 3, "key and value must be texts"),
        ("captured_at", "yesterday", "captured_at 'yesterday' is not a time; write 2026-05-01,"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=message):
            lab.label("c0", kept="no", **{key: value})  # type: ignore[arg-type]
    assert "kept" not in lab.label("c0")


OF_A_CAPTURE = [
    each
    for each in catalog.public_objects()
    if each.kind == "table macro" and each.parameters and each.parameters[0].name == "capture"
]


@pytest.fixture(scope="module")
def empty_captures() -> Iterator[Warehouse]:
    """Two captures whose runs have no execute, and one whose events were pruned."""
    with empty_warehouse() as warehouse:
        made = [Labelled(name, dump(run(name)), {"kind": "empty"}) for name in ("empty", "other")]
        *_, pruned = ingest_all(warehouse, [*made, ("pruned", dump(run("Execute", execute(0, 1))))])
        warehouse.connection.execute(
            "INSERT INTO findings (capture_id, rule, detail) VALUES (?, 'events pruned', '')", [pruned.capture_id]
        )
        yield warehouse


SOME = ("op_totals", "time_tree", "critical_path", "metric_values")


@pytest.mark.long
@pytest.mark.parametrize("chosen", [SOME, ()], ids=["some", "others"])
def test_unknown_captures_are_errors_in_all_views(chosen: tuple[str, ...], empty_captures: Warehouse) -> None:
    """Also if no column is read, and where the capture has no rows."""
    [(reason,)] = empty_captures.rows("SELECT reason FROM missing_needs WHERE capture_id = 3 AND need = 'events'")[1]
    assert reason.startswith("the events of pruned were pruned")
    views = [each for each in OF_A_CAPTURE if each.name in chosen] or OF_A_CAPTURE[::8]
    for view in views:
        required = ["''" for each in view.parameters[1:] if each.default is None]
        asked = {"nothing": "no capture matches nothing", "kind=empty": "kind=empty matches 2 captures"}
        if view.file.split("/")[0] != "records" and view.name != "metric_values":
            asked["pruned"] = "the events of pruned were pruned"
        calls = {f"'{capture}'": message for capture, message in asked.items()} | {"9": "no capture has the key 9"}
        if "pruned" in asked:  # a key may be one of many: it has no rows, and the reason is in `missing_needs`
            query = f"SELECT count(*) FROM {view.name}({', '.join(['3', *required])})"
            assert empty_captures.rows(query)[1] == [(0,)]
        if any(each.name == "unit" for each in view.parameters):
            calls |= {"'empty', unit := 'days'": "unknown unit days"}
            calls |= {"'empty', unit := 'cycles'": "cannot be converted to cycles"}
        for arguments, message in calls.items():
            capture, *unit = arguments.split(", ")
            with pytest.raises(QueryError, match=message):
                empty_captures.rows(f"SELECT count(*) FROM {view.name}({', '.join([capture, *required, *unit])})")
