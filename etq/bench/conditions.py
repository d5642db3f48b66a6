"""The conditions of a measurement: load, clocks, temperatures, memory, throttling and battery, of Linux and Android."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from etq.bench.hosts import Host, HostError

_LOAD, _MEMORY = "/proc/loadavg", "/proc/meminfo"
_CPUS: Final = "/sys/devices/system/cpu"
_CLOCK, _GOVERNOR = "scaling_cur_freq", "scaling_governor"
FILES: Final = (
    _LOAD,
    _MEMORY,
    f"{_CPUS}/cpufreq/policy*/{_CLOCK}",
    f"{_CPUS}/cpufreq/policy*/{_GOVERNOR}",
    f"{_CPUS}/cpu*/thermal_throttle/*_throttle_count",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/power_supply/*/capacity",
)
# Sensors that are off or broken report values outside of these, in degrees Celsius.
_COLDEST, _HOTTEST = -40.0, 150.0
# How often a machine that cools is asked for its temperature, and for how long, in seconds.
_EVERY, _LONGEST = 5.0, 900.0


@dataclass(frozen=True)
class Conditions:
    """What the files of a machine said at a time; None for what it doesn't tell."""

    load: float | None = None  # processes that ran or waited, the mean over a minute
    clock: float | None = None  # MHz, the mean over the groups of processors
    temperature: float | None = None  # degrees Celsius, of the warmest sensor
    available_memory: float | None = None  # MB of 2**20 bytes
    battery: float | None = None  # percent
    throttled: int | None = None  # times that a processor was slowed because of its temperature, since the start
    governor: str | None = None


def read_conditions(host: Host) -> Conditions:
    """Ask a machine for its conditions. Raises `HostError` if it doesn't answer."""
    return conditions_of(host.read(FILES))


def conditions_of(texts: Mapping[str, str]) -> Conditions:
    """Return the conditions that files state, by their paths."""
    memory = re.search(r"^MemAvailable:\s*(\d+) kB", texts.get(_MEMORY, ""), re.MULTILINE)
    clocks = _numbers(texts, _CLOCK)
    degrees = [number / 1000 for number in _numbers(texts, "/temp")]
    throttled = _numbers(texts, "_throttle_count")
    battery = _numbers(texts, "/capacity")
    governors = sorted({text.strip() for path, text in texts.items() if path.endswith(_GOVERNOR)} - {""})
    return Conditions(
        load=_number(texts.get(_LOAD, "").partition(" ")[0]),
        clock=sum(clocks) / len(clocks) / 1000 if clocks else None,
        temperature=max((each for each in degrees if _COLDEST < each < _HOTTEST and each != 0), default=None),
        available_memory=int(memory[1]) / 1024 if memory else None,
        battery=battery[0] if battery else None,
        throttled=int(sum(throttled)) if throttled else None,
        governor=", ".join(governors) or None,
    )


def metrics_of(before: Conditions, after: Conditions) -> dict[str, Any]:
    """Return the metrics of a capture, as a sidecar states them: what was before it, and what changed."""
    units = {"load": "processes", "clock": "MHz", "temperature": "degC", "available_memory": "MB", "battery": "%"}
    metrics = {name: (getattr(before, name), unit) for name, unit in units.items()}
    metrics["temperature_after"] = (after.temperature, "degC")
    if before.throttled is not None and after.throttled is not None:
        metrics["throttled"] = (after.throttled - before.throttled, "times")
    return {name: {"value": value, "unit": unit} for name, (value, unit) in metrics.items() if value is not None}


def wait_until_cool(host: Host, celsius: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until the warmest sensor of a machine is below a temperature.

    Raises `HostError` if the machine has no sensor, or is as warm after 15 minutes.
    """
    for _ in range(int(_LONGEST / _EVERY)):
        temperature = read_conditions(host).temperature
        if temperature is None:
            raise HostError(f"{host.name}: shows no temperature; measure without --max-celsius")
        if temperature < celsius:
            return
        sleep(_EVERY)
    raise HostError(
        f"{host.name}: {temperature:.1f} degC after {_LONGEST / 60:.0f} minutes; allow more with --max-celsius, or "
        "let it cool"
    )


def _numbers(texts: Mapping[str, str], ending: str) -> list[float]:
    found = (_number(text) for path, text in texts.items() if path.endswith(ending))
    return [number for number in found if number is not None]


def _number(text: str) -> float | None:
    try:
        number = float(text.strip())
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None
