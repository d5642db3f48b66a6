"""One open warehouse in several threads, and once it is closed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import etq
from etq.errors import WarehouseError
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long


def test_threads_share_a_warehouse(tmp_path: Path) -> None:
    """Each gets its own answers, while others ask and write."""
    models = ("mlp", "convnet", "cond", "bf16")
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        for model in models:
            warehouse.ingest(CAPTURES / model / f"{model}.etdp", name=model)

        def ask(model: str) -> list[object]:
            answers: list[object] = []
            for number in range(40):
                answers.append(warehouse.capture(model).name)
                answers += warehouse.rows("SELECT c.name FROM captures AS c WHERE c.name = $name", name=model)[1][0]
                if number % 10 == 0:
                    answers.append(warehouse.label(model, number=str(number))["number"] == str(number) and model)
            return answers

        with ThreadPoolExecutor(4) as pool:
            for model, answers in zip(models, pool.map(ask, models), strict=True):
                assert answers == [model] * 84


def test_a_closed_warehouse_stays_closed(tmp_path: Path) -> None:
    warehouse = etq.open(tmp_path / "lab.duckdb")
    warehouse.close()
    with pytest.raises(WarehouseError, match="is closed"):
        warehouse.compact()
    assert not warehouse.is_open
