"""A lab of devices that are stand-ins: see stand_in.py."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parent / "stand_in.py"
PIXEL = "1A2B3C                 device usb:1-2 product:shiba model:Pixel_8 device:shiba transport_id:4\n"
# What programs of a device answer: as Android 14 on a Pixel 8 does.
PROGRAMS = {
    "getprop": """case $1 in
ro.product.manufacturer) echo Google;; ro.product.model) echo "Pixel 8";;
ro.soc.manufacturer) echo Google;; ro.soc.model) echo "Tensor G3";;
ro.build.version.release) echo 14;; ro.build.fingerprint) echo google/shiba/shiba:14/AP2A.240805.005/12025142:user/release-keys;;
*) echo;;
esac
""",
    "dumpsys": 'cat "$STAND_IN_ROOT/dumpsys-$1"\n',
}
FILES = {
    "proc/loadavg": "2.05 1.70 1.20 3/2345 12345\n",
    "proc/meminfo": "MemTotal:        7752680 kB\nMemFree:          204800 kB\nMemAvailable:    2097152 kB\nCached:  1024 kB\n",
    "proc/sys/kernel/hostname": "board7\n",
    "proc/sys/kernel/osrelease": "6.6.31+rpt-rpi-v8\n",
    "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48312\n",
    "sys/class/thermal/thermal_zone1/type": "battery\n",
    "sys/class/thermal/thermal_zone1/temp": "31000\n",
    "dumpsys-battery": "Current Battery Service state:\n  USB powered: true\n  level: 80\n  scale: 100\n  temperature: 315\n",
    "dumpsys-thermalservice": "IsStatusOverride: false\nThermal Status: 1\n",
}
POLICIES = {
    "policy0": {"scaling_cur_freq": "300000", "scaling_min_freq": "300000", "scaling_max_freq": "1704000"},
    "policy4": {"scaling_cur_freq": "2914000", "scaling_min_freq": "500000", "scaling_max_freq": "2914000"},
}


class Lab:
    """Devices' files, programs and failures, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        for name, text in FILES.items():
            self.file(name, text)
        for policy, texts in POLICIES.items():
            for name, text in {**texts, "scaling_governor": "schedutil"}.items():
                self.file(f"sys/devices/system/cpu/cpufreq/{policy}/{name}", f"{text}\n")
        (self.root / "data/local/tmp").mkdir(parents=True)
        (self.root / "home").mkdir()
        for name, text in PROGRAMS.items():
            self.program(f"bin/{name}", text)
        for name in ("adb", "ssh"):
            self.program(f"clients/{name}", f'exec {sys.executable} -I -S {STAND_IN} {name} "$@"\n')
        (folder / "devices").write_text(PIXEL)
        self.fail("")

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)
        return path

    def fail(self, how: str, when: str = "") -> None:
        (self.folder / "fails.json").write_text(json.dumps({"how": how, "when": when}))

    def calls(self, containing: str) -> int:
        return sum(containing in line for line in (self.folder / "calls").read_text().splitlines())

    def pushed(self) -> list[str]:
        """The names of the files in the device's folder."""
        places = (self.root / "data/local/tmp/etq-bench", self.root / "home/.cache/etq-bench")
        return sorted(path.name for place in places if place.exists() for path in place.iterdir())


def make_lab(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose adb and ssh are on PATH."""
    made = Lab(folder)
    monkeypatch.setenv("STAND_IN", str(made.folder))
    monkeypatch.setenv("PATH", f"{made.folder / 'clients'}:{os.environ['PATH']}")
    return made


_NUMBERS = itertools.count()


def long_time() -> str:
    """Seconds to sleep that no other process sleeps, of another test or of another run of the tests."""
    return f"4700.{os.getpid()}{next(_NUMBERS):03}"


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Interrupts this process, as Ctrl-C does, also where a shell that started the tests has them ignore that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)


def processes_with(word: str) -> list[int]:
    """The processes that have a word among theirs, those that are ending left out after a moment."""
    for _ in range(50):
        found = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if word in _words(pid)]
        if not found:
            break
        time.sleep(0.05)
    return found


def _words(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [word.decode(errors="replace") for word in words]
