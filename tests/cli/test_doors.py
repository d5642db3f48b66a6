"""The benchmark of all commands finds each of them and judges growth right; commands grow with their input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from etq.catalog import public_objects
from etq.cli import main
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

ROOT = Path(__file__).parents[2]
SIZES = (100, 5_100, 20_100)


def test_each_command_is_called_or_the_table_has_its_reason() -> None:
    missing = {name: not_fillable(command) for name, command in commands() if name not in NOT_CALLED}
    assert {name: parameters for name, parameters in missing.items() if parameters} == {}


def test_the_tables_name_only_commands_and_views() -> None:
    assert set(NOT_CALLED) <= {name for name, _ in commands()}
    assert set(NOT_ASKED) <= {each.name for each in public_objects()}


def test_each_view_has_values_for_what_it_requires() -> None:
    missing = {each.name: set(required_parameters(each)) - set(VALUES) for each in views()}
    assert {name: parameters for name, parameters in missing.items() if parameters} == {}


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


def test_calls_have_the_words_that_options_require() -> None:
    names = {each.name: each for each in command_calls()}
    assert {name for name in names if name.startswith("export ")} == {
        f"export --to {each}" for each in ("chrome", "speedscope", "hud", "model-explorer")
    }
    assert names["graph --dot"].arguments[:3] == ("graph", "{capture}", "--dot")
    assert names["compare"].takes_many
    assert not names["ops"].takes_many


def test_calls_of_views_name_what_they_require() -> None:
    calls = {each.name: each for each in view_calls()}
    assert calls["compare_ops"].arguments[1] == "FROM compare_ops('{base}', '{new}')"
    assert calls["regressions"].takes_many
    assert not calls["op_totals"].takes_many
    assert "schedule" not in calls
    assert {each.name for each in views() if MANY & set(required_parameters(each))} <= set(calls)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((0.3, 0.5, 1.1), False),  # time proportional to the events
        ((0.3, 0.5, 0.3 + 1.8 * 4 * 0.2), False),
        ((0.3, 0.5, 0.3 + 3 * 4 * 0.2), True),
        ((0.3, 0.35, 0.3 + 16 * 0.05), True),  # each event compared with each
        ((0.3, 0.3, 0.35), False),  # noise
        ((0.3, 0.28, 0.36), False),
        ((3.0, 3.02, 3.3), False),  # noise of a command that takes long without events
        ((0.3, 0.3, 0.6), True),
    ],
)
def test_growth_is_judged_by_what_an_event_takes(seconds: tuple[float, float, float], expected: bool) -> None:
    assert grows_too_fast(SIZES, seconds) == expected


def costs(*seconds: float) -> list[Cost]:
    return [Cost(each, each, 100) for each in seconds]


def test_what_seems_to_grow_is_measured_again() -> None:
    # Sizes take turns. The first measurement of the large one was disturbed.
    taken = {0: costs(0.3, 0.3, 0.3), 1: costs(0.4, 0.4, 0.4), 2: costs(1.9, 0.7, 0.7)}
    found = measured(SIZES, lambda place: taken[place].pop(0))
    assert found is not None
    assert [each.cpu for each in found] == [0.3, 0.4, 0.7]
    assert len(taken[2]) == 1


def test_a_round_in_which_nothing_grows_decides() -> None:
    """The machine was fast for the least and the small input of the first round, and slow ever since."""
    sizes = (20, 50, 140)
    taken = {0: costs(0.33, 0.55), 1: costs(0.34, 0.6), 2: costs(0.66, 0.66)}
    assert grows_too_fast(sizes, [each[0].cpu for each in taken.values()])
    found = measured(sizes, lambda place: taken[place].pop(0))
    assert found is not None
    assert [each.cpu for each in found] == [0.55, 0.6, 0.66]


def test_what_grows_keeps_growing() -> None:
    asked: Counter[int] = Counter()

    def take(place: int) -> Cost:
        asked[place] += 1
        return costs(0.3, 0.4, 0.3 + 16 * 0.1)[place]

    found = measured(SIZES, take)
    assert found is not None
    assert grows_too_fast(SIZES, [each.cpu for each in found])
    assert asked == dict.fromkeys(range(3), ROUNDS)


def test_what_takes_no_more_than_the_start_is_measured_once() -> None:
    asked: Counter[int] = Counter()

    def take(place: int) -> Cost:
        asked[place] += 1
        return costs(0.3, 0.31, 0.32)[place]

    assert measured(SIZES, take, start=0.3) is not None
    assert asked == {2: 1}


def test_a_call_without_an_answer_is_left_out() -> None:
    assert measured(SIZES, lambda place: Cost(0.3, 0.3, 100, "Error: of another format")) is None
    answers: list[str | None] = [None, "Error: no steps", "Error: no steps"]
    assert measured(SIZES, lambda place: Cost(0.3, 0.3, 100, answers[place])) is None
    answers = [None, None, "Error: it has no record, so its events have no modules"]
    assert measured(SIZES, lambda place: Cost(0.3, 0.3, 100, answers[place])) is None


def test_a_call_that_fails_for_the_large_input_alone_is_found() -> None:
    answers = [None, None, "Error: not enough memory"]
    found = measured(SIZES, lambda place: Cost(0.3, 0.3, 100, answers[place]), start=0.3)
    assert found is not None
    assert found[2].failure == "Error: not enough memory"


def test_the_record_fits_the_dumps(tmp_path: Path) -> None:
    dump = tmp_path / "made.etdp"
    assert make_dump_file(dump, 200, 1) == 230
    record = str(MODEL / "transformer.etrecord")
    printed = CliRunner().invoke(main, ["modules", str(dump), "--etrecord", record, "--format", "csv"])
    assert printed.exit_code == 0
    assert printed.stderr == ""
    assert "layers.0" in printed.stdout
