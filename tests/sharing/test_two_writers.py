"""Two processes write to one warehouse while a third reads it: nothing is lost, doubled or torn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sharing.test_many_at_once import check_many_at_once


@pytest.mark.long
def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    check_many_at_once(tmp_path, writers=2, each=2, shared=1, readers=1)
