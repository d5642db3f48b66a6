"""Comparing captures: changes planted in real captures are found, named and explained, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import accumulate
from statistics import median
from typing import Any

import pytest

import etq
from etq.analysis.comparison import OPTIONS, Comparison
from etq.verdicts.sequential import Judged, alpha_of, standing
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.sql.planting import fill_lab, judged, keys_of, plant, refill, rows_of, rules
from tests.warehouses import empty_warehouse

Lab = Callable[[str], Warehouse]
CAPTURES_OF = {"mlp": 12, "convnet_xnn": 12, "history": 20, "unlinked": 12}
# A permute_copy of the mlp, which takes a tenth of the total, and its modules.
PERMUTE = 3
UNCHANGED = ("~", "not decided")
ITS_MODULES = {"block1", "block1.down", "block1.down.linear"}


@pytest.fixture(scope="module")
def labs() -> Iterator[dict[str, Warehouse]]:
    """Warehouses in memory, which have no advice to write again, by name."""
    with ExitStack() as stack:
        opened = {name: stack.enter_context(empty_warehouse()) for name in CAPTURES_OF}
        for name, warehouse in opened.items():
            model = name if name in ("mlp", "convnet_xnn") else "mlp"
            fill_lab(warehouse, model, CAPTURES_OF[name], linked=name != "unlinked")
        opened["history"].ingest(CAPTURES / "fleet/convnet/00.etdp", name="other")
        yield opened


@pytest.fixture
def lab(labs: dict[str, Warehouse]) -> Iterator[Lab]:
    """A warehouse of a name, in which the test may change rows."""

    def chosen(name: str) -> Warehouse:
        labs[name].connection.execute("BEGIN")
        begun.append(labs[name])
        return labs[name]

    begun: list[Warehouse] = []
    yield chosen
    for warehouse in begun:
        warehouse.connection.execute("ROLLBACK")


def op_of(warehouse: Warehouse, instruction: int, **given: Any) -> dict[str, Any]:
    [found] = [row for row in rows_of(warehouse, "compare_ops", **given) if row["instruction_id"] == instruction]
    return dict(found)


def total_of(warehouse: Warehouse, **given: Any) -> dict[str, Any]:
    [total] = [row for row in rows_of(warehouse, "compare_captures", **given) if row["what"] == "total"]
    return dict(total)


@pytest.mark.long
def test_one_op(lab: Lab) -> None:
    warehouse = lab("mlp")
    before = op_of(warehouse, PERMUTE)
    plant(warehouse, "side=new", 1.2, PERMUTE)
    ops = rows_of(warehouse, "compare_ops", unit="us")
    [found] = judged(ops)
    assert (found["op"], found["instruction_id"], found["verdict"]) == ("permute_copy", PERMUTE, "slower")
    assert found["module_path"] == "block1.down.linear" and found["matched"] == "event"
    assert 1 + found["change_percent"] / 100 == pytest.approx((1 + before["change_percent"] / 100) * 1.2, abs=1e-3)
    assert found["low_percent"] < found["change_percent"] < found["high_percent"]
    assert found["q"] < 0.05 and found == ops[0]
    modules = judged(rows_of(warehouse, "compare_modules"))
    assert {row["verdict"] for row in modules} == {"slower"}
    # For the whole program the change is 2 % or slightly less.
    assert ITS_MODULES <= {row["module_path"] for row in modules} <= {*ITS_MODULES, ""}
    # A change of a tenth of the total by a fifth: within the tolerance for totals.
    parts = {row["what"]: row for row in rows_of(warehouse, "compare_captures", unit="us")}
    assert parts["total"]["change_percent"] == pytest.approx(2, abs=1.5)
    assert parts["total"]["explained_percent"] == 100
    for column in ("base", "new", "difference"):
        assert sum(row[column] for row in ops) == pytest.approx(parts["ops"][column], rel=1e-12)
    sides = rows_of(warehouse, "compared_captures", unit="ns")
    used = [row["total"] for row in sides if row["side"] == "base" and not row["is_disturbed"]]
    assert parts["total"]["base"] * 1e3 == pytest.approx(median(used), rel=1e-12)


@pytest.mark.long
def test_a_quantile_of_runs(lab: Lab) -> None:
    """If three of ten runs take 1.5 times as long, the first quartile doesn't change, but the ninth decile does."""
    warehouse = lab("mlp")
    keys = keys_of(warehouse, "side=new")
    warehouse.connection.execute(
        """UPDATE event_ticks SET elapsed_ticks = elapsed_ticks * 3 // 2
           WHERE list_contains(?, capture_id) AND run_index % 10 IN (1, 4, 7)""",
        [keys],
    )
    refill(warehouse, keys)
    assert total_of(warehouse)["verdict"] == "~"
    assert total_of(warehouse, quantile=0.9)["verdict"] == "slower"


@pytest.mark.long
def test_levels_of_profiling_are_not_compared(labs: dict[str, Warehouse]) -> None:
    warehouse, change = labs["mlp"], "UPDATE captures SET profiling_level = ? WHERE name = 'mlp01'"
    warehouse.connection.execute(change, ["debug"])
    for view in ("compare_ops", "compare_modules", "compare_captures", "compare_findings", "compared_captures"):
        with pytest.raises(etq.QueryError, match=r"different profiling levels \(all, debug\) cannot be"):
            rows_of(warehouse, view)
        assert len(rows_of(warehouse, view, allow_mismatch=True)) >= (0 if view == "compare_findings" else 3)
    warehouse.connection.execute(change, ["all"])


@pytest.mark.long
def test_a_disturbed_capture_is_left_out(lab: Lab) -> None:
    warehouse = lab("mlp")
    plant(warehouse, "mlp00", 1.4)
    sides = rows_of(warehouse, "compared_captures")
    [disturbed] = [row for row in sides if row["is_disturbed"]]
    assert (disturbed["capture"], disturbed["side"], len(sides)) == ("mlp00", "base", 12)
    assert disturbed["off_percent"] == pytest.approx(40, abs=2)
    ops = rows_of(warehouse, "compare_ops")
    assert judged(ops) == [] and {(row["base_captures"], row["new_captures"]) for row in ops} == {(5, 6)}
    findings = rules(warehouse)
    assert findings.keys() == {"disturbed capture"} and findings["disturbed capture"].startswith(
        "mlp00 of base took 39."
    )
    plant(warehouse, "mlp03", 0.7)
    assert "2 of 6 captures of base are disturbed" in rules(warehouse)["unstable side"]
    assert " % less in all ops" in " ".join(row["detail"] for row in rows_of(warehouse, "compare_findings"))


@pytest.mark.long
def test_ops_that_came_and_went(lab: Lab) -> None:
    """One addmm of base is a linear in new: neither is compared, each is listed as the other's candidate."""
    warehouse = lab("mlp")
    keys = keys_of(warehouse, "side=new")
    is_it = "s.kind = 'kernel' AND s.instruction_id = 4 AND list_contains(?, s.capture_id)"
    warehouse.connection.execute(
        f"""UPDATE signature_ops SET op_type = 'aten.linear.default' FROM signatures AS s WHERE {is_it}
            AND s.capture_id = signature_ops.capture_id AND s.signature_index = signature_ops.signature_index""",
        [keys],
    )
    warehouse.connection.execute(f"UPDATE signatures AS s SET label = 'linear' WHERE {is_it}", [keys])
    refill(warehouse, keys)
    ops = rows_of(warehouse, "compare_ops")
    assert {row["matched"] for row in ops} == {"module"} and judged(ops) == []
    [added], [removed] = judged(ops, "added"), judged(ops, "removed")
    linear, addmm = "aten.linear.default", "aten.addmm.default"
    assert (added["op"], added["base"], added["note"]) == (linear, None, f"may have been {addmm}")
    assert (removed["op"], removed["new"], removed["note"]) == (addmm, None, f"may have become {linear}")
    assert added["change_percent"] is removed["change_percent"] is None
    assert added["difference"] == added["new"] > 0 > removed["difference"] == -removed["base"]
    assert [row["share_percent"] for row in (added, removed)] == pytest.approx([5, 5], abs=1)
    assert rules(warehouse)["different programs"] == (
        "ops are matched by module: 1 of new are not in base, 1 of base not in new"
    )
    parts = {row["what"]: row for row in rows_of(warehouse, "compare_captures")}
    assert parts["ops"]["new"] == pytest.approx(sum(row["new"] or 0 for row in ops), rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(
    ("side", "values", "expected"),
    [
        ("new", "kind = 'framework'", {("permute_copy", "removed")}),
        ("base", "kind = 'framework'", {("permute_copy", "added")}),
        ("new", "family = 'other', label = 'other'", {("permute_copy", "removed"), ("other", "added")}),
    ],
)
def test_added_and_removed_ops_affect_no_others(lab: Lab, side: str, values: str, expected: set[Any]) -> None:
    """Without records: ops of one name take from 2 to 23 us, so matching one to its neighbour would blame it."""
    warehouse = lab("unlinked")
    keys = keys_of(warehouse, f"side={side}")
    kinds = "('kernel')" if "other" in values else "('kernel', 'operator_call')"
    warehouse.connection.execute(
        f"UPDATE signatures SET {values} WHERE kind IN {kinds} AND instruction_id = ? AND list_contains(?, capture_id)",
        [PERMUTE, keys],
    )
    refill(warehouse, keys)
    ops = rows_of(warehouse, "compare_ops")
    assert {row["matched"] for row in ops} == {"name"}
    changed = [row for row in ops if row["verdict"] not in UNCHANGED]
    assert {(row["op"], row["verdict"]) for row in changed} == expected
    assert {row["instruction_id"] for row in changed} == {PERMUTE}


@pytest.mark.long
def test_sides_of_different_clocks(lab: Lab) -> None:
    """New counts cycles of a 3 GHz clock: only shares can be compared, and a change of one op is still found."""
    warehouse = lab("mlp")
    plant(warehouse, "side=new", 1.2, PERMUTE)
    plant(warehouse, "side=new", 3)
    cycles = "UPDATE captures SET time_scale = 'cycles' WHERE list_contains(?, capture_id)"
    warehouse.connection.execute(cycles, [keys_of(warehouse, "side=new")])
    total = total_of(warehouse)
    assert total["verdict"] == "can't judge" and total["change_percent"] is total["base"] is total["unit"] is None
    # The sum of the ops has no unit, either.
    [ops] = [row for row in rows_of(warehouse, "compare_captures") if row["what"] == "ops"]
    assert ops["base"] is ops["new"] is ops["difference"] is None
    [found] = judged(rows_of(warehouse, "compare_ops"))
    assert found["instruction_id"] == PERMUTE and found["change_percent"] == pytest.approx(20, abs=2)
    assert found["base"] is found["unit"] is None
    assert rules(warehouse).keys() == {"different clocks"}


@pytest.mark.long
def test_what_is_missing_is_counted_by_side(lab: Lab) -> None:
    """Of one capture a side without a history; of three of base and two of new; of three, one of them disturbed."""
    warehouse = lab("mlp")
    few = {"base": "mlp10", "new": "mlp11"}
    plant(warehouse, "mlp11", 2, PERMUTE)
    ops = rows_of(warehouse, "compare_ops", **few, history="mlp00")
    assert {row["verdict"] for row in ops} == {"too few"}
    assert ops[0]["instruction_id"] == PERMUTE and ops[0]["change_percent"] == pytest.approx(100, abs=6)
    assert ops[0]["note"].startswith(
        "take 2 more of base and 2 more of new, or 9 more captures of base's program for its history"
    )
    assert rules(warehouse, **few)["few captures"].startswith("1 in base, 1 in new: take at least 3")
    relabel = "UPDATE labels SET value = ? WHERE key = 'side' AND list_contains(?, capture_id)"
    for side, names in (("older", ("mlp00", "mlp03", "mlp04")), ("newer", ("mlp01", "mlp02"))):
        warehouse.connection.execute(relabel, [side, [key for name in names for key in keys_of(warehouse, name)]])
    sides = {"base": "side=older", "new": "side=newer"}
    assert total_of(warehouse, **sides)["note"].startswith("take 1 more of new, better 5 per side: ")
    warehouse.connection.execute(relabel, ["newer", keys_of(warehouse, "mlp05")])
    plant(warehouse, "mlp02", 1.5)
    total = total_of(warehouse, **sides)
    assert (total["verdict"], total["new_captures"]) == ("not decided", 3)


@pytest.mark.long
def test_single_captures_that_are_disturbed_or_of_another_model(lab: Lab) -> None:
    warehouse = lab("history")
    plant(warehouse, "mlp19", 2)
    assert total_of(warehouse, base="mlp18", new="mlp19")["verdict"] == "unstable"
    findings = rules(warehouse, base="mlp18", new="mlp19")
    assert "disturbed capture" in findings and "unstable side" not in findings
    total = total_of(warehouse, base="mlp18", new="other")
    assert (total["verdict"], total["note"]) == ("slower", None) and total["change_percent"] > 600
    assert "disturbed capture" not in rules(warehouse, base="mlp18", new="other")


@pytest.mark.long
def test_one_capture_a_side_is_judged_by_others(lab: Lab) -> None:
    warehouse = lab("history")
    pair = {"base": "mlp18", "new": "mlp19"}

    def history(**given: Any) -> int:
        return [row["side"] for row in rows_of(warehouse, "compared_captures", **pair, **given)].count("history")

    ops = rows_of(warehouse, "compare_ops", **pair)
    assert judged(ops) == [] and {row["q"] for row in ops} == {None} and history() == 18
    plant(warehouse, "mlp19", 1.05, PERMUTE)
    small = op_of(warehouse, PERMUTE, **pair)
    assert small["verdict"] == "not decided"
    assert small["note"].startswith("single captures of its history differ by up to ")
    assert small["note"].endswith(" %: take 2 more per side, better 4")
    plant(warehouse, "mlp19", 1.5, PERMUTE)
    [found] = judged(rows_of(warehouse, "compare_ops", **pair))
    assert found["instruction_id"] == PERMUTE and found["change_percent"] == pytest.approx(57.5, abs=5)
    # With `history`, only the captures that it selects are used.
    warehouse.connection.execute(
        "INSERT INTO labels SELECT capture_id, 'lab', 'a' FROM captures WHERE capture_id <= 11"
    )
    assert history(history="lab=a") == 11


@pytest.mark.long
def test_captures_measured_apart(lab: Lab) -> None:
    """A finding reports that the sides were not measured in turns, or that the order is unknown."""
    warehouse = lab("mlp")
    later = "UPDATE captures SET captured_at = captured_at + INTERVAL 1 DAY WHERE list_contains(?, capture_id)"
    warehouse.connection.execute(later, [keys_of(warehouse, "side=new")])
    assert rules(warehouse).keys() == {"measured apart"}
    warehouse.connection.execute("UPDATE captures SET captured_at = NULL WHERE name = 'mlp04'")
    assert rules(warehouse).keys() == {"time order unknown"}


@pytest.mark.long
def test_shares_of_a_delegate_and_its_call_add_up(lab: Lab) -> None:
    """The call's is that of its self time, by hand: what the events within it leave of the whole call."""
    warehouse = lab("convnet_xnn")
    rows, total = rows_of(warehouse, "compare_ops"), total_of(warehouse)
    [call] = [row for row in rows if row["kind"] == "delegate_call"]
    within = sum(row["base"] for row in rows if row["kind"] == "delegate")
    assert call["share_percent"] == pytest.approx(100 * (call["base"] - within) / total["base"]) and within > 5
    assert sum(row["share_percent"] for row in rows) == pytest.approx(100 * call["base"] / total["base"])


@pytest.mark.long
def test_a_coarse_clock_cannot_judge(lab: Lab) -> None:
    """XNNPACK counts whole microseconds: for an op of 5 us, a change of one step, 20 %, can't be judged, and one of two
    can: 1.5 steps count.
    """
    warehouse = lab("convnet_xnn")

    def conv(view: str) -> dict[str, object]:
        rows = rows_of(warehouse, view)
        [row] = [
            row for row in rows if row["module_path"] == "features.0.cbr.conv" and row.get("kind") in ("delegate", None)
        ]
        return dict(row)

    for view in ("compare_ops", "compare_modules"):
        row = conv(view)
        assert (row["verdict"], row["base"], row["new"]) == ("can't judge", 5, 5)
        assert (
            row["note"] == "below the clock's resolution: it counts in steps of 1 us, and this takes 5 us: "
            "changes under 30 % cannot be measured"
        )
        assert row["q"] is None
    assert rules(warehouse)["no common shift"].startswith("fewer than 3 ops with a precise clock")
    # From 5 us in 5 captures to 7 us, then with 8 us in one of them: by the geometric means.
    same = "the same in all captures of a side: its variation is unknown"
    for selector, ticks, verdict, note, change in (
        ("side=new", 2000, "can't judge", same, 40),
        ("convnet_xnn01", 1000, "slower", None, 100 * (1.4 * (8 / 7) ** (1 / 5) - 1)),
    ):
        keys = keys_of(warehouse, selector)
        warehouse.connection.execute(
            """
            UPDATE event_ticks SET elapsed_ticks = elapsed_ticks + ? FROM signature_ops AS o
            WHERE o.capture_id = event_ticks.capture_id AND o.signature_index = event_ticks.signature_index
                AND o.module_path = 'features.0.cbr.conv' AND list_contains(?, o.capture_id)
            """,
            [ticks, keys],
        )
        refill(warehouse, keys)
        for view in ("compare_ops", "compare_modules"):
            row = conv(view)
            assert (row["verdict"], row["note"], row["base"], row["new"]) == (verdict, note, 5, 7)
            assert row["change_percent"] == pytest.approx(change)


@pytest.mark.long
def test_a_benchmark_stands_as_the_views_say(lab: Lab) -> None:
    """After 3 of 5 rounds: the op that takes 1.2 times as long is decided, others are not."""
    warehouse = lab("mlp")
    plant(warehouse, "side=new", 1.2, PERMUTE)
    level = alpha_of(3, 0.05, 5)
    assert level is not None
    [total] = [row for row in rows_of(warehouse, "compare_captures", alpha=level) if row["what"] == "total"]
    rows = [as_judged("total", "total of forward", total)]
    for row in rows_of(warehouse, "compare_ops", alpha=level):
        rows.append(as_judged("op", f"{row['op']} in {row['module_path']} @{row['instruction_id']}", row))
    comparison = Comparison(warehouse, "side=base", "side=new", {**dict.fromkeys(OPTIONS), "alpha": level})
    with closing(comparison):
        found, by_views = comparison.standing(3), standing(rows, 3)
        assert sorted(found.open_items) == sorted(by_views.open_items)
        assert found.is_decided == by_views.is_decided
    assert not any(item.endswith(f"@{PERMUTE}") for item in found.open_items)
    assert {row.verdict for row in rows if row.item in found.open_items} <= {*UNCHANGED}
    assert any(item.startswith("permute_copy") for item in found.open_items)


def as_judged(level: str, item: str, row: dict[str, Any]) -> Judged:
    """A row of a view, of which changes and shares are in percent."""
    values = (row.get(f"{name}_percent") for name in ("change", "low", "high", "share"))
    change, low, high, share = (None if value is None else value / 100 for value in values)
    return Judged(level, item, row["verdict"], change, low, high, share, row["base_captures"] + row["new_captures"])


def test_how_far_a_capture_is_off_its_side() -> None:
    """By hand: of new, the ops of two captures take 1, those of the third 1.1 of the first's time; base is alone."""
    with etq.open() as warehouse:
        made = []
        for number, (name, factor) in enumerate((("base", 10), ("one", 10), ("two", 10), ("three", 11))):
            ends = [0, *accumulate(factor * each for each in (101, 223, 337, 419))]
            ops = [kernel(f"op{at}", ends[at], ends[at + 1], at) for at in range(4)]
            content = dump(*(run("Execute", *ops, execute(0, ends[-1] + number)) for _ in range(3)))
            made.append(Labelled(name, content, {"side": "base" if name == "base" else "new"}))
        ingest_all(warehouse, made)
        rows = warehouse.rows("SELECT capture, off_percent FROM compared_captures('side=base', 'side=new')")[1]
    assert dict(rows) == {"base": None, "one": pytest.approx(0), "two": pytest.approx(0), "three": pytest.approx(10)}
