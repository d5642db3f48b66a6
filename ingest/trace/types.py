"""The raw JSON of a trace's entries, read in blocks, or, if needed, one entry at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from etq.errors import FormatError
from etq.ingest.trace.blocks import Blocks, BrokenError
from etq.ingest.trace.repair import Repair
from etq.ingest.trace.scanner import Trace
from etq.ingest.trace.text import Text

# The most memory, in bytes, that making an event's rows takes, in addition to the memory for reading it.
_EVENT: Final = 240
# The most memory that the database takes while it stores rows.
_DATABASE: Final = 2**27
Event = TypeVar("Event")

_raws: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Part(Generic[Event]):
    """Entries to be decoded.

    places  their positions, ascending
    many    decodes a list of entries
    one     decodes a single entry, if decoding the list fails
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
        except msgspec.DecodeError:
            return False
        self.add([events[place] for place in places] if len(places) < len(events) else events)
        return True


def lenient(type: type[Event]) -> tuple[msgspec.json.Decoder[list[Event]], Callable[[msgspec.Raw], Event]]:
    """Return a decoder for a list of entries, and one for a single entry. The latter returns an empty object if the
    entry is laid out as by another tool.
    """
    decoder = msgspec.json.Decoder(type, strict=False)

    def one(entry: msgspec.Raw) -> Event:
        try:
            return decoder.decode(entry)
        except msgspec.DecodeError:
            return type()

    return msgspec.json.Decoder(list[type], strict=False), one  # type: ignore[valid-type]


class Entries:
    """A trace's JSON, which is read in blocks of entries, as often as needed."""

    def __init__(self, content: Any, path: str) -> None:
        self._text = Text(content, path)
        self._path = path
        self._blocks = Blocks(iter(()), path, lambda *_: 0)

    def read(self, take: Callable[[int, bytes], int]) -> Trace:
        """Return the trace without its entries, which `take` gets, as in `Blocks`.

        Raises `BrokenError` for what isn't JSON of a trace, `FormatError` for a damaged gzip and for other files.
        """

        def counted(first: int, block: bytes) -> int:
            count = take(first, block)
            self._text.needed = (first + count) * _EVENT + _DATABASE
            return count

        self._text.needed = 0
        self._blocks = Blocks(self._text.parts(), self._path, counted)
        trace = self._blocks.read()
        self._text.needed = 0
        return trace

    def read_broken(self, take: Callable[[int, bytes], int]) -> tuple[Trace, str]:
        """Like `read`, for text that isn't JSON: repair it, and also return a description of the repairs.

        Raises `FormatError` if the result isn't JSON either.
        """
        repair = Repair()
        self._text.change(repair.parts)
        try:
            return self.read(take), repair.done
        except BrokenError as error:
            what = f"not a PyTorch trace: expected JSON with traceEvents ({error}); give a file of PyTorch's profiler"
            raise FormatError(self._path, what) from error

    def release(self) -> None:
        """Free the text: later reads make it again."""
        self._text.release()

    def decode(self, *parts: Part[Any]) -> None:
        """Decode the entries of the parts, in one pass over the blocks that have them."""
        read = self._blocks
        ends = np.cumsum([0, *read.sizes])
        bounds = [np.searchsorted(part.places, ends) for part in parts]
        wanted = np.flatnonzero(np.any([np.diff(bound) > 0 for bound in bounds], axis=0)).tolist()
        blocks = self._text.lists(*([of[number] for number in wanted] for of in (read.begins, read.ends)))
        for number, block in zip(wanted, blocks, strict=True):
            raws: list[msgspec.Raw] = []
            for part, bound in zip(parts, bounds, strict=True):
                places = (part.places[bound[number] : bound[number + 1]] - ends[number]).tolist()
                # Decoding an entry that isn't wanted takes as long as finding its end.
                if places and not (2 * len(places) > read.sizes[number] and part.decode_list(block, places)):
                    raws = raws or _raws.decode(block)
                    part.decode([raws[place] for place in places])
