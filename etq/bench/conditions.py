"""The conditions under which a capture is measured, from the files in /proc and /sys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from etq.bench.machine import machine_labels, read

_POLICY: Final = "/sys/devices/system/cpu/cpufreq/policy*"
_ZONE: Final = "/sys/class/thermal/thermal_zone*"
_COOLER: Final = "/sys/class/thermal/cooling_device*"
_SENSOR: Final = "/sys/class/hwmon/hwmon*"
_SUPPLY: Final = "/sys/class/power_supply/*"
_COUNTERS: Final = "/sys/devices/system/cpu/cpu*/thermal_throttle"
_RASPBERRY: Final = "/sys/devices/platform/soc/soc:firmware/get_throttled"
# Patterns of the files of a machine that are read.
PATTERNS: Final = (
    "/proc/loadavg",
    "/proc/meminfo",
    *(f"{_POLICY}/{name}" for name in ("scaling_cur_freq", "scaling_min_freq", "scaling_max_freq", "scaling_governor")),
    *(f"{_ZONE}/{name}" for name in ("type", "temp")),
    *(f"{_SENSOR}/{name}" for name in ("name", "temp1_input")),
    *(f"{_COOLER}/{name}" for name in ("type", "cur_state", "max_state")),
    *(f"{_COUNTERS}/{name}" for name in ("core_throttle_count", "package_throttle_count")),
    _RASPBERRY,
    *(f"{_SUPPLY}/{name}" for name in ("type", "scope", "capacity", "temp")),
)
# Matches sensors of processors, by the names that kernels give to zones and chips.
_OF_PROCESSORS: Final = re.compile(
    r"cpu|soc|x86_pkg|coretemp|k10temp|zenpower|tsens|cluster|^apc|^(?:big|mid|little)$", re.IGNORECASE
)
_OF_BATTERIES: Final = re.compile(r"batt|^bms$", re.IGNORECASE)
# Matches sensors of parts that processors hardly heat.
_OF_OTHERS: Final = re.compile(r"charg|usb|modem|mdm|wifi|wlan|iwl|nvme|pa[-_]?therm|^xo|bcl|vbat|ibat", re.IGNORECASE)
_OF_COOLING: Final = re.compile(r"cpu|processor", re.IGNORECASE)
# Readings outside this range, in degrees Celsius, come from sensors that are off or broken, or measure something else.
_COLDEST, _HOTTEST = 1.0, 125.0
# Bits of a Raspberry Pi's status word: the clock is currently capped, throttled, or limited by heat.
_RASPBERRY_SLOWED: Final = 0b1110


@dataclass(frozen=True)
class Conditions:
    """The conditions at one time; None if a machine doesn't report them.

    The metrics have the names and units of the view `known_metrics`.
    """

    load: float | None = None  # the number of processes that ran or waited, averaged over a minute
    clock: float | None = None  # the clock of the fastest processors, in MHz
    clock_floor: float | None = None  # the lowest and the highest clock that their governor may choose
    clock_limit: float | None = None
    governor: str | None = None
    temperature: float | None = None  # the temperature of the hottest processors, or of the device, in degrees Celsius
    battery_temperature: float | None = None
    available_memory: float | None = None  # available memory in MB of 2**20 bytes
    battery: float | None = None  # the battery's charge in %
    throttling: float | None = None  # the share of the processors' cooling steps that are in use, in %
    throttle_count: int | None = None  # how many times heat has slowed the processors since the machine started
    machine: Mapping[str, str] = field(default_factory=dict)  # the machine's labels, see `machine_labels`

    def metrics(self, suffix: str = "") -> dict[str, float]:
        """Return the known metrics, with a suffix added to their names."""
        names = [name for name in _METRICS if name != "clock_floor" or not suffix]
        return {f"{name}{suffix}": value for name in names if (value := getattr(self, name)) is not None}

    def labels(self) -> dict[str, str]:
        """Return the machine's labels, with its governor."""
        return {**self.machine, **({} if self.governor is None else {"governor": self.governor})}


_METRICS: Final = (
    *("load", "clock", "clock_floor", "clock_limit", "temperature", "battery_temperature", "available_memory"),
    *("battery", "throttling"),
)


def metrics_of(before: Conditions, after: Conditions) -> dict[str, float]:
    """Return the metrics of a capture: the conditions before it, the conditions after it as NAME_after, and how often
    heat slowed it.
    """
    metrics = {**before.metrics(), **after.metrics("_after")}
    if before.throttle_count is not None and after.throttle_count is not None:
        metrics["throttled"] = max(0, after.throttle_count - before.throttle_count)
    return metrics


def read_conditions() -> Conditions:
    """Return the conditions of this machine now."""
    return parse_conditions(read(PATTERNS), machine_labels())


def parse_conditions(texts: Mapping[str, str], machine: Mapping[str, str]) -> Conditions:
    """Return the conditions from the texts of the files that `PATTERNS` match."""
    clocks = _clocks(texts)
    fastest = max(clocks.values(), key=lambda each: each.get("scaling_max_freq", 0.0), default={})
    governors = sorted({text.strip() for _, text in _matching(texts, f"{_POLICY}/scaling_governor")} - {""})
    return Conditions(
        load=_number(texts.get("/proc/loadavg", "").partition(" ")[0]),
        clock=fastest.get("scaling_cur_freq"),
        clock_floor=fastest.get("scaling_min_freq"),
        clock_limit=fastest.get("scaling_max_freq"),
        governor="+".join(governors)[:100] or None,
        temperature=_temperature(texts),
        battery_temperature=_battery_temperature(texts),
        available_memory=_available_memory(texts.get("/proc/meminfo", "")),
        battery=_battery(texts),
        throttling=_throttling(texts),
        throttle_count=_throttle_count(texts),
        machine=machine,
    )


def _clocks(texts: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """The clocks of each group of processors, by its folder, in MHz."""
    clocks: dict[str, dict[str, float]] = {}
    for path, text in _matching(texts, f"{_POLICY}/scaling_*_freq"):
        if (value := _number(text)) is not None and value > 0:
            clocks.setdefault(_folder(path), {})[path.rpartition("/")[2]] = value / 1000
    return clocks


def _temperature(texts: Mapping[str, str]) -> float | None:
    """The temperature of the hottest processor; if no processor has a sensor, the temperature of the hottest other
    part.
    """
    sensors = [*_sensors(texts)]
    of_processors = [value for name, value in sensors if _OF_PROCESSORS.search(name)]
    others = [value for name, value in sensors if not _OF_BATTERIES.search(name) and not _OF_OTHERS.search(name)]
    return max(of_processors or others, default=None)


def _battery_temperature(texts: Mapping[str, str]) -> float | None:
    """The temperature of the battery. A power supply reports tenths of a degree."""
    told = [text for path, text in _matching(texts, f"{_SUPPLY}/temp") if _is_main_battery(texts, path)]
    values = [value / 10 for text in told if (value := _number(text)) is not None]
    values += [value for name, value in _sensors(texts) if _OF_BATTERIES.search(name)]
    return next(filter(_is_plausible, values), None)


def _sensors(texts: Mapping[str, str]) -> Iterable[tuple[str, float]]:
    """The name and the plausible temperature of each zone and chip."""
    for of, name, value in ((_ZONE, "type", "temp"), (_SENSOR, "name", "temp1_input")):
        for path, text in _matching(texts, f"{of}/{value}"):
            celsius = _celsius(text)
            if celsius is not None:
                yield texts.get(f"{_folder(path)}/{name}", "").strip(), celsius


def _celsius(text: str) -> float | None:
    """A reading in degrees. Most kernels write thousandths of a degree, but those of some devices write degrees."""
    value = _number(text)
    if value is None:
        return None
    celsius = value / 1000 if abs(value) >= 1000 else value
    return celsius if _is_plausible(celsius) else None


def _is_plausible(celsius: float) -> bool:
    return _COLDEST < celsius < _HOTTEST


def _available_memory(text: str) -> float | None:
    sizes = {name: int(size) for name, size in re.findall(r"^(\w+): +(\d{1,18}) kB$", text, re.MULTILINE)}
    # Kernels before 3.14 don't report available memory.
    free = sum(sizes.get(name, 0) for name in ("MemFree", "Buffers", "Cached"))
    return sizes.get("MemAvailable", free) / 1024 if sizes else None


def _battery(texts: Mapping[str, str]) -> float | None:
    told = [text for path, text in _matching(texts, f"{_SUPPLY}/capacity") if _is_main_battery(texts, path)]
    values = [value for text in told if (value := _number(text)) is not None]
    return next((value for value in values if 0 <= value <= 100), None)


def _is_main_battery(texts: Mapping[str, str], path: str) -> bool:
    """Whether a power supply's file is about the machine's own battery rather than, for example, a mouse's battery."""
    folder = _folder(path)
    return texts.get(f"{folder}/type", "").strip() == "Battery" and texts.get(f"{folder}/scope", "").strip() != "Device"


def _throttling(texts: Mapping[str, str]) -> float | None:
    shares = []
    for path, text in _matching(texts, f"{_COOLER}/cur_state"):
        now, most = _number(text), _number(texts.get(f"{_folder(path)}/max_state", ""))
        if now is not None and most and now <= most and _OF_COOLING.search(texts.get(f"{_folder(path)}/type", "")):
            shares.append(100 * now / most)
    if word := _found(r"^(?:0x)?([0-9a-f]{1,8})$", texts.get(_RASPBERRY, "")):
        shares.append(100.0 if int(word, 16) & _RASPBERRY_SLOWED else 0.0)
    return max(shares, default=None)


def _throttle_count(texts: Mapping[str, str]) -> int | None:
    """How many times heat slowed the processors. Each processor has a counter of its own; the counter of a package is
    repeated on each of the package's processors.
    """
    cores = [_number(text) for _, text in _matching(texts, f"{_COUNTERS}/core_throttle_count")]
    packages = [_number(text) for _, text in _matching(texts, f"{_COUNTERS}/package_throttle_count")]
    known = [package for package in packages if package is not None]
    counts = [core for core in cores if core is not None] + ([max(known)] if known else [])
    return int(sum(counts)) if counts else None


def _matching(texts: Mapping[str, str], pattern: str) -> list[tuple[str, str]]:
    return sorted((path, text) for path, text in texts.items() if fnmatchcase(path, pattern))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return "" if match is None else match[1]


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", text) else None
