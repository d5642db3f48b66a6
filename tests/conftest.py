"""What all tests share: the captures kept beside them, and warehouses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.empty import copy_warehouses, empty_warehouse

pytest.register_assert_rewrite("tests.device_times")

CAPTURES = Path(__file__).parent / "captures"


def shared_file(path: str) -> Path:
    """A capture that others published: read where it lies, beside the checkout or in `$ETQ_SHARED`, never kept here."""
    found = Path(os.environ.get("ETQ_SHARED") or Path(__file__).parents[2] / "shared") / path
    if not found.exists():
        pytest.skip(
            f"other people's captures are not kept here: shared/{path} is missing; ETQ_SHARED tells where it is"
        )
    return found


@pytest.fixture(scope="session", autouse=True)
def _copied() -> Iterator[None]:
    """New warehouses are copies of an empty one; other processes make theirs."""
    with pytest.MonkeyPatch.context() as patch:
        copy_warehouses(patch)
        yield


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    """An empty warehouse in memory."""
    with empty_warehouse() as opened:
        yield opened


@pytest.fixture(scope="session")
def all_captures() -> Iterator[Warehouse]:
    """A warehouse of all real captures, by stem; not to be written to."""
    with etq.open() as opened:
        for path in sorted(CAPTURES.glob("*/*.etdp")):
            if path.parent.name != "malformed":
                opened.ingest(path, name=path.stem) if not _is_copy(path) else None
        yield opened


def _is_copy(path: Path) -> bool:
    """Byte for byte another capture, which has a row already."""
    return path.stem in ("mlp_debug_nobin", "mlp_debug_shortbin")
