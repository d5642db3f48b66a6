"""An Android device, reached by adb."""

from __future__ import annotations

import re
from typing import Final

from etq.bench.hosts import HostError
from etq.bench.hosts.child import last_lines
from etq.bench.hosts.remote import RemoteHost
from etq.bench.hosts.system import clean_labels

# The one folder that the user of adb's shell may write and run programs in.
_FOLDER: Final = "/data/local/tmp/etq-bench"
_READY: Final = "device"
# What to do about a device's state, as `adb devices` calls it.
_STATES: Final = {
    "offline": "is offline; reconnect its cable, or run: adb reconnect offline",
    "unauthorized": "is unauthorized; unlock it, and accept this computer there (Allow USB debugging)",
    "authorizing": "is waiting to be authorized; unlock it, and accept this computer there (Allow USB debugging)",
    "no permissions": "may not be used by this user; add a rule of udev for it, see adb's documentation",
}
_PROPERTIES: Final = (
    *("ro.product.manufacturer", "ro.product.model", "ro.soc.manufacturer", "ro.soc.model", "ro.board.platform"),
    *("ro.build.version.release", "ro.build.fingerprint", "ro.build.id"),
)


class AdbHost(RemoteHost):
    """An Android device; see `Host`.

    serial  as `adb devices` has it; None: the only device that is connected
    """

    roots = ("su 0 sh -c", "su -c")

    def __init__(self, serial: str | None = None) -> None:
        super().__init__("adb" if serial is None else f"adb {serial}")
        self._serial = serial

    def connect(self) -> None:
        """See `Host`."""
        self._serial = self._choose()
        self.name = f"adb {self._serial}"
        self.prepare(_FOLDER)

    def _choose(self) -> str:
        """Return the serial number of the device. Raises `HostError` if there is none that is ready, or several."""
        ended = self.call(["adb", "devices", "-l"])
        if ended.status:
            raise HostError(
                f"adb: {_last(ended.output)}; restart its server: adb kill-server", last_lines(ended.output)
            )
        states = devices("\n".join(last_lines(ended.output)))
        ready = [serial for serial, state in states.items() if state == _READY]
        named = ", ".join(f"{serial} ({state})" if state != _READY else serial for serial, state in states.items())
        if self._serial is None and len(ready) == 1:
            return ready[0]
        if self._serial is None and len(ready) > 1:
            raise HostError(f"adb: several devices are connected: {named}; choose one with --adb SERIAL")
        if not states:
            raise HostError("adb: no device is connected; connect one, and allow USB debugging in its settings")
        if self._serial is not None and self._serial not in states:
            raise HostError(f"adb: no device {self._serial} is connected; connected are {named}")
        serial = self._serial or next(iter(states))
        if states[serial] != _READY:
            state = states[serial]
            raise HostError(f"adb {serial}: {_STATES.get(state, f'is in the state {state}; start Android on it')}")
        return serial

    def shell(self, script: str) -> list[str]:
        """See `RemoteHost`."""
        return ["adb", "-s", self._serial or "", "shell", script]

    def raw(self, script: str) -> list[str]:
        """See `RemoteHost`."""
        return ["adb", "-s", self._serial or "", "exec-out", script]

    def send(self, path: str, to: str, seconds: float) -> bytes:
        """See `RemoteHost`."""
        return self.call(["adb", "-s", self._serial or "", "push", path, to], seconds=seconds).output

    def lost(self, output: bytes) -> HostError:
        """See `RemoteHost`: with what adb says of the device now, where that is more than that it is gone."""
        try:
            self._choose()
        except HostError as error:
            return HostError(f"{self.name}: the connection was lost: {error}", last_lines(output))
        return super().lost(output)

    def find_labels(self) -> dict[str, str]:
        """See `RemoteHost`."""
        script = "".join(f'echo "{name}=$(getprop {name})"; ' for name in _PROPERTIES)
        return android_labels("\n".join(last_lines(self.ask(script).output)))


def devices(listing: str) -> dict[str, str]:
    """Return the state of each device by its serial number, as `adb devices -l` lists them."""
    found = {}
    for line in listing.partition("List of devices attached")[2].splitlines():
        if match := re.match(r"(\S+)\s+(no permissions|\S+)", line):
            found[match[1]] = match[2]
    return found


def android_labels(properties: str) -> dict[str, str]:
    """Return the labels of a device by lines `PROPERTY=VALUE`."""
    has = dict(line.partition("=")[::2] for line in properties.splitlines())
    maker, model = has.get("ro.product.manufacturer", ""), has.get("ro.product.model", "")
    soc = f"{has.get('ro.soc.manufacturer', '')} {has.get('ro.soc.model', '')}".strip()
    release = has.get("ro.build.version.release", "")
    return clean_labels(
        {
            "device": model if model.lower().startswith(maker.lower()) else f"{maker} {model}",
            "soc": soc or has.get("ro.board.platform", ""),
            "os": f"Android {release}" if release else "Android",
            "os_build": has.get("ro.build.fingerprint", "") or has.get("ro.build.id", ""),
        }
    )


def _last(output: bytes) -> str:
    return ([*last_lines(output)] or ["it failed"])[-1]
