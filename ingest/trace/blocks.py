"""Splits a trace's text into lists of its events, read one at a time, and the text around them. However large the text
is, only a few megabytes of it are held in memory. Finding the end of each event would take half as long as decoding all
events. So the text is split at a place where one event seems to follow another, and each block is decoded as a JSON
list. Decoding succeeds only if the place is really between two events, because JSON is unambiguous from its beginning.
If decoding fails because the place is elsewhere, such as within a string, the end of the event is found from its
brackets.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, NoReturn, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from etq.errors import FormatError, json_error
from etq.ingest.memory import shown
from etq.ingest.other_files import other_file
from etq.ingest.trace.repair import cause_of
from etq.ingest.trace.scanner import Trace
from etq.ingest.trace.text import LARGEST_VALUE

# Size of a block in bytes: small enough to stay in the processor's cache while it is decoded.
_BLOCK: Final = 2**17
# The most bytes of the text that are held at once, except for a larger event.
_CHUNK: Final = 2**22
_BOM: Final = b"\xef\xbb\xbf"
# The key may be written with escapes.
_BEGIN: Final = re.compile(rb'\s*("[\\u0-9traceEvents]{11,66}")\s*:\s*\[')
_KEY: Final = re.compile(rb'"[\\u0-9traceEvents]{11,66}"\s*:')
_BETWEEN: Final = re.compile(rb"\}(\s*,\s*)\{")
_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_NO_LIST: Final = (msgspec.DecodeError, RecursionError)
# The place in the message of a decoder's error, and how many bytes of the text before and after that place are shown.
_PLACE: Final = re.compile(r"\(byte (\d+)\)$")
_TEXT_AT: Final = 24
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
# The change of the depth of brackets at each byte outside of strings.
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1
_IS_MARK: Final = _STEPS != 0
_IS_MARK[[_QUOTE, _COMMA]] = True

T = TypeVar("T")


class BrokenError(Exception):
    """The text is not the JSON of a trace; the message says why and where."""


class Outline:
    """The brackets of JSON that comes in parts.

    depth  the number of brackets that are open at the end of the parts; -1 after the end of the list or object that
           contains the parts
    """

    def __init__(self) -> None:
        self.depth = 0
        # Whether the parts end within a string, and the number of backslashes at their end.
        self._is_within, self._backslashes = False, 0

    def add(self, part: bytes) -> npt.NDArray[np.int64]:
        """Return the places in the next part where values or members end: at commas, and at the closing bracket after
        the last one.
        """
        codes = np.frombuffer(part, np.uint8)
        places = np.flatnonzero(_IS_MARK[codes])
        marks = codes[places]
        is_quote = marks == _QUOTE
        is_end = is_quote & ~self._are_escaped(codes, places) if _BACKSLASH in part or self._backslashes else is_quote
        is_within = (np.cumsum(is_end) + self._is_within) % 2 == 1
        self._is_within = bool(is_within[-1]) if len(marks) else self._is_within
        is_outside = ~is_quote & ~is_within
        places, marks = places[is_outside], marks[is_outside]
        depths = self.depth + np.cumsum(_STEPS[marks], dtype=np.int64)
        closed = np.flatnonzero(depths < 0)[:1]
        if len(closed):
            places, marks, depths = places[: closed[0] + 1], marks[: closed[0] + 1], depths[: closed[0] + 1]
        self.depth = int(depths[-1]) if len(depths) else self.depth
        ends: npt.NDArray[np.int64] = places[((marks == _COMMA) & (depths == 0)) | (depths < 0)]
        return ends

    def _are_escaped(self, codes: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether each of these places follows an odd number of backslashes."""
        others = np.where(codes == _BACKSLASH, -1, np.arange(len(codes)))
        last = np.concatenate([[-1 - self._backslashes], np.maximum.accumulate(others)])
        last[last == -1] = last[0]
        self._backslashes = int(len(codes) - 1 - last[-1]) % 2
        escaped: npt.NDArray[np.bool_] = (places - 1 - last[places]) % 2 == 1
        return escaped


class Blocks:
    """A trace's text, which is read once, from its parts.

    `take` gets a JSON list of entries, and the number of earlier entries; it returns the number of entries in the list,
    or raises `msgspec.DecodeError` if the text isn't a list. `begins` and `ends` have the places of these lists in the
    text, and `sizes` has the number of entries in each list.
    """

    def __init__(self, parts: Iterator[bytes], path: str, take: Callable[[int, bytes], int]) -> None:
        self._parts, self._path, self._take = parts, path, take
        # The part of the text that is held, the place in it up to which it was read, and the part's place in the whole
        # text.
        self._text, self._at, self._offset = b"", 0, 0
        self._count = 0
        self.begins, self.ends, self.sizes = (array("q") for _ in range(3))

    def read(self) -> Trace:
        """Return the trace without its entries, which `take` gets.

        Raises `BrokenError` for anything but the JSON of a trace, `FormatError` for unsupported content.
        """
        self._hold(_CHUNK)
        head = self._text
        try:
            before = self._before()
            while not self._take_next():
                pass
            return self._around(before)
        except BrokenError:
            self._refuse_other(head)
            raise

    def _hold(self, size: int) -> bool:
        """Drop the bytes that were read, and hold this many further bytes of the text. Return whether there were
        further bytes.
        """
        held, added = [self._text[self._at :]], 0
        while added < size and (part := next(self._parts, None)) is not None:
            held.append(part)
            added += len(part)
        if added:
            self._text, self._at, self._offset = b"".join(held), 0, self._offset + self._at
        return added > 0

    def _before(self) -> bytes:
        """Read up to the list of entries; return the text before them."""
        start = len(_BOM) if self._text.startswith(_BOM) else 0
        first = self._text[start : start + 64].lstrip()[:1]
        if first == b"{":
            self._at = self._begin()
            before, closed = self._text[start : self._at], b"]}"
        else:
            self._refuse_other(self._text)
            if first != b"[":
                raise FormatError(
                    self._path, "not a PyTorch trace: the gzip has no JSON; give the profiler's .pt.trace.json.gz"
                )
            self._at = self._text.index(b"[") + 1
            before, closed = self._text[start : self._at], b"]"
        self._decoded(before + closed, start, Trace if first == b"{" else list[msgspec.Raw])
        return before

    def _begin(self) -> int:
        """Return where the list of entries of the object begins."""
        start = len(_BOM) if self._text.startswith(_BOM) else 0
        outline, at = Outline(), self._text.index(b"{") + 1
        members = [at]
        while True:
            piece = self._text[at : at + _BLOCK]
            # The last member of the previous piece is examined again, because it may have been incomplete.
            members = [members[-1], *(outline.add(piece) + at + 1).tolist()]
            for member in members:
                if (key := _BEGIN.match(self._text, member)) is not None and _is_key(key[1]):
                    return key.end()
            at += len(piece)
            if at > LARGEST_VALUE:
                self._refuse_value()
            if at < len(self._text):
                continue
            self._refuse_other(self._text)
            if not self._hold(max(at, _CHUNK)):
                self._decoded(self._text[start:], start, Trace)
                raise BrokenError("no list traceEvents")

    def _take_next(self) -> bool:
        """Read the entries of a block; return whether the list ends with them."""
        between = _BETWEEN.search(self._text, self._at + _BLOCK, self._at + 2 * _BLOCK)
        if between is None and len(self._text) - self._at <= 2 * _BLOCK and self._hold(_CHUNK):
            return False
        if between is not None:
            with suppress(*_NO_LIST):
                self._take_to(between.start() + 1)
                self._at = between.end(1)
                return False
        return self._take_exactly()

    def _take_to(self, end: int) -> None:
        size = self._take(self._count, b"".join((b"[", memoryview(self._text)[self._at : end], b"]")))
        self._count += size
        self.begins.append(self._offset + self._at)
        self.ends.append(self._offset + end)
        self.sizes.append(size)

    def _take_exactly(self) -> bool:
        """Read one entry or more; their ends are found from brackets. They take at most a block, unless the first is
        larger. Return whether the list ends with them.
        """
        outline, size = Outline(), 0
        while not len(ends := outline.add(piece := self._text[self._at + size : self._at + size + _BLOCK])):
            size += len(piece)
            is_too_large = size > LARGEST_VALUE
            if is_too_large or self._at + size >= len(self._text):
                self._check_begun()
                if is_too_large:
                    self._refuse_value()
                if not self._hold(max(size, _CHUNK)):
                    self._decoded(b"[" + self._text[self._at :], self._offset + self._at - 1, msgspec.Raw)
        end, is_last = self._at + size + int(ends[-1]), outline.depth < 0
        if _BLANK.fullmatch(self._text, self._at, end) and (self._count or not is_last):
            self._decoded(b"[0," + self._text[self._at : end] + b"]", self._offset + self._at - 3, msgspec.Raw)
        try:
            self._take_to(end)
        except _NO_LIST as error:
            raise _broken(error, b"[" + self._text[self._at : end] + b"]", self._offset + self._at - 1) from error
        self._at = end if is_last else end + 1
        return is_last

    def _around(self, before: bytes) -> Trace:
        """Read the text after the entries; return the trace without its entries."""
        while self._hold(max(len(self._text), _CHUNK)):
            if len(self._text) > LARGEST_VALUE:
                self._refuse_value()
        text, offset = before + self._text[self._at :], self._offset + self._at - len(before)
        if before[-len(b"[") :] == before.lstrip():
            self._decoded(text, offset, list[msgspec.Raw])
            return Trace([])
        trace = self._decoded(text, offset, Trace)
        # If the key is repeated, a decoder would keep only the last list, although each list may have a part of the
        # events.
        if len([*islice(_KEY.finditer(text), 2)]) > 1 and _outer_keys(text).count("traceEvents") > 1:
            raise FormatError(self._path, "not a PyTorch trace: it has several lists traceEvents")
        return trace

    def _check_begun(self) -> None:
        """Raise `BrokenError` if the held beginning of an entry can't be JSON, whatever follows."""
        text, offset = b"[" + self._text[self._at :], self._offset + self._at - 1
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # The error of a text that is only cut off has no place, or, within a number or an escape, has the place at
            # the end.
            named = _PLACE.search(str(error))
            is_within = named is not None and int(named[1]) < len(text) - _TEXT_AT
            if is_within or isinstance(error, RecursionError):
                raise _broken(error, text, offset) from error

    def _decoded(self, text: bytes, offset: int, kind: type[T]) -> T:
        """Return JSON, decoded as a type; raise `BrokenError` for other content. `offset` is the JSON's place in the
        whole text.
        """
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _broken(error, text, offset) from error

    def _refuse_value(self) -> NoReturn:
        raise FormatError(
            self._path,
            f"it has a value of more than {shown(LARGEST_VALUE)}, which is refused: no profiler writes one;"
            " record again",
        )

    def _refuse_other(self, head: bytes) -> None:
        if (other := other_file(head)) is not None:
            raise FormatError(self._path, other)


def _is_key(written: bytes) -> bool:
    with suppress(msgspec.DecodeError):
        return bool(msgspec.json.decode(written) == "traceEvents")
    return False


def _outer_keys(text: bytes) -> list[str]:
    """Return the keys of a JSON object; repeated keys are repeated."""
    import json

    # Numbers are left as texts, because Python limits their number of digits.
    keys: list[str] = json.loads(
        text.decode(errors="replace"),
        object_pairs_hook=lambda pairs: [key for key, _ in pairs],
        parse_int=str,
        parse_float=str,
    )
    return keys


def _broken(error: Exception, text: bytes, offset: int) -> BrokenError:
    """Return a message for a decoder's error: the error, the text at that place, and the cause if known. `offset` is
    the place of `text` in the whole text.
    """
    named = _PLACE.search(str(error))
    if named is None:
        return BrokenError(f"{json_error(error)}{cause_of(str(error), b'', b'')}")
    place = int(named[1])
    before, after = text[max(place - _TEXT_AT, 0) : place], text[place : place + _TEXT_AT]
    what = f"{str(error)[: named.start()]}(byte {offset + place})"
    return BrokenError(
        f"{what}, at {' '.join((before + after).decode(errors='replace').split())!r}"
        f"{cause_of(str(error), before, after)}"
    )
