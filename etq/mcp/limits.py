"""Results fit into limits: long texts and lists are cut, and the result states what is missing."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from typing import Any, Final

# The longest text and the largest result, in characters of JSON: about 8,000 tokens. A call that gives no limit has a
# short result first, of about 1,200 tokens.
LONGEST_TEXT: Final = 1_000
MOST_CHARACTERS: Final = 24_000
MOST_AT_FIRST: Final = 4_000
# Kept free for the sentences about what was cut.
_RESERVED: Final = 300
_HIDDEN: Final = re.compile(
    r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


# A clause that tells users what to type, as errors on the command line do.
_COMMAND: Final = re.compile(r"\betq [a-z]|(^|[ (])--[a-z]|\$ETQ_")


def without_commands(error: str) -> str:
    """Return an error's text without the clauses about the command line, which tools don't have."""
    clauses = error.split("; ")
    kept = [clause for clause in clauses if not _COMMAND.search(clause)]
    return "; ".join(kept or clauses[:1])


def encoded(value: Any) -> str:
    """Return a value as compact JSON, in which characters that can't be seen or reverse text are escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Outside of its texts, JSON has none of these.
    return _HIDDEN.sub(lambda match: json.dumps(match.group())[1:-1], text)


def fitted(result: dict[str, Any], most: int = MOST_CHARACTERS) -> dict[str, Any]:
    """Return a result that is no longer than `most` characters as JSON, with what was cut in its list `cut`.

    First texts are cut, then the longest tables lose rows from the end. The number of rows there were is `total` if the
    result has one, which counts those that the query left out, too.
    """
    texts = [0]
    result = {key: _plain(value, texts) for key, value in result.items()}
    cut = list(result["cut"])
    if texts[0]:
        cut.append(f"{texts[0]} texts are cut after {LONGEST_TEXT} characters")
    rows_of = {key: rows for key, value in result.items() if (rows := _rows(key, value))}
    sizes = {key: [len(encoded(row)) + 1 for row in rows] for key, rows in rows_of.items()}
    totals = {key: sum(each) for key, each in sizes.items()}
    excess = len(encoded(result)) - (most - _RESERVED)
    kept = {key: len(rows) for key, rows in rows_of.items()}
    while excess > 0 and any(kept.values()):
        longest = max((key for key in kept if kept[key]), key=lambda key: totals[key])
        kept[longest] -= 1
        removed = sizes[longest][kept[longest]]
        totals[longest] -= removed
        excess -= removed
    for key, rows in rows_of.items():
        if kept[key] < len(rows):
            cut.append(f"{key}: the first {kept[key]} of {len(rows)} rows, as a result has up to {most} characters")
            del rows[kept[key] :]
    return {**result, "cut": cut}


def _rows(key: str, value: Any) -> list[Any]:
    """Return the rows of a table, or of a list that isn't of names; none of another value."""
    rows = value.get("rows") if isinstance(value, dict) else value
    return rows if isinstance(rows, list) and key not in ("cut", "columns", "verdicts", "next") else []


def _plain(value: Any, texts: list[int]) -> Any:
    """Return a value as JSON has it, with its long texts cut, which `texts` counts. NaN and infinities become null."""
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(item, texts) for item in value]
    if isinstance(value, dict):
        return {str(key)[:LONGEST_TEXT]: _plain(item, texts) for key, item in value.items()}
    if isinstance(value, date):
        value = value.isoformat()
    text = value.hex() if isinstance(value, bytes) else str(value)
    if len(text) <= LONGEST_TEXT:
        return text
    texts[0] += 1
    return text[:LONGEST_TEXT] + "…"
