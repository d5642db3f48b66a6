"""A pager for text on a terminal that is longer than its screen, as git has it."""

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

# The pager that is shown, and what is printed when it is left.
_shown: Final[list[_Pages]] = []
_after: Final[list[Callable[[], object]]] = []
_DEFAULT: Final = "less"
# The options of less, without any of the user's: quit if it fits one screen, show colours, leave the text there.
_OPTIONS_OF_LESS: Final = "FRX"


@contextmanager
def paged() -> Iterator[IO[str]]:
    """Provide standard output, or what writes to a pager as soon as the text is longer than the screen.

    The pager stays until `wait` is called: meanwhile the caller can close the warehouse, for which others may wait.
    """
    wait()
    command = _command()
    if command is None:
        yield sys.stdout
        return
    pages = _Pages(command)
    # Whoever leaves the pager before the end wants to see no more.
    with suppress(BrokenPipeError):
        try:
            yield pages  # type: ignore[misc]  # of a stream, it has what writers of text use
        finally:
            pages.end()


def wait() -> None:
    """Wait until the pager is left, if one is shown."""
    while _shown:
        _shown.pop().wait()
    while _after:
        _after.pop(0)()


def after(show: Callable[[], object]) -> None:
    """Print by `show`: at once, or when the pager is left."""
    _after.append(show)
    if not _shown:
        wait()


def _command() -> str | None:
    """Return the command of the pager; None if there is none, no terminal to read its keys and show its pages, or CI,
    which may have one that nobody reads.
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
    """Keeps text until it is longer than the screen; then a pager gets it, and all that follows."""

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
            # The prompt of the shell takes a line, too.
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
        # Ctrl-C is for the pager, which has handlers of its own by now or gets the default one.
        self._handler = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end(self) -> None:
        """Write what was kept if it fits the screen, else end the pager's text."""
        if self._pager is None:
            sys.stdout.write("".join(self._kept))
            return
        _shown.append(self)
        assert self._pager.stdin is not None
        with suppress(BrokenPipeError):
            self._pager.stdin.close()

    def wait(self) -> None:
        """Wait until the pager is left."""
        assert self._pager is not None
        try:
            self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, self._handler)
