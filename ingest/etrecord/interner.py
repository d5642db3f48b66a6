"""Interns texts that repeat in exported programs' nodes: each distinct text is decoded and stored once."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from etq.ingest.etrecord.export_json import Origin

_text: Final = msgspec.json.Decoder(str | None)
_origins: Final = msgspec.json.Decoder(list[Origin])


def packed(numbers: list[int]) -> bytes:
    """Return numbers as bytes of an `array("i")`: appending bytes to the array is several times faster than appending
    numbers.
    """
    return struct.pack(f"{len(numbers)}i", *numbers)


class StringInterner(defaultdict[str | None, int]):
    """A column of texts: the distinct texts are numbered, and each row has the number of its text."""

    def __init__(self) -> None:
        super().__init__(count().__next__)
        self._codes = array("i")
        self._written: dict[bytes, int] = {}

    def extend(self, values: Iterable[str | None]) -> None:
        """Add rows."""
        self._codes.frombytes(packed([*map(self.__getitem__, values)]))

    def extend_written(self, values: Iterable[msgspec.Raw]) -> None:
        """Add rows of JSON texts. If a value is not a text, the rows before it are added, then msgspec's error is
        raised.

        Neighbours are mostly equal, and comparing them is faster than a look-up.
        """
        last, number, codes = None, 0, list[int]()
        try:
            for value in values:
                if value != last:
                    last, written = value, bytes(value)
                    known = self._written.get(written)
                    if known is None:
                        known = self._written[written] = self[_text.decode(written)]
                    number = known
                codes.append(number)
        finally:
            self._codes.frombytes(packed(codes))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._codes)

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """The number of each row's text."""
        return np.array(self._codes, np.int32)


class Origins(dict[bytes, list[list[int]]]):
    """The debug handles of the nodes that were made from each node of the exported graph.

    Keys are the values of `from_node` as in the JSON (JSON within a text). An item has one list of handles for each
    exported node that the key names. A node with this `from_node` adds its own handle to all of these lists.
    """

    def __init__(self, export_graph_id: str) -> None:
        super().__init__()
        self._export_graph_id = export_graph_id
        self.handles = defaultdict[str | None, list[int]](list)

    def __missing__(self, written: bytes) -> list[list[int]]:
        text = _text.decode(written)
        origins = _origins.decode(text) if text else []
        found = []
        for origin in origins:  # The list grows during the loop.
            if str(origin.graph_id) == self._export_graph_id:
                found.append(self.handles[origin.name])
            origins += origin.from_node
        self[written] = found
        return found
