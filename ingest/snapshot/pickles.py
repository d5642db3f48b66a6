"""Reads pickles of plain data: lists, tuples, dicts, texts, numbers, None. Nothing else is created, and nothing is
called.

The operations are those of Python's `pickletools`, protocols 2 to 5, except for operations that name or call a class or
function, or set an object's state. An excluded operation is an error, so that a pickle can't run code.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from etq.errors import FormatError
from etq.ingest.memory import Watch

# The most digits: no number of a snapshot has more.
_LONGEST_NUMBER: Final = 16
# The free memory is checked each time after this many operations.
_OPERATIONS: Final = 2**16
# Marks the bottom of a part of the stack.
_MARK: Final = object()
_PROTOCOLS: Final = range(2, 6)
_CONSTANTS: Final[dict[int, Any]] = {ord("N"): None, 0x88: True, 0x89: False}
# The layout of a number, by operation.
_NUMBERS: Final = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d"}
# The layout of a text's length, by operation.
_TEXTS: Final = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
# The layout of the index, by operation, for operations that put into the memo or get from it.
_PUTS: Final = {ord("q"): "<B", ord("r"): "<I"}
_GETS: Final = {ord("h"): "<B", ord("j"): "<I"}
_LONGS: Final = {0x8A: "<B", 0x8B: "<i"}
_EMPTY: Final = {ord("]"): list, ord("}"): dict, ord(")"): tuple}
_TUPLES: Final = {0x85: 1, 0x86: 2, 0x87: 3}


def loads(data: bytes, path: str) -> Any:
    """Return the value of a pickle.

    Raises `FormatError`, naming the byte, for a damaged pickle, and for one with other objects than lists, tuples,
    dicts, texts and numbers.
    """
    reader = _Reader(data, path)
    try:
        return reader.read()
    except (IndexError, struct.error, UnicodeDecodeError, AttributeError, TypeError, ValueError, KeyError):
        raise reader.error("it is damaged") from None


class _Reader:
    """The stack machine."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data, self._path = data, path
        self._watch = Watch(path, len(data))
        self._at = self._operation_at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def error(self, why: str) -> FormatError:
        return FormatError(self._path, f"not a memory snapshot: {why}, at byte {self._operation_at:,} of its pickle")

    def read(self) -> Any:
        """Return the value on top of the stack at the end."""
        data, stack = self._data, self._stack
        while True:
            self._watch.check(self._at)
            for _ in range(_OPERATIONS):
                self._operation_at = self._at
                operation = data[self._at]
                self._at += 1
                if operation == ord("."):
                    [value] = stack
                    return value
                self._do(operation)

    def _do(self, operation: int) -> None:
        stack = self._stack
        if (text := _TEXTS.get(operation)) is not None:
            stack.append(str(self._bytes(self._number(text)), "utf-8", "surrogatepass"))
        elif operation == 0x94:
            self._memo[len(self._memo)] = stack[-1]
        elif (get := _GETS.get(operation)) is not None:
            stack.append(self._memo[self._number(get)])
        elif (number := _NUMBERS.get(operation)) is not None:
            stack.append(self._number(number))
        elif operation == ord("("):
            stack.append(_MARK)
        elif (empty := _EMPTY.get(operation)) is not None:
            stack.append(empty())
        elif (put := _PUTS.get(operation)) is not None:
            self._memo[self._number(put)] = stack[-1]
        elif operation in _CONSTANTS:
            stack.append(_CONSTANTS[operation])
        elif (long := _LONGS.get(operation)) is not None:
            stack.append(self._long(self._number(long)))
        elif operation in (0x80, 0x95):
            self._begin(operation)
        else:
            self._combine(operation)

    def _combine(self, operation: int) -> None:
        """Take values from the stack, and push their container."""
        stack = self._stack
        if operation == ord("a"):
            value = stack.pop()
            self._of(list).append(value)
        elif operation == ord("e"):
            values = self._marked()
            self._of(list).extend(values)
        elif operation == ord("s"):
            value, key = stack.pop(), stack.pop()
            self._set([key, value])
        elif operation == ord("u"):
            self._set(self._marked())
        elif operation == ord("t"):
            stack.append(tuple(self._marked()))
        elif (size := _TUPLES.get(operation)) is not None:
            values = [stack.pop() for _ in range(size)][::-1]
            if _MARK in values:
                raise ValueError("a mark in a tuple")
            stack.append(tuple(values))
        elif operation == ord("0"):
            stack.pop()
        else:
            raise self.error(
                f"its operation {operation:#04x} does more than make lists, dicts, texts and numbers; etq never runs "
                "such operations"
            )

    def _begin(self, operation: int) -> None:
        """Skip a protocol, or the length of a frame, which isn't needed because all bytes are in memory."""
        if operation == 0x80 and self._number("<B") not in _PROTOCOLS:
            raise self.error("its protocol isn't known")
        if operation == 0x95:
            self._number("<Q")

    def _of(self, kind: type) -> Any:
        """Return the value on top of the stack. It must be of this kind."""
        value = self._stack[-1]
        if type(value) is not kind:
            raise TypeError(kind)
        return value

    def _set(self, values: list[Any]) -> None:
        target = self._of(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Comparing keys of other types could take very long.
            if type(key) not in (str, int):
                raise TypeError(key)
            target[key] = value

    def _marked(self) -> list[Any]:
        """Take the values after the last mark from the stack."""
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError(at)
        values = stack[at + 1 :]
        del stack[at:]
        return values

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._bytes(struct.calcsize(layout)))[0]

    def _long(self, size: int) -> int:
        if not 0 <= size <= _LONGEST_NUMBER:
            raise ValueError(size)
        return int.from_bytes(self._bytes(size), "little", signed=True)

    def _bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise IndexError(size)
        self._at += size
        return found
