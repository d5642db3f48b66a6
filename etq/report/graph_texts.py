"""Texts of a graph's picture: values as the page shows them, what fits into a box, the page's colours as a style."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

from etq.errors import printable
from etq.report.overlays import WORDS

# Widths of letters at 12 pixels: of these, of others up to U+10FF, of the rest. Fonts differ a little, boxes have room.
LETTERS: Final = {**dict.fromkeys("fijlrtI.,:;|!'()[]/ ", 3.8), **dict.fromkeys("mwMW@%", 10.2)}
LETTER: Final = 6.9
WIDE_LETTER: Final = 12.6
# What XML doesn't allow besides what `printable` escapes.
NOT_XML: Final = re.compile("[\ufffe\uffff]")
COLOURS: Final = (
    "back", "text", "muted", "line", "edge", "group", "group-2",
    *(f"heat-{step}{part}" for step in range(6) for part in ("", "-text")),
    *(f"sort-{step}{part}" for step in range(1, WORDS + 2) for part in ("", "-text")),
)  # fmt: skip


def shown(value: Any, kind: str, unit: str | None) -> str:
    """Return a value of an overlay as the page shows it: of numbers four digits; nothing if it is unknown."""
    if value is None or kind == "word":
        return str(value or "")
    if kind == "time":
        return f"{_digits(value)} {'µs' if unit == 'us' else unit}"
    step = next((at for at in range(3) if abs(value) < 1024 ** (at + 1)), 3) if kind == "bytes" else 0
    texts: dict[str, Callable[[], str]] = {
        "percent": lambda: f"{_hundredths(value)} %",
        "bytes": lambda: f"{_number(value / 1024**step)} {('B', 'KiB', 'MiB', 'GiB')[step]}",
        "gap": lambda: _scientific(value),
        "decibels": lambda: f"{_scientific(value)} dB",
        "number": lambda: _number(value),
    }
    return texts[kind]()


def _scientific(value: float) -> str:
    """Return a number of any size: 12.5, 1.234e-9, ∞."""
    if value - value != 0:
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return f"{value:.3e}" if 0 < abs(value) < 1e-3 or abs(value) >= 1e6 else _number(value)


def _number(value: float) -> str:
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _digits(value: float) -> str:
    """Return a number with all four digits, if it isn't whole."""
    if abs(value) >= 1000 or value == int(value):
        return _number(value)
    return f"{value:.{max(3 - math.floor(math.log10(abs(value))), 0)}f}"


def _hundredths(value: float) -> str:
    rounded = round(value, 2)
    return _number(rounded) if rounded == int(rounded) else f"{rounded:.2f}"


def short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def writable(text: str) -> str:
    """Return a text with what can't be displayed, or can't be in XML, escaped."""
    return NOT_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))


def text_width(text: str) -> float:
    """Return the approximate width of a text at 12 pixels."""
    letters = writable(short(text, 60))
    return sum(LETTERS.get(letter, LETTER if ord(letter) < 0x1100 else WIDE_LETTER) for letter in letters)


def cut(text: str, room: float, factor: float) -> str:
    """Return the beginning of a text that fits, in letters `factor` times as wide."""
    text = writable(short(text, 200))
    left = room / factor
    for at, letter in enumerate(text):
        left -= LETTERS.get(letter, LETTER if ord(letter) < 0x1100 else WIDE_LETTER)
        if left < 0:
            return f"{text[: max(at - 1, 0)]}…"
    return text


@cache
def style() -> str:
    """Return the rules of a picture, with the page's colours: as values, since not all programs know variables."""
    dark = _rules(palette("dark").__getitem__)
    fonts = (
        "text{font:12px Helvetica,Arial,sans-serif}.title{font-size:15px;font-weight:600}.name{font-weight:600}"
        ".value,.key{font-size:11px}.middle{text-anchor:middle}.edge{fill:none}.box,.frame,.frame-2{stroke-width:1}"
    )
    return f"{fonts}{_rules(palette('light').__getitem__)}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(colour: Callable[[str], str]) -> str:
    rules = [
        f".back{{fill:{colour('back')}}}text{{fill:{colour('text')}}}.name,.key{{fill:{colour('muted')}}}",
        f".frame{{fill:{colour('group')};stroke:{colour('line')}}}",
        f".frame-2{{fill:{colour('group-2')};stroke:{colour('line')}}}",
        f".edge{{stroke:{colour('edge')}}}.head{{fill:{colour('edge')}}}.box{{stroke:{colour('edge')}}}",
    ]
    for name in COLOURS:
        if name.startswith(("heat", "sort")):
            rules.append(f".{name}{{fill:{colour(name)}}}")
    return "".join(rules)


@cache
def palette(theme: str) -> dict[str, str]:
    """Return the colours of the page in its light or dark theme, by name."""
    found: dict[str, str] = {}
    for name in ("page.css", "graph.css"):
        style = (files("etq.report") / "assets" / name).read_text(encoding="utf-8")
        [block] = re.findall(rf'data-theme="{theme}"\] \{{(.*?)\}}', style, re.DOTALL)
        found |= dict(re.findall(r"--([\w-]+): (#\w+);", block))
    return {name: found[name] for name in COLOURS}
