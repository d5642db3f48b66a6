"""Warehouses as users make them: what happens to files is what is tested here."""

from __future__ import annotations

import pytest

from etq.database import connection as connecting
from etq.warehouse import warehouse


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "connect", connecting.connect)
