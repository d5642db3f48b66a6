"""Shows text in a pager if it is longer than the terminal's screen, as git does."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from etq.render.display import display

if TYPE_CHECKING:
    import subprocess

# The pager that is shown, and what to print after it.
_shown: Final[list[_Pages]] = []
_after: Final[list[Callable[[], object]]] = []
_DEFAULT: Final = "less"
# Options of less that replace the user's: quit if the text fits one screen, show colours, keep the text on the screen.
_OPTIONS_OF_LESS: Final = "FRX"


@contextmanager
def paged() -> Iterator[IO[str]]:
    """Provide standard output, or on a terminal a stream that starts a pager as soon as the text is longer than the
    screen.

    With `wait`, the caller waits until the user leaves the pager. Before, it can close the warehouse, because others
    may wait for it.
    """
    wait()
    command = _command()
    if command is None:
        yield sys.stdout
        return
    pages = _Pages(command)
    # A user who leaves the pager early doesn't want to see more.
    with suppress(BrokenPipeError):
        try:
            yield pages  # type: ignore[misc]  # it has the methods of a stream that writers of text use
        finally:
            pages.end()


def wait() -> None:
    """Wait until the user leaves the pager, if one is shown."""
    while _shown:
        _shown.pop().wait()
    while _after:
        _after.pop(0)()


def after(show: Callable[[], object]) -> None:
    """Call `show` to print: immediately, or after the user has left the pager."""
    _after.append(show)
    if not _shown:
        wait()


def _command() -> str | None:
    """Return the command of the pager. None if there is no pager, if there is no terminal for its keys and its pages,
    and in CI, where nobody reads the terminal.
    """
    is_read = display().is_paged and "CI" not in os.environ and os.environ.get("TERM") != "dumb"
    if not is_read or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    named = next((os.environ[name] for name in ("ETQ_PAGER", "PAGER") if name in os.environ), _DEFAULT)
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    return named if words and words[0] != "cat" and shutil.which(words[0]) else None


class _Pages:
    """Keeps text until it is longer than the screen. Then a pager gets this text and all later text."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._columns, self._lines = shutil.get_terminal_size()
        self._kept: list[str] = []
        self._height = 0
        self._pager: subprocess.Popen[str] | None = None

    def write(self, text: str) -> int:
        if self._pager is None:
            self._kept.append(text)
            self._height += sum(1 + len(line) // (self._columns + 1) for line in text.splitlines())
            # The shell's prompt also takes a line.
            if self._height < self._lines:
                return len(text)
            self._start()
            text = "".join(self._kept)
        assert self._pager is not None and self._pager.stdin is not None
        return self._pager.stdin.write(text)

    def _start(self) -> None:
        import subprocess

        sys.stdout.flush()
        self._pager = subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.PIPE,
            text=True,
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            env={"LESS": _OPTIONS_OF_LESS, **os.environ},
        )
        # Ctrl-C is for the pager, which has a handler by now, its own or the default one.
        self._handler = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end(self) -> None:
        """Write the kept text if it fits the screen, otherwise end the pager's text."""
        if self._pager is None:
            sys.stdout.write("".join(self._kept))
            return
        _shown.append(self)
        assert self._pager.stdin is not None
        with suppress(BrokenPipeError):
            self._pager.stdin.close()

    def wait(self) -> None:
        """Wait until the user leaves the pager."""
        assert self._pager is not None
        try:
            self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, self._handler)
