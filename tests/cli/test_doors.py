"""The benchmark of all commands finds each of them and judges growth right; commands grow with their input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import pytest

from etq.catalog import public_objects
from tests.benchmarks.door_calls import (
    MANY,
    NOT_ASKED,
    NOT_CALLED,
    VALUES,
    calls_of,
    command_calls,
    commands,
    not_fillable,
    required_parameters,
    view_calls,
    views,
)
from tests.benchmarks.door_inputs import MODEL, Cost, make_dump_file
from tests.benchmarks.doors import ROUNDS, grows_too_fast, measured
from tests.command_line import run_etq

SIZES = (100, 5_100, 20_100)


def test_each_command_and_view_is_called_or_a_table_has_the_reason() -> None:
    assert [name for name, command in commands() if name not in NOT_CALLED and not_fillable(command)] == []
    assert [each.name for each in views() if set(required_parameters(each)) - set(VALUES)] == []
    assert set(NOT_CALLED) <= {name for name, _ in commands()}
    assert set(NOT_ASKED) <= {each.name for each in public_objects()}
    called = {each.name: each for each in command_calls()}
    assert {name for name in called if name.startswith("export ")} == {
        f"export --to {each}" for each in ("chrome", "speedscope", "hud", "model-explorer")
    }
    assert called["graph --dot"].arguments[:3] == ("graph", "{capture}", "--dot")
    assert called["compare"].takes_many and not called["ops"].takes_many
    asked = {each.name: each for each in view_calls()}
    assert asked["compare_ops"].arguments[1] == "FROM compare_ops('{base}', '{new}')"
    assert asked["regressions"].takes_many and not asked["op_totals"].takes_many and "schedule" not in asked
    assert {each.name for each in views() if MANY & set(required_parameters(each))} <= set(asked)


def test_a_new_command_is_found() -> None:
    @click.group()
    def group() -> None: ...

    @group.command()
    @click.argument("capture")
    def known(capture: str) -> None: ...

    @group.command()
    @click.argument("capture")
    @click.argument("place")
    def unknown(capture: str, place: str) -> None: ...

    found = dict(commands(group))
    assert {name: not_fillable(command) for name, command in found.items()} == {"known": [], "unknown": ["place"]}
    [call] = calls_of("known", found["known"])
    assert call.arguments == ("known", "{capture}")


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


@pytest.mark.parametrize(
    ("sizes", "taken", "expected"),
    [
        # The first measurement of the large one was disturbed.
        (SIZES, ((0.3, 0.3), (0.4, 0.4), (1.9, 0.7)), [0.3, 0.4, 0.7]),
        # The machine was fast for the least and the small input of the first round, and slow ever since.
        ((20, 50, 140), ((0.33, 0.55), (0.34, 0.6), (0.66, 0.66)), [0.55, 0.6, 0.66]),
        # What grows keeps growing.
        (SIZES, ((0.3,) * ROUNDS, (0.4,) * ROUNDS, (1.9,) * ROUNDS), [0.3, 0.4, 1.9]),
    ],
)
def test_what_seems_to_grow_is_measured_again(
    sizes: tuple[int, int, int], taken: tuple[tuple[float, ...], ...], expected: list[float]
) -> None:
    left = [[*each] for each in taken]

    def take(place: int) -> Cost:
        seconds = left[place].pop(0)
        return Cost(seconds, seconds, 100)

    found = measured(sizes, take)
    assert found is not None and [each.cpu for each in found] == expected
    assert left == [[], [], []]


def test_calls_without_an_answer_and_those_that_take_no_time() -> None:
    asked: Counter[int] = Counter()

    def take(place: int) -> Cost:
        asked[place] += 1
        return Cost(0.3, 0.3, 100)

    assert measured(SIZES, take, start=0.3) is not None and asked == {2: 1}, "measured once"

    def judged(*answers: str | None) -> tuple[Cost, ...] | None:
        found = measured(SIZES, lambda place: Cost(0.3, 0.3, 100, answers[place]), start=0.2)
        return None if found is None else tuple(found)

    assert judged(*["Error: of another format"] * 3) is None
    assert judged(None, "Error: no steps", "Error: no steps") is None
    assert judged(None, None, "Error: it has no record, so its events have no modules") is None
    found = judged(None, None, "Error: not enough memory")
    assert found is not None and found[2].failure == "Error: not enough memory", "for the large input alone"


def test_the_record_fits_the_dumps(tmp_path: Path) -> None:
    dump = tmp_path / "made.etdp"
    assert make_dump_file(dump, 200, 1) == 230
    printed = run_etq("modules", str(dump), "--etrecord", str(MODEL / "transformer.etrecord"), "--format", "csv")
    assert (printed.exit_code, printed.stderr) == (0, "") and "layers.0" in printed.stdout
