"""Repairs traces that PyTorch itself writes as broken JSON, and explains the errors of other files.

Known causes: line breaks in names, which aren't escaped; backslashes in the paths of Windows, which aren't doubled;
infinities and NaN as C++ prints them; quotation marks in names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from etq.ingest.trace.text import LARGEST_VALUE

# A number that JSON doesn't have, such as inf, outside of texts.
_NUMBER: Final = rb"[+-]?(?i:inf(?:inity)?|nan(?:\([^()]{0,20}\))?|1\.#(?:inf|qnan|snan|ind)0*)(?=\s*[,}\]])"
# Matches a part that needs no repair, followed by one token that may need it: a Windows path whose backslashes are not
# doubled, a JSON text (or the rest, if the text isn't closed), a number that JSON doesn't have, or another character.
# The quantifiers are possessive: otherwise each character of a text takes 120 bytes during the match.
_TOKEN: Final = re.compile(
    rb'((?:[^"+\-1iInN]++|"[^"\\\0-\x1f]*+"|1(?!\.#)|(?!' + _NUMBER + rb")[+\-1iInN])*+)"
    rb'("(?P<path>[a-zA-Z]:\\(?![\\"/])[^"\n]*)"|"(?:[^"\\]++|\\.)*+(?:"|\Z)|' + _NUMBER + rb"|\Z|.)",
    re.DOTALL,
)
# A number and the blanks around it have fewer bytes than this.
_LARGEST_NUMBER: Final = 2**16
_CONTROL: Final = re.compile(rb"[\0-\x1f]")
# An escape of JSON, or a backslash that was not doubled.
_ESCAPE: Final = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)', re.DOTALL)
# Matches the name of a Python function. It contains the path of a file, so every backslash belongs to the path.
_IS_PATH: Final = re.compile(rb"\.pyx?\(\d+\)")
_SINGLE: Final = re.compile(rb'\\(\\|"|)')
_NAMES: Final = {"control": "control characters in texts", "backslash": "single backslashes", "number": "inf or nan"}


class Repair:
    """Repairs broken JSON that PyTorch writes. NaN becomes null."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_NAMES, 0)
        self._open: int | None = None  # the beginning of a text that has no end in the held part
        self._is_last = False

    @property
    def done(self) -> str:
        """A description of what was repaired; "" if nothing was."""
        return ", ".join(f"{name} ({self._counts[each]:,})" for each, name in _NAMES.items() if self._counts[each])

    def parts(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the repaired text in parts. Each ends with the last complete token."""
        held, seen = b"", 0
        self._counts, self._open, self._is_last = dict.fromkeys(_NAMES, 0), None, False
        for part in parts:
            held += part
            # A text that isn't closed is scanned again only if this part may close it and its length has doubled. So
            # the total time is linear.
            is_text = self._open is not None and len(held) < LARGEST_VALUE
            if is_text and (b'"' not in part or len(held) < 2 * seen):
                continue
            self._open = None
            # A backslash at the end may begin an escape.
            repaired = _TOKEN.sub(self._replaced, whole := held.rstrip(b"\\"))
            end = self._open
            if end is None:  # a number may continue
                end = max(whole.rfind(b'"') + 1, *map(whole.rfind, (b"[", b"{", b",", b":", b"}", b"]")))
            if end:
                yield repaired[: len(repaired) - len(whole) + end]
                held = held[end:]
            elif len(held) > (_LARGEST_NUMBER if self._open is None else LARGEST_VALUE):  # the reader refuses it
                yield held
                held = b""
            seen = len(held)
        self._is_last = True
        yield _TOKEN.sub(self._replaced, held)

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        before, token = match[1], match[2]
        if not token.startswith(b'"'):
            if len(token) < 2:
                return match[0]
            self._counts["number"] += 1
            return before + b"null"
        if match.end() == match.endpos and not self._is_last:
            self._open = match.start(2)
            return match[0]
        return before + self._repaired(token, match["path"])

    def _repaired(self, token: bytes, path: bytes | None) -> bytes:
        if not token.endswith(b'"'):
            return token
        if path is not None:
            self._counts["backslash"] += 1
            token = b'"' + _SINGLE.sub(lambda found: found[0] if found[1] else b"\\\\", path) + b'"'
        elif b"\\" in token and (
            _IS_PATH.search(token) is not None or any(found[1] is None for found in _ESCAPE.finditer(token))
        ):
            doubled = _SINGLE.sub(lambda found: b"\\\\" if not found[1] else found[0], token)
            self._counts["backslash"] += doubled != token
            token = doubled
        if controls := {*_CONTROL.findall(token)}:
            self._counts["control"] += 1
            for control in controls:
                token = token.replace(control, b"\\u%04x" % control[0])
        return token


def cause_of(message: str, before: bytes, after: bytes) -> str:
    """Return why a text isn't JSON and what to do, given a decoder's message and the text around the place; "" if
    unknown.
    """
    if "truncated" in message:
        return "; the file breaks off: copy it again"
    if "trailing characters" in message and re.match(rb"\s*[{\[]", before[-1:] + after):
        return "; the file has several traces, one after another: split it where the next begins"
    if "expected" in message and before.rstrip().endswith(b'"') and after[:1] not in (b"", b"\n", b'"'):
        return (
            "; a name has quotation marks that the profiler did not escape, as PyTorch 2.13 writes them: put a"
            " backslash before each, or record without with_stack"
        )
    return ""
