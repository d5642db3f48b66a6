"""Each number by two ways, on captures of all kinds: see `table`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import etq
from etq import catalog
from tests.conftest import CAPTURES
from tests.pairs import subjects, table
from tests.pairs.asking import Asked, Pair, differences
from tests.pairs.fleet import Fleet, built
from tests.pairs.of_fleets import FLEET_PAIRS, Question
from tests.pairs.subjects import Shelf, Subject


@pytest.fixture(scope="session")
def shelf() -> Iterator[Shelf]:
    with etq.open() as warehouse:
        yield Shelf(warehouse)


def check(pair: Pair, asked: Asked) -> None:
    found = list(islice(differences(*pair.ask(asked)), 5))
    assert not found, f"{asked.name}, {pair}:\n" + "\n".join(found)


def cases(kind: str, *, is_long: bool) -> list[object]:
    """Each pair with each of the captures that it is asked of."""
    chosen = list(subjects.chosen("dump" if kind == "recorded" else kind, is_long=is_long))
    return [
        pytest.param(pair, subject, id=f"{subject}-{pair}")
        for subject in chosen
        for pair in table.of(kind)
        if kind != "recorded" or subject.record is not None
    ]


KINDS = ("dump", "recorded", "trace", "prof_result")


@pytest.mark.parametrize(("pair", "subject"), [case for kind in KINDS for case in cases(kind, is_long=False)])
def test_both_ways_agree(shelf: Shelf, pair: Pair, subject: Subject) -> None:
    _check_subject(shelf, pair, subject)


PROGRAMS = sorted(path.stem for path in CAPTURES.glob("*/*.pte"))
RECORDS = sorted(path.stem for path in CAPTURES.glob("*/*.etrecord"))


@pytest.mark.parametrize("pair", table.of("program"), ids=str)
def test_both_ways_agree_on_programs(pair: Pair) -> None:
    with etq.open() as warehouse:
        for name in PROGRAMS:
            path = CAPTURES / name / f"{name}.pte"
            # `mlp_bundled` is another's copy.
            if warehouse.ingest_program(path).name == name:
                check(pair, Asked(warehouse, name, path.read_bytes(), program=path))


@pytest.mark.parametrize("pair", table.of("record"), ids=str)
def test_both_ways_agree_on_records(pair: Pair) -> None:
    with etq.open() as warehouse:
        for name in RECORDS:
            path = CAPTURES / name / f"{name}.etrecord"
            warehouse.ingest_record(path)
            check(pair, Asked(warehouse, name, path.read_bytes(), record=path))


@pytest.mark.long
@pytest.mark.parametrize(("pair", "subject"), [case for kind in KINDS for case in cases(kind, is_long=True)])
def test_both_ways_agree_on_all_captures(shelf: Shelf, pair: Pair, subject: Subject) -> None:
    _check_subject(shelf, pair, subject)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dump", "recorded", "trace"])
def test_both_ways_agree_on_other_peoples_captures(kind: str) -> None:
    chosen = [each for each in subjects.others() if each.kind == kind or (kind == "recorded" and each.record)]
    if not subjects.SHARED.exists():
        pytest.skip(f"other people's captures are not kept here: {subjects.SHARED} is missing; ETQ_SHARED tells where")
    found = []
    for subject in chosen:
        with etq.open() as warehouse:
            asked = Shelf(warehouse).ask(subject)
            for pair in table.of(kind):
                told = list(islice(differences(*pair.ask(asked)), 5))
                if told:
                    found.append(f"{subject.name}, {pair}: " + "; ".join(told))
    assert not found, "\n".join(found)


def _check_subject(shelf: Shelf, pair: Pair, subject: Subject) -> None:
    asked = shelf.ask(subject)
    if pair.of == "recorded" and not asked.is_linked:
        return
    check(pair, asked)


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    with built() as made:
        yield made


@pytest.mark.parametrize(("pair", "ask"), FLEET_PAIRS, ids=lambda value: str(value) if isinstance(value, Pair) else "")
def test_both_ways_agree_on_many_captures(fleet: Fleet, pair: Pair, ask: Question) -> None:
    found = list(islice(differences(*ask(fleet)), 8))
    assert not found, f"{pair}:\n" + "\n".join(found)


def test_sizes_of_captures_are_parts_of_the_file(tmp_path: Path) -> None:
    """What captures take together is the blocks that their tables lie in, but for the begin of the first."""
    path = tmp_path / "w.duckdb"
    with etq.open(path) as warehouse:
        for name in ("mlp_100runs", "mlp"):
            warehouse.ingest(CAPTURES / f"mlp/{name}.etdp")
    with etq.open(path, read_only=True) as warehouse:
        sizes = dict(warehouse.sql("SELECT name, stored_bytes FROM capture_sizes").fetchall())
        query = "SELECT used_blocks * block_size, block_size FROM pragma_database_size() WHERE database_name = 'w'"
        [(used, block)] = warehouse.sql(query).fetchall()
        blocks = set()
        for (table,) in warehouse.sql(OF_CAPTURES).fetchall():
            query = f"SELECT block_id, additional_block_ids FROM pragma_storage_info('{table}') WHERE block_id >= 0"
            for each, more in warehouse.sql(query).fetchall():
                blocks |= {each, *(more or ())}
    assert (len(blocks) - 1) * block <= sum(sizes.values()) <= len(blocks) * block <= used
    assert sizes["mlp_100runs"] > sizes["mlp"] > 0


OF_CAPTURES = """
    SELECT table_name FROM duckdb_columns() WHERE NOT internal AND column_name = 'capture_id' AND table_name IN (
        SELECT t.table_name FROM duckdb_tables() AS t)"""

# Views of the file that a warehouse is, and what asks them.
OF_THE_FILE = {"capture_sizes": test_sizes_of_captures_are_parts_of_the_file}


def test_every_view_has_a_pair() -> None:
    views = {each.name for each in catalog.public_objects() if each.kind in ("view", "table macro")}
    paired = {pair.view for pair in table.PAIRS} | {pair.view for pair, _ in FLEET_PAIRS} | {*OF_THE_FILE}
    assert sorted(paired - views) == [], "pairs of what is no public view"
    assert sorted(paired & set(table.WITHOUT)) == [], "has a pair, and a reason for having none"
    missing = sorted(views - paired - set(table.WITHOUT))
    assert missing == [], "views without a pair: put another way to their numbers into a module of tests/pairs/table.py"
