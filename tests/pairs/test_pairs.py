"""Each number is computed in two ways, on captures of all kinds: see `table`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.pairs import subjects, table
from tests.pairs.asking import Asked, Pair, differences
from tests.pairs.fleet import Fleet, built
from tests.pairs.of_fleets import FLEET_PAIRS, Question
from tests.pairs.subjects import Shelf, Subject
from tests.sampling import IS_WHOLE, thinned
from tests.warehouses import empty_warehouse


@pytest.fixture(scope="session")
def shelf() -> Iterator[Shelf]:
    with empty_warehouse() as warehouse:
        yield Shelf(warehouse)


def check(pair: Pair, asked: Asked) -> None:
    found = list(islice(differences(*pair.ask(asked)), 5))
    assert not found, f"{asked.name}, {pair}:\n" + "\n".join(found)


# All pairs on all captures take eight minutes: with ETQ_ALL_CAPTURES=1. Else all are checked on `subjects.FEWEST`, each
# thirtieth one on another capture that stands for a kind, and every `STRIDE`-th one on a capture that is like one of these.
STRIDE = 320


def cases(kind: str) -> Iterator[object]:
    """Each pair with each of its captures. A case is long if `subjects.FEWEST` doesn't contain the capture."""
    for number, subject in enumerate(subjects.own()):
        if subject.kind != ("dump" if kind == "recorded" else kind) or (kind == "recorded" and subject.record is None):
            continue
        step = 1 if subject.name in subjects.FEWEST else 30 if subject.name in subjects.FEW else STRIDE
        for at, pair in enumerate(asked_of(kind, number, step)):
            # Of the cases that run every time, two of three are long.
            marks = () if subject.name in subjects.FEWEST and at % 3 == 0 else pytest.mark.long
            yield pytest.param(pair, subject, id=f"{subject}-{pair}", marks=marks)


def asked_of(kind: str, number: int, step: int) -> list[Pair]:
    """Each `step`-th pair for a capture, starting at another pair for each capture."""
    return [pair for at, pair in enumerate(table.of(kind)) if IS_WHOLE or (at + number) % step == 0]


KINDS = ("dump", "recorded", "trace", "prof_result")


@pytest.mark.long
@pytest.mark.parametrize(("pair", "subject"), [case for kind in KINDS for case in cases(kind)])
def test_both_ways_agree(shelf: Shelf, pair: Pair, subject: Subject) -> None:
    asked = shelf.ask(subject)
    if pair.of != "recorded" or asked.is_linked:
        check(pair, asked)


PROGRAMS = sorted(path.stem for path in CAPTURES.glob("*/*.pte"))
RECORDS = sorted(path.stem for path in CAPTURES.glob("*/*.etrecord"))


@pytest.fixture(scope="module")
def programs() -> Iterator[Warehouse]:
    """All programs and records."""
    with empty_warehouse() as warehouse:
        for name in PROGRAMS:
            warehouse.ingest_program(CAPTURES / name / f"{name}.pte")
        for name in RECORDS:
            warehouse.ingest_record(CAPTURES / name / f"{name}.etrecord")
        yield warehouse


@pytest.mark.long
@pytest.mark.parametrize("pair", table.of("program"), ids=str)
def test_both_ways_agree_on_programs(programs: Warehouse, pair: Pair) -> None:
    stored = {name for (name,) in programs.rows("SELECT name FROM programs")[1]}
    assert set(PROGRAMS) - stored == {"mlp_bundled", "mlp_manual"}, "which are copies of another's"
    for name in sorted(stored):
        path = CAPTURES / name / f"{name}.pte"
        check(pair, Asked(programs, name, path.read_bytes(), program=path))


@pytest.mark.long
@pytest.mark.parametrize("pair", table.of("record"), ids=str)
def test_both_ways_agree_on_records(programs: Warehouse, pair: Pair) -> None:
    for name in RECORDS:
        path = CAPTURES / name / f"{name}.etrecord"
        check(pair, Asked(programs, name, path.read_bytes(), record=path))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dump", "recorded", "trace"])
def test_both_ways_agree_on_other_peoples_captures(kind: str) -> None:
    chosen = [each for each in subjects.others() if each.kind == kind or (kind == "recorded" and each.record)]
    if not subjects.SHARED.exists():
        pytest.skip(f"other people's captures are not kept here: {subjects.SHARED} is missing; ETQ_SHARED tells where")
    found = []
    for number, subject in enumerate(chosen):
        with empty_warehouse() as warehouse:
            asked = Shelf(warehouse).ask(subject)
            for pair in asked_of(kind, number, STRIDE):
                different = list(islice(differences(*pair.ask(asked)), 5))
                if different:
                    found.append(f"{subject.name}, {pair}: " + "; ".join(different))
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    with built() as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize(
    ("pair", "ask"),
    thinned(FLEET_PAIRS, [pair for pair, _ in FLEET_PAIRS[::3]]),
    ids=lambda value: str(value) if isinstance(value, Pair) else "",
)
def test_both_ways_agree_on_many_captures(fleet: Fleet, pair: Pair, ask: Question) -> None:
    found = list(islice(differences(*ask(fleet)), 8))
    assert not found, f"{pair}:\n" + "\n".join(found)


@pytest.mark.long
def test_sizes_of_captures_are_parts_of_the_file(tmp_path: Path) -> None:
    """The sizes of all captures add up to the blocks of their tables, except the start of the first block."""
    path = tmp_path / "w.duckdb"
    with etq.open(path) as warehouse:
        for name in ("mlp_100runs", "mlp"):
            warehouse.ingest(CAPTURES / f"mlp/{name}.etdp")
    with etq.open(path, read_only=True) as warehouse:
        sizes = dict(warehouse.rows("SELECT name, stored_bytes FROM capture_sizes")[1])
        query = "SELECT used_blocks * block_size, block_size FROM pragma_database_size() WHERE database_name = 'w'"
        [(used, block)] = warehouse.rows(query)[1]
        blocks = set()
        for (table,) in warehouse.rows(OF_CAPTURES)[1]:
            query = f"SELECT block_id, additional_block_ids FROM pragma_storage_info('{table}') WHERE block_id >= 0"
            for each, more in warehouse.rows(query)[1]:
                blocks |= {each, *(more or ())}
    assert (len(blocks) - 1) * block <= sum(sizes.values()) <= len(blocks) * block <= used
    assert sizes["mlp_100runs"] > sizes["mlp"] > 0


OF_CAPTURES = """
    SELECT table_name FROM duckdb_columns() WHERE NOT internal AND column_name = 'capture_id' AND table_name IN (
        SELECT t.table_name FROM duckdb_tables() AS t)"""

# Views of the warehouse's file, and the test of each.
OF_THE_FILE = {"capture_sizes": test_sizes_of_captures_are_parts_of_the_file}


@pytest.mark.long
@pytest.mark.parametrize("name", ["convnet_xnn", "multimethod_interleave"] if IS_WHOLE else ["convnet_xnn"])
def test_a_file_alone_answers_as_the_warehouse(name: str) -> None:
    """All views of a capture that isn't stored."""
    [subject] = [each for each in subjects.own() if each.name == name]
    assert subject.record is not None
    views = [
        each.name for each in catalog.public_objects()
        if each.kind == "table macro"
        and [p.name for p in each.parameters if p.default is None] == ["capture"]
        and each.name not in ("decode_trend", "phase_totals", "advice", "roofline", "node_roofline", "delegate_graph")  # no phases, no record's costs, no program
        and not each.name.startswith("prof_result")
    ]  # fmt: skip
    warehouse, capture = open_ephemeral(subject.path, etrecord=subject.record)
    with warehouse, empty_warehouse() as keeping:
        kept = keeping.ingest(subject.path)
        keeping.link(kept, keeping.ingest_record(subject.record))
        data = subject.path.read_bytes()
        alone = Asked(warehouse, capture.name, data, subject.path, subject.record)
        stored = Asked(keeping, kept.name, data, subject.path, subject.record)
        found = [
            f"{view}: {difference}"
            for view in views
            # A record has another key elsewhere.
            for difference in islice(
                differences(alone.view(view, _columns(view)), stored.view(view, _columns(view))), 2
            )
        ]
    assert not found, "\n".join(found)


def _columns(view: str) -> str:
    names = (each.name for each in catalog.objects()[view].columns)
    return ", ".join(f'"{name}"' for name in names if name != "record_id")


def test_every_view_has_a_pair() -> None:
    views = {each.name for each in catalog.public_objects() if each.kind in ("view", "table macro")}
    paired = {pair.view for pair in table.PAIRS} | {pair.view for pair, _ in FLEET_PAIRS} | {*OF_THE_FILE}
    assert sorted(paired - views) == [], "pairs of what is no public view"
    assert sorted(paired & set(table.WITHOUT)) == [], "has a pair, and a reason for having none"
    missing = sorted(views - paired - set(table.WITHOUT))
    assert missing == [], "views without a pair: put another way to their numbers into a module of tests/pairs/table.py"
