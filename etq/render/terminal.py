"""The abilities of the terminal or file to which text is written: width, colours, characters beyond ASCII."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import IO, Any, Final, NamedTuple

# Characters for a partly filled cell, from empty to full: filled from the left, and filled from below.
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.-:=+*#"
# The most bars that fit into a line without other text.
WIDTH: Final = 72
_NARROWEST: Final = 20
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=%|(?:[num]?s|[KMG]iB)\b)|(?<=\w) (?=%)")
# The width for texts that are not written to a terminal, in columns.
PAGE: Final = 120
STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class TerminalStyle(NamedTuple):
    """How text is shown.

    width        columns of the terminal; None without a terminal, where nothing is shortened and numbers have no bars
    has_colours  whether text may be coloured
    has_blocks   whether text may have block characters, or only ASCII
    """

    width: int | None = None
    has_colours: bool = False
    has_blocks: bool = True

    def styled(self, text: str, *styles: str) -> str:
        """Return the text in these styles (see `STYLES`), if they can be shown. The text must already be printable."""
        if not self.has_colours or not styles or not text:
            return text
        return f"\x1b[{';'.join(STYLES[style] for style in styles)}m{text}\x1b[0m"


PLAIN: Final = TerminalStyle()


def width_of(text: str) -> int:
    """Return the number of columns that a text takes: two for East Asian letters, none for combining marks."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    others = [each for each in text if each > "\x7f"]
    wide = sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in others)
    return len(text) - len(others) + wide


def wrapped(text: str, style: TerminalStyle) -> str:
    """Return a text wrapped to the terminal's width; unchanged without a terminal."""
    if style.width is None:
        return text
    lines = (
        wrap(line, style.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return "\n".join("\n".join(parts) for parts in lines)


def wrap(text: str, width: int, **options: Any) -> list[str]:
    """Return the lines of a text, as `textwrap.wrap` does, but keep a number and its unit in one line."""
    lines = textwrap.wrap(_BEFORE_UNIT.sub("\xa0", text), width, **options)
    return [line.replace("\xa0", " ") for line in lines]


def style_of(stream: IO[Any]) -> TerminalStyle:
    """Return the style of text on a stream.

    A terminal has colours unless NO_COLOR is set (https://no-color.org) or TERM is dumb; FORCE_COLOR turns them on for
    any stream; `etq --color` overrides these.
    """
    width = max(shutil.get_terminal_size().columns, _NARROWEST) if stream.isatty() else None
    return TerminalStyle(width, has_colours(stream), has_blocks(stream))


def has_colours(stream: IO[Any]) -> bool:
    """Whether text on a stream is coloured: see `style_of`."""
    import click

    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    setting = colours_of_environment()
    return stream.isatty() if setting is None else setting


def colours_of_environment() -> bool | None:
    """Return True if the environment requests colours, False if it refuses them, None if it does neither."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def has_blocks(stream: IO[Any]) -> bool:
    """Whether a stream can show block characters. In the locale C, Python writes UTF-8,
    which the terminal may not support.
    """
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG")
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "").replace("_", "")
    return encoding == "utf8" and locale not in ("C", "POSIX")


def bar(start: float, share: float, width: int, style: TerminalStyle) -> str:
    """Return a bar of at most `width` cells, filled from `start` by `share`. Any share above 0 is visible.

    start, share  parts of the width, from 0 to 1
    """
    if share <= 0:
        return ""
    # There is no character that is filled only on the right, so a bar begins at a cell's edge, and keeps its length.
    first = min(int(max(start, 0.0) * width + 1e-9), width - 1)
    filled = min(share * width, width - first)
    if not style.has_blocks:
        return " " * first + "#" * max(round(filled), 1)
    eighths = max(round(8 * filled), 1)
    return " " * first + _EIGHTHS[-1] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def sparkline(values: Sequence[float], style: TerminalStyle = PLAIN) -> str:
    """Return a line of bars, scaled from the smallest to the largest value. Neighbours are combined to their median so
    that all bars fit `WIDTH` or a narrower terminal.
    """
    if not values:
        return ""
    glyphs = BARS if style.has_blocks else _ASCII_BARS
    parts = min(len(values), WIDTH, style.width or WIDTH)
    edges = [len(values) * at // parts for at in range(parts + 1)]
    medians = [sorted(values[a:b])[(b - a) // 2] for a, b in pairwise(edges)]
    low, high = min(medians), max(medians)
    scale = (len(glyphs) - 1) / (high - low) if high > low else 0
    return "".join(glyphs[round((value - low) * scale)] for value in medians)
