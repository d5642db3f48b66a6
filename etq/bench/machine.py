"""This machine: its labels, its files in /proc and /sys, and the commands that are measured on it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from etq.bench.child import Ended, TimeLimitError, last_lines, run_child
from etq.errors import EtqError, displayed

# The bytes that are read from a small file.
_TEXT_BYTES: Final = 2**16
# Remedies for errors at the start of a command.
_REMEDIES: Final = {
    errno.ENOENT: "no such program; give its path, or put it on PATH",
    errno.EACCES: "may not be run; chmod +x makes a program of it",
    errno.ENOEXEC: "is not a program of this machine; build it for this one",
}
_DMI: Final = "/sys/class/dmi/id/"
# The files that identify a machine.
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
# Placeholders that manufacturers leave in a board's fields.
_UNNAMED: Final = re.compile(r"(?:to be filled by o\.e\.m\.|system product name|default string|none|unknown|\W*)", re.I)
_LONGEST_LABEL: Final = 100


def linux_labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a Linux machine from the texts of `LABEL_FILES`: device, soc, os, os_build, host."""
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
    """Return labels without empty ones, each in one line.

    Commas, which separate parts of selectors, become spaces.
    """
    cleaned = {key: " ".join(re.sub(r"[\x00-\x1f,=]", " ", value).split()) for key, value in labels.items()}
    return {key: value[:_LONGEST_LABEL] for key, value in cleaned.items() if value}


class CommandError(EtqError):
    """A command can't be started, failed, or wrote no capture. `output` has the last lines that it printed."""

    def __init__(self, what: str, output: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.output = list(output)


def run(words: Sequence[str], seconds: float | None = None) -> Ended:
    """Run a command in the current folder, without a shell, and return its end.

    Raises `CommandError` if it can't be started or takes longer than `seconds`. If it takes too long, or if this
    process is interrupted, the command and its children are ended first.
    """
    try:
        return run_child(words, seconds=seconds)
    except TimeLimitError as error:
        what = f"{displayed(words[0])} took more than {seconds:g} s and was ended; raise --timeout"
        raise CommandError(what, last_lines(error.output)) from None
    except (OSError, ValueError) as error:  # ValueError: a word with a null byte
        what = _REMEDIES.get(getattr(error, "errno", None) or 0) or f"can't be run: {reason(error)}"
        raise CommandError(f"{displayed(words[0])}: {what}") from None


def read(patterns: Sequence[str]) -> dict[str, str]:
    """Return the texts of the small files that match these patterns (glob). Files that can't be read are left out."""
    texts = {}
    for pattern in patterns:
        for path in Path("/").glob(pattern[1:]):
            with suppress(OSError), open(path, "rb") as file:  # a sensor that is off can't be read
                texts[str(path)] = file.read(_TEXT_BYTES).decode(errors="backslashreplace")
    return texts


@cache
def machine_labels() -> dict[str, str]:
    """Return the labels that captures of this machine get: device, soc, os, os_build, host."""
    texts = {"/proc/sys/kernel/hostname": os.uname().nodename, "/proc/sys/kernel/osrelease": os.uname().release}
    return linux_labels(texts | read(LABEL_FILES))


def reason(error: Exception) -> str:
    """Return the message of a system error."""
    return (getattr(error, "strerror", None) or str(error)).lower()
