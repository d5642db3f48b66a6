from __future__ import annotations

from tests.statistics.fleet import Fleet


def series_rates(fleet: Fleet, count: int) -> dict[str, float]:
    return {}
