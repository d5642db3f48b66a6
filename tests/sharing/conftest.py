"""Warehouses as users make them, because these tests are about files."""

from __future__ import annotations

import pytest

from etq.database import connection as connecting
from etq.warehouse import warehouse


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "connect", connecting.connect)
