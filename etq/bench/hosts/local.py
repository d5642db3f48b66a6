"""This machine, as one on which programs are measured."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq.bench.hosts import Finished, HostError
from etq.bench.hosts.child import TimeLimitError, last_lines, run_child
from etq.bench.hosts.system import LABEL_FILES, Changes, linux_labels
from etq.errors import displayed

# Bytes that are read of a small file.
_TEXT_BYTES: Final = 2**16
# What to do about errors of a command's start.
_REMEDIES: Final = {
    errno.ENOENT: "no such program; give its path, or put it on PATH",
    errno.EACCES: "may not be run; chmod +x makes a program of it",
    errno.ENOEXEC: "is not a program of this machine; build it for this one, or name its own with --adb or --ssh",
}


class LocalHost:
    """This machine; see `Host`.

    Commands run in a folder, by default the current one. Files that they write for etq go to a folder of its own.
    """

    name = "this machine"

    def __init__(self, runs_in: str | None = None) -> None:
        self.folder = ""
        self._runs_in = runs_in
        self._changes = Changes()
        self._labels: dict[str, str] | None = None

    def connect(self) -> None:
        """See `Host`."""
        if not self.folder:
            try:
                self.folder = tempfile.mkdtemp(prefix="etq-bench-")
            except OSError as error:
                raise HostError(f"{self.name}: no folder for captures: {_reason(error)}; set TMPDIR to one") from None

    def push(self, path: str, name: str | None = None) -> str:
        """See `Host`: the file stays where it is."""
        if not Path(path).is_file():
            raise HostError(f"{displayed(path)}: no such file")
        return str(Path(path).absolute())

    def pull(self, path: str, to: str) -> bool:
        """See `Host`."""
        if not Path(path).is_file():
            return False
        part = f"{to}.copying"
        try:
            shutil.copyfile(path, part)
            Path(part).replace(to)
        except OSError as error:
            raise HostError(f"{displayed(to)}: can't be written: {_reason(error)}") from None
        finally:
            with suppress(OSError):
                Path(part).unlink(missing_ok=True)
        return True

    def remove(self, path: str) -> None:
        """See `Host`."""
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise HostError(f"{displayed(path)}: can't be removed: {_reason(error)}") from None

    def run(
        self, words: Sequence[str], *, seconds: float | None = None, environment: Mapping[str, str] | None = None
    ) -> Finished:
        """See `Host`."""
        try:
            ended = run_child(words, seconds=seconds, folder=self._runs_in, environment=environment)
        except TimeLimitError as error:
            what = f"{self.name}: {displayed(words[0])} took more than {seconds:g} s and was ended; raise --timeout"
            raise HostError(what, last_lines(error.output)) from None
        except (OSError, ValueError) as error:  # ValueError: a word with a null byte
            what = _REMEDIES.get(getattr(error, "errno", None) or 0) or f"can't be run: {_reason(error)}"
            raise HostError(f"{displayed(words[0])}: {what}") from None
        return Finished(ended.status, last_lines(ended.output), ended.seconds, ended.peak_bytes)

    def read(self, patterns: Sequence[str]) -> dict[str, str]:
        """See `Host`."""
        texts = {}
        for pattern in patterns:
            for path in Path("/").glob(pattern[1:]) if pattern.startswith("/") else ():
                with suppress(OSError), open(path, "rb") as file:  # sensors that are off refuse to be read
                    texts[str(path)] = file.read(_TEXT_BYTES).decode(errors="backslashreplace")
        return texts

    def write(self, texts: Mapping[str, str]) -> list[str]:
        """See `Host`."""
        self._changes.remember(self.read([*texts]))
        return self._write(texts)

    def _write(self, texts: Mapping[str, str]) -> list[str]:
        for path, text in texts.items():
            with suppress(OSError):
                Path(path).write_text(f"{text}\n")
        there = self.read([*texts])
        return [path for path, text in texts.items() if there.get(path, "").strip() == text]

    def labels(self) -> dict[str, str]:
        """See `Host`."""
        if self._labels is None:
            texts = {"/proc/sys/kernel/hostname": os.uname().nodename, "/proc/sys/kernel/osrelease": os.uname().release}
            self._labels = linux_labels(texts | self.read(LABEL_FILES))
        return dict(self._labels)

    def close(self) -> None:
        """See `Host`."""
        folder, self.folder = self.folder, ""
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        self._changes.undo(self._write, self.name)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
