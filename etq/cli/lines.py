"""Lines that screens share: wrapped text, and the commands to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from etq.errors import printable
from etq.render.terminal import PAGE, TerminalStyle, width_of, wrap


def wrapped(text: str, indent: str, style: TerminalStyle) -> list[str]:
    """Return the lines of a text, at most a page wide; those after the first are indented by four more."""
    width = min(style.width or PAGE, PAGE)
    return wrap(text, width, initial_indent=indent, subsequent_indent=indent + "    ")


def next_commands(style: TerminalStyle, *commands: tuple[Sequence[str], str]) -> Iterator[str]:
    """Yield lines with the commands to type next, if there are any, and what they do if there is room."""
    lines = [(printable(shlex.join(words)), text) for words, text in commands]
    if not lines:
        return
    widest = max(width_of(line) for line, _ in lines)
    yield from ("", style.styled("Next", "bold"))
    for line, text in lines:
        whole = f"  {line:{widest}}  # {text}"
        yield whole if width_of(whole) <= (style.width or PAGE) else f"  {line}"


def shown_size(size: int) -> str:
    """Return a number of bytes for people."""
    value, units = float(size), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units[:-1]:
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} {units[-1]}"
