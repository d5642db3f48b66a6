"""The raw JSON of a trace's entries: read in blocks, or, if needed, one entry at a time.

Finding the end of each entry takes half as long as decoding all entries. So the text is split where one entry seems to
follow another. If a block was split elsewhere, such as within a text, it is not a valid list, and its reader finds
the entries one by one instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from etq.errors import FormatError
from etq.ingest.memory import check_json
from etq.ingest.other_files import other_file
from etq.ingest.trace.repair import cause_of, repaired
from etq.ingest.trace.scanner import Trace
from etq.ingest.trace.text import Text

_BOM: Final = b"\xef\xbb\xbf"
_BEGIN: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_KEY: Final = re.compile(rb'"traceEvents"\s*:')
_BETWEEN: Final = re.compile(rb"\}(\s*,\s*)\{")
_END: Final = re.compile(rb"\}\s*\]")
# Size of a block in bytes: small enough to stay in the processor's cache while it is decoded.
_BLOCK: Final = 2**17
# How many bytes are split into blocks at once.
_CHUNK: Final = 2**22
# The place in a decoder's error, and how many bytes before and after it are shown.
_PLACE: Final = re.compile(r"\(byte (\d+)\)$")
_TEXT_AT: Final = 24
# The list of entries must begin within this many bytes of the text's start, and end within this many of its end.
_AROUND: Final = 2**20

# How many entries are decoded at once.
_AT_ONCE: Final = 512

Event = TypeVar("Event")

_raws: Final = msgspec.json.Decoder(list[msgspec.Raw])


def _outer_keys(content: Any, start: int) -> list[str]:
    """Return the keys of the JSON object that the text contains; repeated keys are repeated."""
    import json

    text = bytes(content[start:]).decode(errors="replace")
    # Numbers are left as texts, as Python limits their number of digits.
    keys: list[str] = json.loads(
        text, object_pairs_hook=lambda pairs: [key for key, _ in pairs], parse_int=str, parse_float=str
    )
    return keys


def _text_at(error: Exception, content: Any) -> str:
    """Return the text at the place that a decoder's error names, and the cause if it is known."""
    named = _PLACE.search(str(error))
    if named is None:
        return ""
    place = int(named[1])
    before, after = bytes(content[max(place - _TEXT_AT, 0) : place]), bytes(content[place : place + _TEXT_AT])
    text = (before + after).decode(errors="replace")
    return f", at {' '.join(text.split())!r}{cause_of(str(error), before, after)}"


class Part(Generic[Event]):
    """Entries to be decoded.

    places  their positions, ascending
    many    decodes a list of entries
    one     decodes a single entry if that fails
    add     takes the decoded entries, some at a time, in their order
    """

    def __init__(
        self,
        places: npt.NDArray[np.int64],
        many: msgspec.json.Decoder[list[Event]],
        one: Callable[[msgspec.Raw], Event],
        add: Callable[[list[Event]], object],
    ) -> None:
        self.places, self.many, self.one, self.add = places, many, one, add

    def decode(self, entries: Sequence[msgspec.Raw]) -> None:
        """Decode these entries."""
        joined = b"".join((b"[", b",".join(entries), b"]"))
        if not self.decode_list(joined, range(len(entries))):
            self.add([*map(self.one, entries)])

    def decode_list(self, block: bytes, places: Sequence[int]) -> bool:
        """Decode the entries at these places of a list; return whether they could be decoded together."""
        try:
            events = self.many.decode(block)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        self.add([events[place] for place in places] if len(places) < len(events) else events)
        return True


def lenient(type: type[Event]) -> tuple[msgspec.json.Decoder[list[Event]], Callable[[msgspec.Raw], Event]]:
    """Return a decoder for a list of entries, and one for a single entry, which gives an empty object if its arguments
    have another tool's layout.
    """
    decoder = msgspec.json.Decoder(type, strict=False)

    def one(entry: msgspec.Raw) -> Event:
        try:
            return decoder.decode(entry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return type()

    return msgspec.json.Decoder(list[type], strict=False), one  # type: ignore[valid-type]


class Entries:
    """A trace's JSON, read in parts as needed. Raises `FormatError` for a damaged gzip.

    around  the trace, possibly without its entries; set by `blocks`, None if the blocks were not the trace's entries
    sizes   the number of entries per block, set by the reader of the blocks; None if a block was not a list
    broken  what was repaired in `whole`, which was not JSON; "" for JSON
    """

    def __init__(self, content: Any, path: str) -> None:
        self._text = Text(content, path)
        self._path = path
        self.around: Trace | None = None
        self.sizes: list[int] | None = None
        self.broken = ""

    @cached_property
    def whole(self) -> Trace:
        """Return the trace with its entries as raw JSON; a bare list of entries is a trace, too.

        Raises `FormatError` for files that aren't traces.
        """
        content = self._text.whole()
        is_list = bytes(content[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
        start = len(_BOM) if bytes(content[:3]) == _BOM else 0
        if (other := other_file(content)) is not None:
            raise FormatError(self._path, other)
        if bytes(content[start : start + 64]).lstrip()[:1] not in (b"{", b"["):
            raise FormatError(
                self._path, "not a PyTorch trace: the gzip has no JSON; give the profiler's .pt.trace.json.gz"
            )
        check_json(content, self._path)
        try:
            return self._trace(content, start, is_list=is_list)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            text, self.broken = (
                repaired(bytes(content[start:])) if isinstance(error, msgspec.DecodeError) else (b"", "")
            )
            why: Exception = error
            if self.broken:
                try:
                    return self._trace(memoryview(text), 0, is_list=is_list)
                except (msgspec.DecodeError, ValueError, RecursionError) as remaining:
                    why, content, start = remaining, memoryview(text), 0
            what = f"{why}{_text_at(why, content[start:])}"
            raise FormatError(self._path, f"not a PyTorch trace: expected JSON with traceEvents ({what})") from error

    def _trace(self, content: memoryview, start: int, *, is_list: bool) -> Trace:
        """Return a trace of JSON from this place on."""
        if is_list:
            return Trace(_raws.decode(content[start:]))
        trace = msgspec.json.decode(content[start:], type=Trace)
        # A decoder would keep only the last list, but each may have a part of the events.
        if len([*islice(_KEY.finditer(content), 2)]) > 1 and _outer_keys(content, start).count("traceEvents") > 1:
            raise FormatError(self._path, "not a PyTorch trace: it has several lists traceEvents")
        return trace

    def release(self) -> None:
        """Free the text: later reads unpack it again."""
        self._text.release()

    def decode(self, *parts: Part[Any]) -> None:
        """Decode the entries of the parts, in one pass over the text."""
        if self.sizes is None:
            every = self.whole.traceEvents
            for part in parts:
                for start in range(0, len(part.places), _AT_ONCE):
                    part.decode([every[place] for place in part.places[start : start + _AT_ONCE].tolist()])
            return
        ends = np.cumsum([0, *self.sizes])
        bounds = [np.searchsorted(part.places, ends).tolist() for part in parts]
        for number, (block, size) in enumerate(zip(self.blocks(), self.sizes, strict=True)):
            raws: list[msgspec.Raw] = []
            for part, bound in zip(parts, bounds, strict=True):
                places = (part.places[bound[number] : bound[number + 1]] - ends[number]).tolist()
                # Decoding an entry that isn't wanted takes as long as finding its end.
                if places and not (2 * len(places) > size and part.decode_list(block, places)):
                    raws = raws or _raws.decode(block)
                    part.decode([raws[place] for place in places])

    def blocks(self) -> Iterator[bytes]:
        """Yield JSON lists that together have all entries,
        provided that each is valid and `around` is set at the end.
        """
        parts = self._text.parts()
        text, is_more = _joined(parts, b"", 2 * _AROUND)
        begin = _BEGIN.search(text, 0, _AROUND)
        if begin is None:
            if (other := other_file(text)) is not None:
                raise FormatError(self._path, other)
            return
        before, start = bytes(text[: begin.end()]), begin.end()
        while is_more:
            start = yield from _lists(text, start, len(text) - _AROUND, is_all=False)
            text, is_more = _joined(parts, text[start:], max(_CHUNK, len(text) - start))
            start = 0
        ends = [*_END.finditer(text, max(len(text) - _AROUND, 0))]
        if ends and ends[-1].start() >= start:
            last = ends[-1].start() + 1
            yield from _lists(text, start, last, is_all=True)
            self.around = _around(before, text[last:])


def _joined(parts: Iterator[bytes], text: bytes, size: int) -> tuple[bytes, bool]:
    """Return the text followed by at least `size` further bytes, if there are so many, and whether more may follow."""
    joined: list[bytes] = [text] if text else []
    added = 0
    for part in parts:
        joined.append(part)
        added += len(part)
        if added >= size:
            return joined[0] if len(joined) == 1 else b"".join(joined), True
    return b"".join(joined), False


def _lists(text: bytes, start: int, last: int, *, is_all: bool) -> Generator[bytes, None, int]:
    """Yield lists of the entries between these places; return where the next one begins.
    `is_all` includes the last one.
    """
    content = memoryview(text)
    while start < last:
        between = _BETWEEN.search(text, start + _BLOCK, last)
        if between is None and not is_all:
            break
        end = last if between is None else between.start() + 1
        yield b"".join((b"[", content[start:end], b"]"))
        start = last if between is None else between.end(1)
    return start


def _around(before: bytes, after: bytes) -> Trace | None:
    """Return the trace without its entries, or None if the list was not the trace's own or if another list follows."""
    try:
        if msgspec.json.decode(before + b"]}", type=Trace).traceEvents or b'"traceEvents"' in after:
            return None
        return msgspec.json.decode(before + after, type=Trace)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
