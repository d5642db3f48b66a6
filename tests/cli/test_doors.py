"""The benchmark of all commands finds each of them and judges growth right; commands grow with their input."""

from __future__ import annotations

from etq.catalog import public_objects
from tests.benchmarks.door_calls import (
    MANY,
    NOT_ASKED,
    NOT_CALLED,
    VALUES,
    command_calls,
    commands,
    not_fillable,
    required_parameters,
    view_calls,
    views,
)
from tests.benchmarks.doors import grows_too_fast

SIZES = (100, 5_100, 20_100)


def test_each_command_and_view_is_called_or_a_table_has_the_reason() -> None:
    assert [name for name, command in commands() if name not in NOT_CALLED and not_fillable(command)] == []
    assert [each.name for each in views() if set(required_parameters(each)) - set(VALUES)] == []
    assert {name.partition(" --")[0] for name in NOT_CALLED} <= {name for name, _ in commands()}
    assert set(NOT_ASKED) <= {each.name for each in public_objects()}
    called = {each.name: each for each in command_calls()}
    assert {name for name in called if name.startswith("export ")} == {
        f"export --to {each}" for each in ("chrome", "speedscope", "hud", "model-explorer")
    }
    assert called["graph --format dot"].arguments[:4] == ("graph", "{capture}", "--format", "dot")
    assert called["compare"].takes_many and not called["ops"].takes_many
    asked = {each.name: each for each in view_calls()}
    assert asked["compare_ops"].arguments[1] == "FROM compare_ops('{base}', '{new}')"
    assert asked["regressions"].takes_many and not asked["op_totals"].takes_many and "schedule" not in asked
    assert {each.name for each in views() if MANY & set(required_parameters(each))} <= set(asked)


def test_growth_is_judged_by_what_an_event_takes() -> None:
    for seconds, expected in (
        ((0.3, 0.5, 1.1), False),  # time proportional to the events
        ((0.3, 0.5, 0.3 + 1.8 * 4 * 0.2), False),
        ((0.3, 0.5, 0.3 + 3 * 4 * 0.2), True),
        ((0.3, 0.35, 0.3 + 16 * 0.05), True),  # each event compared with each
        ((0.3, 0.28, 0.36), False),  # noise
        ((3.0, 3.02, 3.3), False),  # noise of a command that takes long without events
        ((0.3, 0.3, 0.6), True),
    ):
        assert grows_too_fast(SIZES, seconds) == expected, seconds
