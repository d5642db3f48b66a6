"""The entries of a trace as they are written: found one by one where they are asked for, else read in blocks.

Finding where each of the entries ends takes half as long as reading all of them. So a file is parted where it seems to
have one entry after another: a block that is parted elsewhere, such as within a text, is not a whole list, and its
reader finds the entries one by one instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, Final

import msgspec

from etq.errors import FormatError
from etq.ingest.trace.scanner import Trace

_BOM: Final = b"\xef\xbb\xbf"
_BEGIN: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY: Final = re.compile(rb'"traceEvents"\s*:')
_BETWEEN: Final = re.compile(rb"\}(\s*,\s*)\{")
_END: Final = re.compile(rb"\}\s*\]")
# As many bytes as stay in the processor's cache when they are decoded.
_BLOCK: Final = 2**17
# Where the list of entries is looked for: so far from the file's begin and end.
_AROUND: Final = 2**20


def _outer_keys(content: Any, start: int) -> list[str]:
    """The keys of the object that a JSON text is, each as often as it is there."""
    import json

    text = bytes(content[start:]).decode(errors="replace")
    keys: list[str] = json.loads(text, object_pairs_hook=lambda pairs: [key for key, _ in pairs])
    return keys


class Entries:
    """A trace's JSON, read in parts as needed. All but `blocks` raise `FormatError` for files that aren't traces."""

    def __init__(self, content: Any, path: str) -> None:
        self._content = content
        self._path = path

    @cached_property
    def whole(self) -> Trace:
        """The trace with its entries as they are written; a bare list of entries is one, too."""
        content = self._content
        is_list = bytes(content[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
        start = len(_BOM) if bytes(content[:3]) == _BOM else 0
        try:
            if is_list:
                return Trace(msgspec.json.decode(memoryview(content)[start:], type=list[msgspec.Raw]))
            trace = msgspec.json.decode(memoryview(content)[start:], type=Trace)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(self._path, f"not a PyTorch trace: expected JSON with traceEvents: {error}") from error
        # The last of several would replace the others; each may have its own part of the events.
        if len([*islice(_KEY.finditer(content), 2)]) > 1 and _outer_keys(content, start).count("traceEvents") > 1:
            raise FormatError(self._path, "not a PyTorch trace: it has several lists traceEvents")
        return trace

    def __getitem__(self, place: int) -> msgspec.Raw:
        return self.whole.traceEvents[place]

    @cached_property
    def _span(self) -> tuple[int, int, Trace] | None:
        """Where the list of entries begins and ends, and the trace without it; None if it isn't to be seen."""
        content = self._content
        begin = _BEGIN.search(content, 0, _AROUND)
        before_end = max(len(content) - _AROUND, 0)
        ends = [*_END.finditer(content, before_end)]
        if begin is None or not ends or ends[-1].start() < begin.end():
            return None
        first, last = begin.end(), ends[-1].start() + 1
        before, after = bytes(content[:first]), bytes(content[last:])
        try:
            # The list is the trace's own, and no other follows it.
            if msgspec.json.decode(before + b"]}", type=Trace).traceEvents or b'"traceEvents"' in after:
                return None
            return first, last, msgspec.json.decode(before + after, type=Trace)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    @property
    def around(self) -> Trace:
        """The trace, of which the entries may be missing; true only where each of the blocks is a list."""
        return self.whole if self._span is None else self._span[2]

    def blocks(self) -> Iterator[bytes]:
        """JSON lists that together hold the entries, if each is a list; nothing if these aren't to be seen."""
        if self._span is None:
            return
        content = memoryview(self._content)
        start, last, _ = self._span
        while start < last:
            between = _BETWEEN.search(self._content, start + _BLOCK, last)
            end = last if between is None else between.start() + 1
            yield b"".join((b"[", content[start:end], b"]"))
            start = last if between is None else between.end(1)
