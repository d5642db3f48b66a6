"""Each number is computed in two ways, on captures and traces made by hypothesis."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.pairs import making, table
from tests.pairs.asking import Asked, differences
from tests.pairs.bounds import outside
from tests.pairs.making import Made
from tests.pairs.subjects import say_phases
from tests.sampling import IS_WHOLE, whole
from tests.warehouses import empty_warehouse

pytestmark = pytest.mark.long

# There are so many pairs per example that shrinking a failing one would take minutes.
PATIENT = settings(
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW, MANY = settings(PATIENT, max_examples=2), settings(PATIENT, max_examples=10 if IS_WHOLE else 1)


def check_capture(made: Made) -> None:
    with TemporaryDirectory() as folder, empty_warehouse() as warehouse:
        path = Path(folder) / "made.etrecord"
        path.write_bytes(made.record)
        capture = warehouse.ingest(made.dump, name="made")
        asked = Asked(warehouse, capture.name, made.dump, Path(folder) / "made.etdp", path)
        say_phases(asked)
        warehouse.link(capture, warehouse.ingest_record(path))
        check(asked, "dump", "recorded")


def check_trace(data: bytes) -> None:
    with empty_warehouse() as warehouse:
        check(Asked(warehouse, warehouse.ingest(data, name="made").name, data), "trace")


def check(asked: Asked, *kinds: str) -> None:
    found = [
        f"{pair}: {difference}"
        for kind in kinds
        for pair in table.of(kind)
        for difference in islice(differences(*pair.ask(asked)), 3)
    ]
    found += outside(asked)
    assert not found, "\n".join(found)


@MANY
@given(making.captures())
def test_captures(made: Made) -> None:
    check_capture(made)


@FEW
@given(making.captures(outlasting=True))
@whole
def test_delegates_that_outlast_their_calls(made: Made) -> None:
    """No time is below 0, no share beyond 0 to 100, and the executes' time is all of their parts."""
    with empty_warehouse() as warehouse:
        asked = Asked(warehouse, warehouse.ingest(made.dump, name="made").name, made.dump)
        assert not list(outside(asked))
        total = asked.dump.total
        assert (
            sum(
                row[0] for row in asked.view("op_totals", "CASE WHEN share_percent IS NULL THEN 0 ELSE total_ticks END")
            )
            == total
        )
        assert sum(row[0] for row in asked.view("execute_breakdown", "total_ticks")) == total


@MANY
@given(st.sampled_from(["correlation", "zero", "none"]).flatmap(lambda ids: making.traces(ids=ids)))
def test_traces_whose_ids_are_others(data: bytes) -> None:
    check_trace(data)


@MANY
@given(making.traces())
def test_traces(data: bytes) -> None:
    check_trace(data)
