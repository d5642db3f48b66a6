"""Repairs traces that PyTorch itself writes as broken JSON, and explains what is wrong with other files.

Known causes: line breaks in names, which are written as they are; paths of Windows in names, whose backslashes are not
doubled; numbers that are infinite, or none, as C++ prints them; quotation marks in names.
"""

from __future__ import annotations

import re
from typing import Final

# Matches a path of Windows with single backslashes, a JSON text (or the rest if it has no end), or a bare number that
# isn't JSON. The text's quantifiers are possessive: else each of its characters takes 120 bytes while it is matched.
_TOKEN: Final = re.compile(
    rb'"(?P<path>[a-z]:\\(?![\\"/])[^"\n]*)"|"(?:[^"\\]++|\\.)*+(?:"|\Z)'
    rb"|[+-]?(?:inf(?:inity)?|nan(?:\([^()]{0,20}\))?|1\.#(?:inf|qnan|snan|ind)0*)(?=\s*[,}\]])",
    re.DOTALL | re.IGNORECASE,
)
_CONTROL: Final = re.compile(rb"[\0-\x1f]")
# An escape: as in JSON, or else a backslash that was not doubled.
_ESCAPE: Final = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)', re.DOTALL)
# In the name of a Python function, which has its path, every backslash is of the path.
_IS_PATH: Final = re.compile(rb"\.pyx?\(\d+\)")
_SINGLE: Final = re.compile(rb'\\(\\|"|)')
_NAMES: Final = {"control": "control characters in texts", "backslash": "single backslashes", "number": "inf or nan"}


def repaired(content: bytes) -> tuple[bytes, str]:
    """Return the repaired text, and a description of what was repaired; that is empty if nothing was.

    NaN becomes null.
    """
    counts = dict.fromkeys(_NAMES, 0)

    def right(match: re.Match[bytes]) -> bytes:
        token = match[0]
        if not token.startswith(b'"'):
            counts["number"] += 1
            return b"null"
        if not token.endswith(b'"'):
            return token
        if match["path"] is not None:
            counts["backslash"] += 1
            token = b'"' + _SINGLE.sub(lambda found: found[0] if found[1] else b"\\\\", match["path"]) + b'"'
        elif b"\\" in token and (
            _IS_PATH.search(token) is not None or any(found[1] is None for found in _ESCAPE.finditer(token))
        ):
            doubled = _SINGLE.sub(lambda found: b"\\\\" if not found[1] else found[0], token)
            counts["backslash"] += doubled != token
            token = doubled
        if _CONTROL.search(token) is not None:
            counts["control"] += 1
            token = _CONTROL.sub(lambda found: b"\\u%04x" % found[0][0], token)
        return token

    text = _TOKEN.sub(right, content)
    return text, ", ".join(f"{name} ({counts[each]:,})" for each, name in _NAMES.items() if counts[each])


def cause_of(message: str, before: bytes, after: bytes) -> str:
    """Return why a text isn't JSON and what to do, by a decoder's message and the text around it; "" if unknown."""
    if "trailing characters" in message and re.match(rb"\s*[{\[]", before[-1:] + after):
        return "; the file has several traces, one after another: split it where the next begins"
    if "expected" in message and before.rstrip().endswith(b'"') and after[:1] not in (b"", b"\n", b'"'):
        return (
            "; a name has quotation marks that the profiler did not escape, as PyTorch 2.13 writes them: put a"
            " backslash before each, or record without with_stack"
        )
    return ""
