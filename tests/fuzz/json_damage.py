"""Damage to JSON by its tokens: other types, absurd numbers, keys lost and doubled, nesting without end."""

from __future__ import annotations

import re
from functools import lru_cache
from random import Random
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}:,]')
_MARKS: Final = (b",", b":", b"]", b"}")
_DEEP: Final = (100, 1000, 5000, 100_000)
# Replacements for a value.
VALUES: Final = (
    b"null", b"true", b"false", b"0", b"-1", b"1.5", b"-0.0", b"1e308", b"1e999", b"-1e999", b"NaN", b"-Infinity",
    b"2147483647", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775809", b"18446744073709551616", b"1" * 400, b"1" * 5000, b"0." + b"1" * 5000, b"1e-400", b"1e5000",
    b"1e999999999999999999999", b'""', b'"x"', b'"0"', b'"-1"', b'"1e999"', b'"NaN"', b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\\u0000"', b'"\\u001b[2J"', b'"\\u202e"', b'"a\\nb"', b'"=1+1"', b'"' + b"A" * 70_000 + b'"', b"[]", b"{}", b"[[]]",
    b"[null]", b'[{"x":1}]', b'{"":{}}', b'{"a":1,"a":2}', b'"9999999999999999999999"', b'"1_000"',
    "\"\N{ARABIC-INDIC DIGIT FIVE}\"".encode(), "\"\N{SUPERSCRIPT TWO}\"".encode(), b'"9999-99-99T99:99:99Z"',
    b'"0001-01-01T00:00:00+23:59"', b'"1' + b"0" * 5000 + b'"', b'"torch.ops.aten.add.Tensor"', b'"/\\u0000.py\\", line 1"',
)  # fmt: skip
_KEYS: Final = (
    b'""', b'"-1"', b'"99999999999999999999"', b'"\\u0000"', b'"\\ud800"', b'"\\u001b[2J"', b'"labels"', b'"captured_at"',
    b'"name"', b'"' + b"k" * 70_000 + b'"', b'"a=b"', b'"\\u202e"', b'" "',
)  # fmt: skip
# Texts that are not JSON.
_BROKEN: Final = (
    b"01", b"+1", b".5", b"'x'", b"undefined", b'"\x1b[2J"', b'"\xff"', b'"\xed\xa0\x80"', b"", b"{", b"[", b"}", b"]", b",",
    b'"', b"\\", b"\0", b"\n", b"[" * 100_000, b'{"a":' * 100_000, b'[{"inputs":' * 50_000,
)  # fmt: skip


@lru_cache(maxsize=64)
def _tokens(text: bytes) -> list[tuple[int, int]]:
    return [match.span() for match in _TOKEN.finditer(text)]


class _Text:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.tokens = _tokens(text)

    def token(self, at: int) -> bytes:
        start, stop = self.tokens[at] if 0 <= at < len(self.tokens) else (0, 0)
        return self.text[start:stop]

    def behind(self, at: int) -> int:
        """The token after the value that begins at a token."""
        depth = 0
        for place in range(at, min(at + 5000, len(self.tokens))):
            depth += (self.token(place) in (b"[", b"{")) - (self.token(place) in (b"]", b"}"))
            if depth <= 0:
                return place + 1
        return at + 1

    def drawn(self, random: Random) -> int:
        """A token that begins a value or is a key; one of the first ones with a higher probability."""
        at = random.randrange(len(self.tokens))
        if random.random() < 0.2:
            at = random.randrange(min(80, len(self.tokens)))
        while self.token(at) in _MARKS and at:
            at -= 1
        return at

    def span(self, at: int, behind: int) -> tuple[int, int]:
        return self.tokens[at][0], self.tokens[min(behind, len(self.tokens)) - 1][1]


def _nested(random: Random) -> bytes:
    depth = random.choice(_DEEP)
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"inputs":', b"}]")))
    return opening * depth + b"0" + closing * depth


def _edit(random: Random, given: _Text) -> tuple[int, int, bytes]:
    """A place and the text to put there; in nine of ten cases the result is JSON."""
    at = given.drawn(random)
    behind = given.behind(at)
    start, stop = given.span(at, behind)
    if random.random() < 0.1:
        return start, stop, random.choice(_BROKEN)
    is_key = given.token(behind) == b":"
    if is_key:
        _, end = given.span(at, given.behind(behind + 1))
        if random.random() < 0.3:
            return start, stop, random.choice(_KEYS)
    else:
        end = stop
    what = random.random()
    if what < 0.2:
        # The token is removed with the comma after it.
        comma = given.behind(behind + 1) if is_key else behind
        return start, given.tokens[comma][1] if given.token(comma) == b"," else end, b""
    if what < 0.35:
        whole = given.text[start:end]
        return start, start, (whole + b",") * random.choice((1, 1, 2, 1000 if len(whole) < 200 else 3))
    if is_key:
        start, stop = (
            given.span(behind + 1, given.behind(behind + 1)) if behind + 1 < len(given.tokens) else (start, stop)
        )
    if what < 0.5:
        other = given.drawn(random)
        first, last = given.span(other, given.behind(other))
        return start, stop, given.text[first:last]
    return start, stop, _nested(random) if what < 0.53 else random.choice(VALUES)


def damage_json(random: Random, text: bytes, times: int) -> tuple[bytes, list[str]]:
    """The text with this many edits, and a list of them."""
    given = _Text(text)
    if not given.tokens:
        return text, ["nothing"]
    edits = [_edit(random, given) for _ in range(times)]
    made = text
    for start, stop, new in sorted(edits, reverse=True):
        made = made[:start] + new + made[stop:]
    return made, [f"{text[start:stop][:20]!r} at {start} now {new[:20]!r}" for start, stop, new in edits]
