"""Results fit into limits: long texts and lists are cut, and the result states what is missing."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from typing import Any, Final

# The longest text and the largest result, in characters of JSON: about 8,000 tokens.
LONGEST_TEXT: Final = 1_000
MOST_CHARACTERS: Final = 24_000
# Kept free for the sentences about what was cut.
_RESERVED: Final = 1_000
_HIDDEN: Final = re.compile(
    r"[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def encoded(value: Any) -> str:
    """Return a value as compact JSON, in which characters that can't be seen or reverse text are escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Outside of its texts, JSON has none of these.
    return _HIDDEN.sub(lambda match: json.dumps(match.group())[1:-1], text)


def fitted(result: dict[str, Any], most: int = MOST_CHARACTERS) -> dict[str, Any]:
    """Return a result that is no longer than `most` characters as JSON, with what was cut in its list `cut`.

    First texts are cut, then the longest lists lose rows from the end. The number of rows there were is `total` if the
    result has one, which counts those that the query left out, too. With an `offset`, the next one is named.
    """
    texts = [0]
    result = {key: _plain(value, texts) for key, value in result.items()}
    cut = list(result["cut"])
    if texts[0]:
        cut.append(f"{texts[0]} texts are cut after {LONGEST_TEXT} characters")
    lists = {key: value for key, value in result.items() if isinstance(value, list) and key not in ("cut", "columns")}
    sizes = {key: [len(encoded(row)) + 1 for row in rows] for key, rows in lists.items()}
    totals = {key: sum(parts) for key, parts in sizes.items()}
    excess = len(encoded(result)) - (most - _RESERVED)
    kept = {key: len(rows) for key, rows in lists.items()}
    while excess > 0 and any(kept.values()):
        longest = max((key for key in kept if kept[key]), key=lambda key: totals[key])
        kept[longest] -= 1
        removed = sizes[longest][kept[longest]]
        totals[longest] -= removed
        excess -= removed
    for key, rows in lists.items():
        if kept[key] < len(rows):
            result[key] = rows[: kept[key]]
            cut.append(f"{key}: the first {kept[key]} of {len(rows)} rows, as a result has up to {most} characters")
    if "offset" in result and (after := result["offset"] + len(result["captures"])) < result["total"]:
        cut.append(f"captures: pass offset {after} for the next")
    return {**result, "cut": cut}


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
