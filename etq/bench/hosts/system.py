"""What texts of /proc, /sys and /etc say of a Linux machine, and which of its files were changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from etq.bench.hosts import HostError

_DMI: Final = "/sys/class/dmi/id/"
# The files that say what a machine is.
LABEL_FILES: Final = (
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/device-tree/model",
    "/sys/devices/soc0/machine",
    f"{_DMI}sys_vendor",
    f"{_DMI}product_name",
)
# What makers leave in the fields of boards whose name they don't know.
_UNNAMED: Final = re.compile(r"(?:to be filled by o\.e\.m\.|system product name|default string|none|unknown|\W*)", re.I)
_LONGEST_LABEL: Final = 100


def linux_labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a Linux machine by the texts of `LABEL_FILES`: device, soc, os, os_build, host."""
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', texts.get("/etc/os-release", ""), re.MULTILINE))
    processor = dict(re.findall(r"^([\w ]+?)\s*: (.+)$", texts.get("/proc/cpuinfo", ""), re.MULTILINE))
    maker = [_named(texts.get(f"{_DMI}{name}", "")) for name in ("sys_vendor", "product_name")]
    host = texts.get("/proc/sys/kernel/hostname", "")
    board = texts.get("/proc/device-tree/model", "")
    return clean_labels(
        {
            "device": _named(board) or (" ".join(maker) if maker[1] else "") or host,
            "soc": _named(texts.get("/sys/devices/soc0/machine", ""))
            or processor.get("model name", "")
            or processor.get("Hardware", ""),
            "os": release.get("PRETTY_NAME", "") or "Linux",
            "os_build": texts.get("/proc/sys/kernel/osrelease", ""),
            "host": host,
        }
    )


def _named(text: str) -> str:
    text = text.strip("\0 \n")
    return "" if _UNNAMED.fullmatch(text) else text


def clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels in one line, with spaces for commas, which selectors divide by, and without empty ones."""
    cleaned = {key: " ".join(re.sub(r"[\x00-\x1f,=]", " ", value).split()) for key, value in labels.items()}
    return {key: value[:_LONGEST_LABEL] for key, value in cleaned.items() if value}


class Changes:
    """Files of a system that were changed, with what they had before."""

    def __init__(self) -> None:
        self._before: dict[str, str] = {}

    def remember(self, texts: Mapping[str, str]) -> None:
        """Note what files have, before they are written for the first time."""
        for path, text in texts.items():
            self._before.setdefault(path, text.strip())

    def undo(self, write: Callable[[Mapping[str, str]], list[str]], name: str) -> None:
        """Write back what the files of a machine had. Raises `HostError` if that fails; all are tried."""
        before, self._before = self._before, {}
        restored: list[str] = []
        if before:
            with suppress(HostError):
                restored = write(before)
        if lost := [f"{path} had {text}" for path, text in before.items() if path not in restored]:
            raise HostError(f"{name}: what was pinned can't be undone; restart it, or write back: {'; '.join(lost)}")
