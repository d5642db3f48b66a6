"""Expected device times of a trace, and checks of the views' answers against these and against each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse


@dataclass
class DeviceTimes:
    """Nanoseconds of the work of a trace's devices: by ops and annotations, by ops alone, by kernels and streams.

    `total` is torch's sum over all calls; `once` counts an event once for each op and each annotation,
    by name, that it was launched within.
    """

    device_total: int = 0
    without_op: int = 0  # of neither op nor annotation
    own: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    once: Counter[str] = field(default_factory=Counter)
    own_of_ops: Counter[str] = field(default_factory=Counter)
    once_of_ops: Counter[str] = field(default_factory=Counter)
    kernels: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    streams: Counter[tuple[int | None, int | None]] = field(default_factory=Counter)


def rows_of(warehouse: Warehouse, query: str, **given: Any) -> dict[Any, Any]:
    return {row[0]: row[1] if len(row) == 2 else row[1:] for row in warehouse.rows(query, **given)[1]}


def positive(times: dict[Any, Any]) -> dict[Any, Any]:
    return {key: pytest.approx(value, rel=1e-12) for key, value in times.items() if value}


def check(warehouse: Warehouse, capture: str, expected: DeviceTimes) -> None:
    """Check that each view returns the expected times, and that they add up to the sum of the devices' events."""
    averages = """
        SELECT name, sum(self_device_time), sum(torch_device_time_total), sum(device_time_total)
        FROM key_averages($c, unit := 'ns')
        WHERE NOT is_device
        GROUP BY name
    """
    found = rows_of(warehouse, averages, c=capture)
    own, total, once = ({name: times[place] for name, times in found.items()} for place in range(3))
    assert own.pop("(no op)", 0) == expected.without_op
    assert total.pop("(no op)", 0) == once.pop("(no op)", 0) == expected.without_op
    assert {name: time for name, time in own.items() if time} == positive(expected.own)
    assert {name: time for name, time in total.items() if time} == positive(expected.total)
    assert {name: time for name, time in once.items() if time} == positive(expected.once)
    adds_up = sum(time or 0 for time in own.values()) + expected.without_op
    assert adds_up == pytest.approx(expected.device_total, rel=1e-12)
    ops = "SELECT name, device_self_time, device_total_time FROM operator_table($c, unit := 'ns')"
    of_ops = rows_of(warehouse, ops, c=capture)
    assert {name: times[0] for name, times in of_ops.items() if times[0]} == positive(expected.own_of_ops)
    assert {name: times[1] for name, times in of_ops.items() if times[1]} == positive(expected.once_of_ops)
    kernels = rows_of(warehouse, "SELECT kernel, calls, total FROM kernel_table($c, unit := 'ns')", c=capture)
    assert {name: (calls, round(ticks)) for name, (calls, ticks) in kernels.items()} == {
        name: (len(ticks), sum(ticks)) for name, ticks in expected.kernels.items()
    }
    streams = """
        SELECT (d.device, d.stream), sum(e.duration_ticks)
        FROM device_events AS d
        JOIN events AS e ON e.capture_id = d.capture_id AND e.event_index = d.event_index
        WHERE d.capture_id = _capture_id($c)
            AND e.category NOT IN ('cuda_sync', 'gpu_user_annotation')
        GROUP BY ALL
    """
    by_stream = {tuple(key): ticks for key, ticks in rows_of_structs(warehouse, streams, capture)}
    assert by_stream == dict(expected.streams)
    assert sum(by_stream.values()) == expected.device_total


def rows_of_structs(warehouse: Warehouse, query: str, capture: str) -> list[tuple[Any, int]]:
    found = warehouse.rows(query, c=capture)[1]
    return [(tuple(key.values()) if isinstance(key, dict) else key, int(ticks)) for key, ticks in found]
