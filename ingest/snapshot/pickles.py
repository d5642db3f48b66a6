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
_PROTOCOLS: Final = range(2, 6)
_STOP: Final = ord(".")
_PROTOCOL: Final = 0x80
_MARK: Final = ord("(")
_MEMOIZE: Final = 0x94
# The operations that a number follows, with its layout: a value, the size of a text or number, the index of a value in
# the memo, to get it or put it there, the protocol, and the size of a frame, which isn't needed.
_VALUES: Final = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d"}
_TEXTS: Final = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
_LONGS: Final = {0x8A: "<B", 0x8B: "<i"}
_GETS: Final = {ord("h"): "<B", ord("j"): "<I"}
_PUTS: Final = {ord("q"): "<B", ord("r"): "<I"}
_LAYOUTS: Final = {
    operation: struct.Struct(layout)
    for operation, layout in (_VALUES | _TEXTS | _LONGS | _GETS | _PUTS | {_PROTOCOL: "<B", 0x95: "<Q"}).items()
}
_CONSTANTS: Final[dict[int, Any]] = {ord("N"): None, 0x88: True, 0x89: False, ord(")"): ()}
_EMPTY: Final[dict[int, Any]] = {ord("}"): dict, ord("]"): list}
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
        self._at = self._operation_at = 0
        # The values since the last mark, and for each mark those before it.
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def error(self, why: str) -> FormatError:
        return FormatError(self._path, f"not a memory snapshot: {why}, at byte {self._operation_at:,} of its pickle")

    def read(self) -> Any:
        """Return the value on top of the stack at the end."""
        data, watch = self._data, Watch(self._path, len(self._data))
        while True:
            watch.check(self._at)
            for _ in range(_OPERATIONS):
                at = self._operation_at = self._at
                operation = data[at]
                if (layout := _LAYOUTS.get(operation)) is not None:
                    self._at = at + 1 + layout.size
                    self._do(operation, layout.unpack_from(data, at + 1)[0])
                elif operation != _STOP:
                    self._at = at + 1
                    self._combine(operation)
                elif self._below:
                    raise IndexError(at)
                else:
                    [value] = self._stack
                    return value

    def _do(self, operation: int, number: Any) -> None:
        """Do an operation that has a number."""
        if operation in _GETS:
            self._stack.append(self._memo[number])
        elif operation in _VALUES:
            self._stack.append(number)
        elif operation in _TEXTS:
            self._stack.append(str(self._bytes(number), "utf-8", "surrogatepass"))
        elif operation in _LONGS:
            if number > _LONGEST_NUMBER:
                raise ValueError(number)
            self._stack.append(int.from_bytes(self._bytes(number), "little", signed=True))
        elif operation in _PUTS:
            self._memo[number] = self._stack[-1]
        elif operation == _PROTOCOL and number not in _PROTOCOLS:
            raise self.error("its protocol isn't known")

    def _combine(self, operation: int) -> None:
        """Push a constant or an empty container, or take values from the stack, and push their container."""
        stack = self._stack
        if operation == _MEMOIZE:
            self._memo[len(self._memo)] = stack[-1]
        elif operation == _MARK:
            self._below.append(stack)
            self._stack = []
        elif operation in _EMPTY:
            stack.append(_EMPTY[operation]())
        elif operation == ord("u"):
            self._set(self._since_mark())
        elif operation == ord("e"):
            values = self._since_mark()
            self._of(list).extend(values)
        elif operation == ord("a"):
            value = stack.pop()
            self._of(list).append(value)
        elif operation == ord("s"):
            self._set(self._last(2))
        elif operation == ord("t"):
            values = self._since_mark()
            self._stack.append(tuple(values))
        elif operation in _TUPLES:
            stack.append(tuple(self._last(_TUPLES[operation])))
        elif operation in _CONSTANTS:
            stack.append(_CONSTANTS[operation])
        elif operation == ord("0"):
            stack.pop()
        else:
            raise self.error(
                f"its operation {operation:#04x} does more than make lists, dicts, texts and numbers; etq never runs "
                "such operations"
            )

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
            if type(key) is not str and type(key) is not int:
                raise TypeError(key)
            target[key] = value

    def _since_mark(self) -> list[Any]:
        """Take the values after the last mark from the stack, and the mark."""
        values, self._stack = self._stack, self._below.pop()
        return values

    def _last(self, count: int) -> list[Any]:
        """Take the last values from the stack."""
        values = self._stack[-count:]
        if len(values) < count:
            raise IndexError(count)
        del self._stack[-count:]
        return values

    def _bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if size < 0 or len(found) < size:
            raise IndexError(size)
        self._at += size
        return found
