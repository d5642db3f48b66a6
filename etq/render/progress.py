"""A progress line on a terminal, below the messages that the command prints meanwhile."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import IO, Final, Self

from etq.errors import printable
from etq.render.terminal import bar, style_of

# The shortest time between two updates, in seconds.
_PAUSE: Final = 0.1
_LONGEST_BAR: Final = 36
# The time that a command works before its progress is shown, in seconds.
_SILENT: Final = 1.0
_stage: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("stage", default=None)


class Progress:
    """A progress line on a stream, if that is a terminal. It disappears at the end of the `with` block.

    Call `clear` before anything else is printed to the terminal; the line is then drawn again below it.
    """

    def __init__(self, label: str, total: int, stream: IO[str], *, is_quiet: bool = False) -> None:
        self.done = self._begun = 0
        self._label, self._total, self._stream = label, total, stream
        self._is_shown = stream.isatty() and not is_quiet
        self._style = style_of(stream)
        self._length = 0
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def begin(self) -> None:
        """Count one more item in progress; several may finish at once."""
        self._begun += 1
        self._update()

    def advance(self) -> None:
        """Count one more finished item."""
        self.done += 1
        self._update()

    def _update(self) -> None:
        if not self._length or time.monotonic() - self._drawn_at >= _PAUSE:
            self._draw()

    def relabel(self, label: str) -> None:
        """Show another label from now on."""
        self._label = label

    def clear(self) -> None:
        """Clear the terminal's line."""
        if self._length:
            self._stream.write(f"\r{' ' * self._length}\r")
            self._stream.flush()
            self._length = 0

    def _draw(self) -> None:
        if not self._is_shown:
            return
        shown = min(max(self._begun, self.done), self._total)
        count = f"{shown}/{self._total}"
        # A line of full width would move the cursor to the next line.
        room = shutil.get_terminal_size().columns - 1 - len(self._label) - len(count) - 4
        width = min(room, _LONGEST_BAR)
        filled = bar(0, shown / self._total, width, self._style) if width > 0 else ""
        text = f"{self._label} [{filled.ljust(width)}] {count}" if width > 0 else count
        self._stream.write(f"\r{text.ljust(self._length)}")
        self._stream.flush()
        self._length = max(len(text), self._length)
        self._drawn_at = time.monotonic()


@contextmanager
def working(text: str, stream: IO[str]) -> Iterator[None]:
    """Show on a terminal what the `with` block does and how long it has taken, if it takes more than a second.

    Nothing else may be written to the terminal meanwhile.
    """
    if not stream.isatty():
        yield
        return
    ended, shown = threading.Event(), [text]
    thread = threading.Thread(target=_show, args=(shown, ended, stream), daemon=True)
    thread.start()
    token = _stage.set(lambda stage: shown.append(f"{text}: {stage}"))
    try:
        yield
    finally:
        _stage.reset(token)
        ended.set()
        thread.join()


def stage(text: str) -> None:
    """Set the text for the part of its work that a command is doing, see `working`."""
    if (show := _stage.get()) is not None:
        show(text)


def _show(shown: list[str], ended: threading.Event, stream: IO[str]) -> None:
    begin, length = time.monotonic(), 0
    while not ended.wait(_SILENT):
        seconds = f", {time.monotonic() - begin:.0f} s"
        room = shutil.get_terminal_size().columns - 1 - len(seconds)
        text = printable(shown[-1])
        line = (text if len(text) <= room else f"{text[: room - 3]}...") + seconds
        stream.write(f"\r{line.ljust(length)}")
        stream.flush()
        length = max(length, len(line))
    if length:
        stream.write(f"\r{' ' * length}\r")
        stream.flush()
