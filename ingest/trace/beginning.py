"""How traces begin."""

from __future__ import annotations

import re
from typing import Final

# A text that isn't closed is matched up to the end of the bytes; otherwise each quotation mark within it would begin
# another text.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)(\s*:)?|[\[\]{}]', re.DOTALL)
_EVENT: Final = re.compile(rb'\[\s*\{[^\[]*"ph"\s*:\s*"\w"')
_EVENTS_KEY: Final = b'"traceEvents"'
# Keys that PyTorch writes before the events; their values may be longer than the examined bytes.
_FIRST_KEYS: Final = {b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"'}


def begins_trace(head: bytes, is_whole: bool) -> bool:
    """Whether JSON begins like a trace: like an object with events, or like a list of events. `is_whole`: these bytes
    are all of the JSON.
    """
    depth, keys = 0, set()
    for match in _TOKEN.finditer(head):
        token = match[0][:1]
        if token != b'"':
            depth += 1 if token in b"[{" else -1
            if token == b"[" and depth == 1:
                return _EVENT.match(head, match.start()) is not None
        elif depth == 1 and match[1] is not None:
            keys.add(match[0][: -len(match[1])])
            if _EVENTS_KEY in keys:
                return True
    return not is_whole and bool(keys & _FIRST_KEYS)
