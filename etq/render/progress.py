"""A line on a terminal that shows a command's progress, below the messages that the command prints meanwhile."""

from __future__ import annotations

import shutil
import time
from types import TracebackType
from typing import IO, Final, Self

from etq.render.terminal import bar, style_of

# The shortest time between two updates, in seconds.
_PAUSE: Final = 0.1
_LONGEST_BAR: Final = 36


class Progress:
    """A progress line on a stream, if that is a terminal. It disappears at the end of the `with` block.

    Call `clear` before anything else is printed to the terminal: the line is drawn again below it.
    """

    def __init__(self, label: str, total: int, stream: IO[str], *, is_quiet: bool = False) -> None:
        self.done = 0
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

    def advance(self) -> None:
        """Count one more finished item."""
        self.done += 1
        if not self._length or time.monotonic() - self._drawn_at >= _PAUSE:
            self._draw()

    def clear(self) -> None:
        """Clear the terminal's line."""
        if self._length:
            self._stream.write(f"\r{' ' * self._length}\r")
            self._stream.flush()
            self._length = 0

    def _draw(self) -> None:
        if not self._is_shown:
            return
        count = f"{self.done}/{self._total}"
        # A line of full width would move the cursor to the next line.
        room = shutil.get_terminal_size().columns - 1 - len(self._label) - len(count) - 4
        width = min(room, _LONGEST_BAR)
        filled = bar(0, self.done / self._total, width, self._style) if width > 0 else ""
        text = f"{self._label} [{filled.ljust(width)}] {count}" if width > 0 else count
        self._stream.write(f"\r{text.ljust(self._length)}")
        self._stream.flush()
        self._length = max(len(text), self._length)
        self._drawn_at = time.monotonic()
