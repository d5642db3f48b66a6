"""The conditions of machines, by texts as kernels write them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from etq.bench.conditions import Conditions, metrics_of, parse_conditions
from etq.warehouse.warehouse import Warehouse

CPU = "/sys/devices/system/cpu"
THERMAL = "/sys/class/thermal"
SUPPLY = "/sys/class/power_supply"


def files(start: str, **contents: object) -> dict[str, str]:
    """Files whose paths begin alike, each with a line."""
    return {f"{start}{name}": f"{content}\n" for name, content in contents.items()}


# A laptop with an Intel processor, under load.
LAPTOP = {
    "/proc/loadavg": "3.42 1.05 0.51 4/1234 98765\n",
    "/proc/meminfo": "MemTotal:       16274148 kB\nMemFree:          812544 kB\nMemAvailable:    9437184 kB\nBuffers:          331776 kB\n"
    "Cached:          7340032 kB\nHugePages_Total:       0\n",
    **files(
        f"{CPU}/cpufreq/policy0/scaling_", cur_freq=3700123, min_freq=400000, max_freq=4700000, governor="powersave"
    ),
    **files(
        f"{CPU}/cpufreq/policy1/scaling_", cur_freq=800000, min_freq=400000, max_freq=3500000, governor="powersave"
    ),
    **files(f"{THERMAL}/thermal_zone0/", type="acpitz", temp=27800),
    **files(f"{THERMAL}/thermal_zone1/", type="x86_pkg_temp", temp=71000),
    **files(f"{THERMAL}/thermal_zone2/", type="iwlwifi_1", temp=88000),
    **files(f"{THERMAL}/cooling_device0/", type="Processor", cur_state=3, max_state=10),
    **files(f"{THERMAL}/cooling_device1/", type="Fan", cur_state=1, max_state=1),
    **files(f"{CPU}/cpu0/thermal_throttle/", core_throttle_count=5, package_throttle_count=40),
    **files(f"{CPU}/cpu1/thermal_throttle/", core_throttle_count=2, package_throttle_count=40),
    **files(f"{SUPPLY}/AC/", type="Mains"),
    **files(f"{SUPPLY}/BAT0/", type="Battery", capacity=97),
    **files(f"{SUPPLY}/hidpp_battery_0/", type="Battery", scope="Device", capacity=5),
}
ZONES = [
    ("cpu-0-0-usr", -40000), ("cpu-0-1-usr", 52300), ("cpu-1-0-usr", 0), ("cpuss-0", 125000), ("BIG", 61),
    ("soc", 2147483647), ("battery", 33500), ("vbat", 3987), ("pm8150-bcl-lvl0", 97000),
]  # fmt: skip
# A phone whose shell may read sensors: readings of some are not of a temperature, or those of a sensor that is off.
PHONE = {
    "/proc/loadavg": "11.27 11.70 11.90 2/3456 23456\n",
    "/proc/meminfo": "MemTotal:        7752680 kB\nMemFree:          204800 kB\nBuffers:            4096 kB\nCached:          1048576 kB\n",
    **files(f"{CPU}/cpufreq/policy0/scaling_", cur_freq=1401000, min_freq=300000, max_freq=1704000, governor="sched_pixel"),
    **files(f"{CPU}/cpufreq/policy4/scaling_", cur_freq=1164000, min_freq=500000, max_freq=2914000, governor="performance"),
    **files(f"{THERMAL}/cooling_device0/", type="thermal-cpufreq-0", cur_state=0, max_state=14),
    **files(f"{SUPPLY}/battery/", type="Battery", capacity=76, temp=315),
}  # fmt: skip
for _at, (_type, _temp) in enumerate(ZONES):
    PHONE |= files(f"{THERMAL}/thermal_zone{_at}/", type=_type, temp=_temp)


def test_a_laptop() -> None:
    assert parse_conditions(LAPTOP, {"device": "x"}) == Conditions(
        load=3.42, clock=3700.123, clock_floor=400, clock_limit=4700, governor="powersave", temperature=71,
        available_memory=9216, battery=97, throttling=30, throttle_count=47, machine={"device": "x"},
    )  # fmt: skip


def test_a_phone() -> None:
    """Its kernel doesn't tell what memory is available; a sensor tells degrees, the others thousandths."""
    assert parse_conditions(PHONE, {}) == Conditions(
        load=11.27, clock=1164, clock_floor=500, clock_limit=2914, governor="performance+sched_pixel", temperature=61,
        battery_temperature=31.5, available_memory=1228, battery=76, throttling=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "temperature"),
    [
        ({f"{THERMAL}/thermal_zone0/type": "acpitz\n", f"{THERMAL}/thermal_zone0/temp": "27800\n"}, 27.8),
        ({f"{THERMAL}/thermal_zone0/type": "wifi\n", f"{THERMAL}/thermal_zone0/temp": "55000\n"}, None),
        ({"/sys/class/hwmon/hwmon2/name": "k10temp\n", "/sys/class/hwmon/hwmon2/temp1_input": "63125\n"}, 63.125),
    ],
)
def test_sensors(texts: Mapping[str, str], temperature: float | None) -> None:
    assert parse_conditions(texts, {}).temperature == temperature


@pytest.mark.parametrize(
    ("word", "throttling"), [("0\n", 0), ("50000\n", 0), ("50005\n", 100), ("0x8\n", 100), ("x\n", None)]
)
def test_a_raspberry_pi(word: str, throttling: float | None) -> None:
    """Bits 0 and 16 are of the voltage, 1 to 3 of what slows it now, 17 to 19 of what did since its start."""
    texts = {"/sys/devices/platform/soc/soc:firmware/get_throttled": word}
    assert parse_conditions(texts, {}) == Conditions(throttling=throttling)


def test_texts_that_say_nothing() -> None:
    """None of them is an error; what they say is unknown, or nothing that can't be."""
    for text in ("", "\n", "x", "-1e5", "nan", "9" * 400, "1" * 70000, "\\xff\\xfe"):
        found = parse_conditions(dict.fromkeys([*LAPTOP, *PHONE], text), {})
        assert found.metrics() == {} and found.throttle_count is None, text


def test_metrics_of_a_capture(warehouse: Warehouse) -> None:
    """All of them have a unit and a meaning, and no direction: they are conditions."""
    before, after = parse_conditions(LAPTOP, {}), parse_conditions(PHONE, {})
    count = {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "12\n"}
    both = parse_conditions({**LAPTOP, **PHONE, **count}, {})
    assert metrics_of(before, both)["throttled"] == 7
    metrics = metrics_of(both, both)
    known = {row[0]: row for row in warehouse.rows("SELECT name, unit, better, meaning FROM known_metrics")[1]}
    assert [name for name in metrics if name not in known] == []
    assert {known[name][2] for name in metrics} == {None}
    assert all(known[name][1] is not None for name in metrics)
    assert metrics_of(before, after) == {
        "load": 3.42, "clock": 3700.123, "clock_floor": 400, "clock_limit": 4700, "temperature": 71,
        "available_memory": 9216, "battery": 97, "throttling": 30,
        "load_after": 11.27, "clock_after": 1164, "clock_limit_after": 2914, "temperature_after": 61,
        "battery_temperature_after": 31.5, "available_memory_after": 1228, "battery_after": 76, "throttling_after": 0,
    }  # fmt: skip
