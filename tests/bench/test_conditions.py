"""The conditions of machines, by texts as kernels and Android's services write them; waiting and pinning by stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from etq.bench.conditions import Conditions, metrics_of, parse_conditions, pin, read_conditions, wait_until_cool
from etq.bench.hosts import Host, HostError
from etq.bench.hosts.adb import AdbHost, android_labels
from etq.bench.hosts.local import LocalHost
from etq.bench.hosts.ssh import SshHost
from etq.bench.hosts.system import linux_labels
from etq.warehouse.warehouse import Warehouse
from tests.bench.lab import Lab, make_lab

CPU = "/sys/devices/system/cpu"
THERMAL = "/sys/class/thermal"
SUPPLY = "/sys/class/power_supply"

# A laptop with an Intel processor, under load.
LAPTOP = {
    "/proc/loadavg": "3.42 1.05 0.51 4/1234 98765\n",
    "/proc/meminfo": "MemTotal:       16274148 kB\nMemFree:          812544 kB\nMemAvailable:    9437184 kB\nBuffers:          331776 kB\n"
    "Cached:          7340032 kB\nHugePages_Total:       0\n",
    **{f"{CPU}/cpufreq/policy{n}/scaling_cur_freq": f"{khz}\n" for n, khz in ((0, 3700123), (1, 800000))},
    **{f"{CPU}/cpufreq/policy{n}/scaling_min_freq": "400000\n" for n in (0, 1)},
    **{f"{CPU}/cpufreq/policy{n}/scaling_max_freq": f"{khz}\n" for n, khz in ((0, 4700000), (1, 3500000))},
    **{f"{CPU}/cpufreq/policy{n}/scaling_governor": "powersave\n" for n in (0, 1)},
    f"{THERMAL}/thermal_zone0/type": "acpitz\n",
    f"{THERMAL}/thermal_zone0/temp": "27800\n",
    f"{THERMAL}/thermal_zone1/type": "x86_pkg_temp\n",
    f"{THERMAL}/thermal_zone1/temp": "71000\n",
    f"{THERMAL}/thermal_zone2/type": "iwlwifi_1\n",
    f"{THERMAL}/thermal_zone2/temp": "88000\n",
    f"{THERMAL}/cooling_device0/type": "Processor\n",
    f"{THERMAL}/cooling_device0/cur_state": "3\n",
    f"{THERMAL}/cooling_device0/max_state": "10\n",
    f"{THERMAL}/cooling_device1/type": "Fan\n",
    f"{THERMAL}/cooling_device1/cur_state": "1\n",
    f"{THERMAL}/cooling_device1/max_state": "1\n",
    **{f"{CPU}/cpu{n}/thermal_throttle/core_throttle_count": f"{count}\n" for n, count in ((0, 5), (1, 2))},
    **{f"{CPU}/cpu{n}/thermal_throttle/package_throttle_count": "40\n" for n in (0, 1)},
    f"{SUPPLY}/AC/type": "Mains\n",
    f"{SUPPLY}/BAT0/type": "Battery\n",
    f"{SUPPLY}/BAT0/capacity": "97\n",
    f"{SUPPLY}/hidpp_battery_0/type": "Battery\n",
    f"{SUPPLY}/hidpp_battery_0/scope": "Device\n",
    f"{SUPPLY}/hidpp_battery_0/capacity": "5\n",
}
# A phone whose shell may read sensors: readings of some are not of a temperature, or those of a sensor that is off.
PHONE = {
    "/proc/loadavg": "11.27 11.70 11.90 2/3456 23456\n",
    "/proc/meminfo": "MemTotal:        7752680 kB\nMemFree:          204800 kB\nBuffers:            4096 kB\nCached:          1048576 kB\n",
    f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1401000\n",
    f"{CPU}/cpufreq/policy0/scaling_min_freq": "300000\n",
    f"{CPU}/cpufreq/policy0/scaling_max_freq": "1704000\n",
    f"{CPU}/cpufreq/policy0/scaling_governor": "sched_pixel\n",
    f"{CPU}/cpufreq/policy4/scaling_cur_freq": "1164000\n",
    f"{CPU}/cpufreq/policy4/scaling_min_freq": "500000\n",
    f"{CPU}/cpufreq/policy4/scaling_max_freq": "2914000\n",
    f"{CPU}/cpufreq/policy4/scaling_governor": "performance\n",
    **{
        f"{THERMAL}/thermal_zone{n}/{name}": f"{text}\n"
        for n, (type, temp) in enumerate(
            [
                ("cpu-0-0-usr", "-40000"), ("cpu-0-1-usr", "52300"), ("cpu-1-0-usr", "0"), ("cpuss-0", "125000"),
                ("BIG", "61"), ("soc", "2147483647"), ("battery", "33500"), ("vbat", "3987"), ("pm8150-bcl-lvl0", "97000"),
            ]
        )
        for name, text in (("type", type), ("temp", temp))
    },
    f"{THERMAL}/cooling_device0/type": "thermal-cpufreq-0\n",
    f"{THERMAL}/cooling_device0/cur_state": "0\n",
    f"{THERMAL}/cooling_device0/max_state": "14\n",
    "dumpsys battery": "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  Max charging current: 500000\n"
    "  status: 2\n  health: 2\n  present: true\n  level: 76\n  scale: 100\n  voltage: 4207\n  temperature: 315\n  technology: Li-ion\n",
}  # fmt: skip
# A phone that tells temperatures only by its service.
SERVICE = """IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 2
Thermal Status: 2
Cached temperatures:
\tTemperature{mValue=99.0, mType=0, mName=BIG, mStatus=0}
HAL Ready: true
HAL connection:
\tThermalHAL 2.0 connected: yes
Current temperatures from HAL:
\tTemperature{mValue=45.2, mType=3, mName=VIRTUAL-SKIN, mStatus=2}
\tTemperature{mValue=38.9, mType=2, mName=battery, mStatus=0}
\tTemperature{mValue=63.5, mType=0, mName=BIG, mStatus=0}
\tTemperature{mValue=0.0, mType=0, mName=LITTLE, mStatus=0}
\tTemperature{mValue=3.1415, mType=6, mName=vbat, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=1, mType=2, mName=thermal-cpufreq-2}
Temperature static thresholds from HAL:
\tTemperatureThreshold{mType=3, mName=VIRTUAL-SKIN, mHotThrottlingThresholds=[NaN, 39.0, 43.0]}
"""


def test_a_laptop() -> None:
    assert parse_conditions(LAPTOP, {"device": "x"}) == Conditions(
        load=3.42,
        clock=3700.123,
        clock_floor=400,
        clock_limit=4700,
        governor="powersave",
        temperature=71,
        available_memory=9216,
        battery=97,
        throttling=30,
        throttle_count=47,
        machine={"device": "x"},
    )


def test_a_phone() -> None:
    """Its kernel doesn't tell what memory is available; a sensor tells degrees, the others thousandths."""
    assert parse_conditions(PHONE, {}) == Conditions(
        load=11.27,
        clock=1164,
        clock_floor=500,
        clock_limit=2914,
        governor="performance+sched_pixel",
        temperature=61,
        battery_temperature=31.5,
        available_memory=1228,
        battery=76,
        throttling=0,
    )


@pytest.mark.parametrize(
    ("service", "temperature", "battery", "status"),
    [
        (SERVICE, 63.5, 38.9, 2),
        (SERVICE.replace("mType=0", "mType=7"), 45.2, 38.9, 2),
        (SERVICE.partition("HAL Ready")[0], 99, None, 2),
        ("Can't find service: thermalservice\n", None, None, None),
    ],
)
def test_a_phone_that_tells_by_its_service(
    service: str, temperature: float | None, battery: float | None, status: float | None
) -> None:
    found = parse_conditions({"dumpsys thermalservice": service}, {})
    assert found == Conditions(temperature=temperature, battery_temperature=battery, thermal_status=status)


@pytest.mark.parametrize(
    ("texts", "temperature"),
    [
        ({f"{THERMAL}/thermal_zone0/type": "acpitz\n", f"{THERMAL}/thermal_zone0/temp": "27800\n"}, 27.8),
        ({f"{THERMAL}/thermal_zone0/type": "wifi\n", f"{THERMAL}/thermal_zone0/temp": "55000\n"}, None),
        ({f"{THERMAL}/thermal_zone0/type": "cpu\n", f"{THERMAL}/thermal_zone0/temp": "\n"}, None),
        ({f"{THERMAL}/thermal_zone0/temp": "41000\n"}, 41),
        ({"/sys/class/hwmon/hwmon2/name": "k10temp\n", "/sys/class/hwmon/hwmon2/temp1_input": "63125\n"}, 63.125),
        ({"/sys/class/hwmon/hwmon0/name": "nvme\n", "/sys/class/hwmon/hwmon0/temp1_input": "49850\n"}, None),
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


@pytest.mark.parametrize("text", ["", "\n", "x", "-1e5", "nan", "9" * 400, "1" * 70000, "\\xff\\xfe"])
def test_texts_that_say_nothing(text: str) -> None:
    """None of them is an error; what they say is unknown, or nothing that can't be."""
    found = parse_conditions(dict.fromkeys([*LAPTOP, *PHONE, "dumpsys thermalservice"], text), {})
    assert found.metrics() == {} and found.throttle_count is None


def test_metrics_of_a_capture(warehouse: Warehouse) -> None:
    """All of them have a unit and a meaning, and no direction: they are conditions."""
    before, after = parse_conditions(LAPTOP, {}), parse_conditions({**PHONE, "dumpsys thermalservice": SERVICE}, {})
    count = {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "12\n"}
    both = parse_conditions({**LAPTOP, **PHONE, **count, "dumpsys thermalservice": SERVICE}, {})
    assert metrics_of(before, both)["throttled"] == 7
    metrics = metrics_of(both, both)
    known = {row[0]: row for row in warehouse.rows("SELECT name, unit, better, meaning FROM known_metrics")[1]}
    assert [name for name in metrics if name not in known] == []
    assert {known[name][2] for name in metrics} == {None}
    assert {name for name in metrics if known[name][1] is None} == {"thermal_status", "thermal_status_after"}
    assert metrics_of(before, after) == {
        "load": 3.42, "clock": 3700.123, "clock_floor": 400, "clock_limit": 4700, "temperature": 71,
        "available_memory": 9216, "battery": 97, "throttling": 30,
        "load_after": 11.27, "clock_after": 1164, "clock_limit_after": 2914, "temperature_after": 61,
        "battery_temperature_after": 31.5, "available_memory_after": 1228, "battery_after": 76, "throttling_after": 0,
        "thermal_status_after": 2,
    }  # fmt: skip


def test_labels_of_linux() -> None:
    texts = {
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nID=ubuntu\n',
        "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Core(TM) i7-1185G7, 3.00GHz\n",
        "/proc/sys/kernel/hostname": "lab1\n",
        "/proc/sys/kernel/osrelease": "6.8.0-41-generic\n",
        "/sys/class/dmi/id/sys_vendor": "LENOVO\n",
        "/sys/class/dmi/id/product_name": "20XW\n",
    }
    expected = {
        "device": "LENOVO 20XW",
        "soc": "Intel(R) Core(TM) i7-1185G7 3.00GHz",
        "os": "Ubuntu 24.04.1 LTS",
        "os_build": "6.8.0-41-generic",
        "host": "lab1",
    }
    assert linux_labels(texts) == expected
    unnamed = {"/sys/class/dmi/id/product_name": "To Be Filled By O.E.M.\n"}
    assert linux_labels({**texts, **unnamed})["device"] == "lab1"
    assert linux_labels({}) == {"os": "Linux"}


def test_labels_of_android() -> None:
    text = "ro.product.manufacturer=samsung\nro.product.model=SM-S918B\nro.soc.model=\nro.board.platform=kalama\n"
    assert android_labels(text) == {"device": "samsung SM-S918B", "soc": "kalama", "os": "Android"}
    assert android_labels("ro.product.manufacturer=OnePlus\nro.product.model=OnePlus 12\n")["device"] == "OnePlus 12"
    assert android_labels("") == {"os": "Android"}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return make_lab(tmp_path / "lab", monkeypatch)


def test_a_device_by_adb(lab: Lab) -> None:
    host = AdbHost()
    host.connect()
    conditions = read_conditions(host)
    assert conditions.metrics() == {
        "load": 2.05, "clock": 2914, "clock_floor": 500, "clock_limit": 2914, "temperature": 48.312,
        "battery_temperature": 31.5, "available_memory": 2048, "battery": 80, "thermal_status": 1,
    }  # fmt: skip
    assert conditions.labels()["governor"] == "schedutil" and conditions.labels()["device"] == "Google Pixel 8"
    calls = lab.calls(" shell ")
    read_conditions(host)
    assert lab.calls(" shell ") == calls + 1  # what it is, is asked once


def test_a_board_by_ssh(lab: Lab) -> None:
    (lab.folder / "bin/dumpsys").unlink()
    host = SshHost("board")
    host.connect()
    assert read_conditions(host).metrics() == {
        "load": 2.05, "clock": 2914, "clock_floor": 500, "clock_limit": 2914, "temperature": 48.312,
        "battery_temperature": 31, "available_memory": 2048,
    }  # fmt: skip
    host.close()


def test_this_machine() -> None:
    found = read_conditions(LocalHost())
    assert found.load is not None and found.available_memory is not None and found.machine == LocalHost().labels()


def test_it_waits_until_a_hot_device_is_cool(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.bench.conditions.POLL_SECONDS", 0.01)
    (lab.folder / "cooling").write_text("66100\n52000\n41000\n")
    host, said = AdbHost(), list[str]()
    host.connect()
    wait_until_cool(host, 45, say=said.append)
    assert said == [f"adb 1A2B3C: {now} °C; waiting until it is below 45 °C" for now in ("66.1", "52.0")]
    wait_until_cool(host, 45, say=said.append)
    assert len(said) == 2


def test_a_device_that_does_not_cool(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etq.bench.conditions.POLL_SECONDS", 0.01)
    host = AdbHost()
    host.connect()
    with pytest.raises(HostError) as raised:
        wait_until_cool(host, 40, 0.05)
    assert str(raised.value) == (
        "adb 1A2B3C: is at 48.3 °C after 0.05 s of waiting to be below 40 °C; cool it, or raise --max-celsius"
    )
    for zone in (0, 1):
        lab.file(f"sys/class/thermal/thermal_zone{zone}/temp", "-40000\n")
    with pytest.raises(HostError, match="^adb 1A2B3C: tells no temperature; leave out --max-celsius$"):
        wait_until_cool(host, 40)


def floors(lab: Lab) -> list[str]:
    paths = sorted(lab.root.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_min_freq"))
    return [path.read_text().strip() for path in paths]


def test_pinned_clocks_are_restored_after_an_error(lab: Lab) -> None:
    host: Host
    for host in (AdbHost(), SshHost("board")):
        host.connect()
        try:
            assert pin(host) == (2, 2)
            assert floors(lab) == ["1704000", "2914000"]
            assert pin(host) == (2, 2)
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            host.close()
        assert floors(lab) == ["300000", "500000"]
        host.close()


def test_clocks_that_may_not_be_pinned_stay(lab: Lab) -> None:
    path = lab.root / "sys/devices/system/cpu/cpufreq/policy4/scaling_min_freq"
    path.unlink()
    path.symlink_to("/proc/version")  # which nobody may write
    host = AdbHost()
    host.connect()
    assert pin(host) == (1, 2)
    host.close()
    assert (lab.root / "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq").read_text() == "300000\n"


def test_a_lost_device_whose_clocks_stay_pinned(lab: Lab) -> None:
    host = AdbHost()
    host.connect()
    pin(host)
    (lab.folder / "devices").write_text("\n")
    with pytest.raises(HostError) as raised:
        host.close()
    policy = f"{CPU}/cpufreq/policy"
    assert str(raised.value) == (
        "adb 1A2B3C: what was pinned can't be undone; restart it, or write back: "
        f"{policy}0/scaling_min_freq had 300000; {policy}4/scaling_min_freq had 500000"
    )


def test_a_machine_without_clocks_is_not_pinned(lab: Lab) -> None:
    for path in lab.root.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq"):
        path.unlink()
    host = AdbHost()
    host.connect()
    assert pin(host) == (0, 0)
