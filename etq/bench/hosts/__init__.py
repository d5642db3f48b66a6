"""The machines on which programs are measured: this one, an Android device by adb, a board by ssh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from etq.errors import EtqError


class HostError(EtqError):
    """A machine can't be reached or refuses what is asked; `output` has the last lines of its answer."""

    def __init__(self, what: str, output: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.output = list(output)


@dataclass(frozen=True)
class Finished:
    """A command that ended by itself."""

    status: int  # exit status; the negative number of the signal that ended it
    output: list[str]  # last lines of stdout and stderr
    seconds: float
    peak_bytes: int | None  # the most resident memory of its process; None where the machine can't tell


class Host(Protocol):
    """A machine that runs commands. Each method raises `HostError` if the machine fails, not if a command does."""

    name: str  # as messages call it: "this machine", "adb 1A2B", "ssh board"
    folder: str  # where files are put on it; known once it is connected

    def connect(self) -> None:
        """Make sure that the machine answers, and make its folder."""

    def push(self, path: str, name: str | None = None) -> str:
        """Put a local file into the machine's folder, unless its bytes are there, and return its path on the machine.

        On this machine, that is the file itself.
        """

    def pull(self, path: str, to: str) -> bool:
        """Copy a file of the machine to a local path, whole or not at all; return whether the file existed."""

    def remove(self, path: str) -> None:
        """Remove a file of the machine, if it exists."""

    def run(
        self, words: Sequence[str], *, seconds: float | None = None, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """Run a command in the machine's folder without a shell's interpretation of its words; on this machine, in the
        current folder.

        Raises `HostError` if it can't be started or takes more than so many `seconds`; then, and if this process is
        interrupted, it and its children are ended first.
        """

    def read(self, patterns: Sequence[str]) -> dict[str, str]:
        """Return the texts of the small files that match these patterns (glob), in one connection.

        Files that can't be read are left out. `dumpsys NAME` is what a service of Android prints, under that name.
        """

    def write(self, texts: Mapping[str, str]) -> list[str]:
        """Write lines into small files of the system, such as those of /sys; return those that have them now.

        `close` writes what they had before. Files that may not be written are left out.
        """

    def labels(self) -> dict[str, str]:
        """Return what the machine is, as labels of captures: device, soc, os, os_build, host."""

    def close(self) -> None:
        """Undo what was changed on the machine for measuring (pinned frequencies), and close connections."""
