"""The arguments of a call of an op of a trace: tensors, lists of tensors, numbers and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec

from etq.ingest.costs.formulas import formulas
from etq.ingest.costs.numbers import UNKNOWN, Sizes, known, product, total

# Bytes of an element by the name that C++ gives its type.
_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("bool", "unsigned char", "signed char", "char"), 1),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short", "short int", "unsigned short", "short unsigned int"), 2),
    **dict.fromkeys(("float", "int", "unsigned int", "c10::complex<c10::Half>"), 4),
    **dict.fromkeys(
        ("double", "long", "long int", "unsigned long", "long unsigned int", "c10::complex<float>"), 8
    ),
    "c10::complex<double>": 16,
}  # fmt: skip
_SHORT: Final[Mapping[str, str]] = {
    "float": "f32", "double": "f64", "c10::BFloat16": "bf16", "c10::Half": "f16", "long int": "i64", "long": "i64",
    "int": "i32", "short": "i16", "signed char": "i8", "unsigned char": "u8", "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
}  # fmt: skip
_LIST: Final = "TensorList"
# How many names of types are cached; a file may contain any number of names.
_TYPES: Final = 1000
_OUT: Final = re.compile(r"out\d?")
# PyTorch's own limit.
_MOST_DIMENSIONS: Final = 64
_INTEGERS: Final = (-(2**63), 2**63)


@lru_cache(_TYPES)
def bytes_of(dtype: str | None) -> float:
    """Return the bytes of an element of a type of a trace; NaN for an argument that is not a tensor."""
    if dtype is None:
        return UNKNOWN
    if dtype.startswith("c10::Float8"):
        return 1
    if dtype.startswith("OpaqueType<"):
        match = re.search(r"\d+", dtype)
        return UNKNOWN if match is None else float(match[0])
    return _BYTES.get(dtype, UNKNOWN)


@lru_cache(_TYPES)
def short_type(dtype: str | None) -> str:
    """Return the short name of a type of a trace, such as bf16; '' if it is unknown."""
    if dtype is None:
        return ""
    if dtype.startswith("OpaqueType<") and known(bytes_of(dtype)):
        return f"{8 * bytes_of(dtype):.0f}bit"
    return _SHORT.get(dtype) or dtype.replace("c10::", "").replace("Float", "f").lower()


class Argument:
    """One argument of a call, or one tensor of a list.

    place, part   position of the argument, from 1, and in its list, from 1; 0 without a list
    name          its name, or None
    sizes         sizes by dimension; None if they are not written. `strides`: distances by dimension, in elements
    value         its value as text, if it isn't a tensor
    type, bytes   the name of the type, and bytes of an element; NaN for anything but a tensor
    is_out        whether it is written
    is_read       whether its elements are read
    """

    def __init__(
        self,
        place: int = 0,
        part: int = 0,
        name: str | None = None,
        sizes: Sizes = None,
        strides: Sizes = None,
        value: str | None = None,
        dtype: str | None = None,
    ) -> None:
        self.place, self.part = place, part
        self.is_out = name is not None and _OUT.fullmatch(name) is not None
        self.is_read = name is None or not name.startswith("!")
        self.name = None if name is None else name.removeprefix("!")
        self.sizes, self.strides, self.value, self.type = sizes, strides, value, dtype
        self.bytes = bytes_of(dtype)

    @cached_property
    def elements(self) -> float:
        """The number of its elements."""
        return product(self.sizes)

    @property
    def row_elements(self) -> float:
        """The number of its elements at one index of the first dimension."""
        return product(None if self.sizes is None else self.sizes[1:])

    @property
    def stored_elements(self) -> float:
        """The number of its elements in memory.

        Dimensions of stride 0 repeat the same elements, and overlapping windows share elements.
        """
        sizes, strides = self.sizes, self.strides
        if sizes is None or strides is None or len(strides) != len(sizes) or 0 in sizes:
            return self.elements
        pairs = [*zip(sizes, strides, strict=True)]
        apart = product([1 if stride == 0 else each for each, stride in pairs])
        span = 1 + total((each - 1) * stride for each, stride in pairs)
        return min(apart, span) if known(apart) and known(span) else UNKNOWN

    @property
    def held_bytes(self) -> float:
        """Its bytes in memory."""
        return self.stored_elements * self.bytes

    @property
    def rank(self) -> float:
        """A number that orders types: the bytes of an element, plus 100 for integers, 200 for floats, 300 for complex
        numbers.
        """
        dtype = self.type or ""
        if dtype == "bool":
            return self.bytes
        if "complex" in dtype:
            return 300 + self.bytes
        return (200 if dtype in ("float", "double") or dtype.startswith("c10::") else 100) + self.bytes

    @property
    def has_dimensions(self) -> bool:
        """Whether it has dimensions."""
        return bool(self.sizes)


ABSENT: Final = Argument()


class Inputs:
    """The inputs of a call by argument: sizes, or a list of sizes; types; distances; values."""

    def __init__(
        self,
        sizes: Sequence[Any],
        dtypes: Sequence[Any] | None,
        strides: Sequence[Any] | None,
        values: Sequence[Any] | None,
    ) -> None:
        self.sizes = sizes
        self.dtypes = [None if each is None else _text(each) for each in dtypes or ()]
        self.strides = strides or ()
        self.values = [None if each is None else _text(each) or None for each in values or ()]
        # Some versions of torch write an empty list of types.
        self.has_types = bool(self.dtypes) or not sizes

    @classmethod
    def of(cls, sizes: str | None, dtypes: str | None, strides: str | None, values: str | None) -> Inputs | None:
        """Return inputs that are written as JSON; None if the sizes aren't a list."""
        listed = _list(sizes)
        try:
            return None if listed is None else cls(listed, *map(_list, (dtypes, strides, values)))
        except RecursionError:  # a value that can be read, but is nested too deeply to be written
            return None

    def dtype(self, at: int) -> str | None:
        """The type of an argument, by its index from 0; None if no type is written."""
        return self.dtypes[at] if at < len(self.dtypes) else None

    def stride(self, at: int) -> Any:
        """The distances (strides) of an argument, by its index from 0; None if none are written."""
        return _at(self.strides, at)

    def value(self, at: int) -> str | None:
        """The value of an argument that isn't a tensor, by its index from 0."""
        return self.values[at] if at < len(self.values) else None

    @property
    def ends_in_tensor(self) -> bool:
        """Whether the last argument is a tensor or a list of tensors. If no types are written, an argument without
        dimensions isn't known to be a tensor.
        """
        last = len(self.sizes) - 1
        if last < 0:
            return False
        if self.has_types:
            return self.dtype(last) == _LIST or known(bytes_of(self.dtype(last)))
        return bool(self.sizes[last] != [])


NO_INPUTS: Final = Inputs([], None, None, None)


class Arguments:
    """The arguments of a call of an op; the call's cost is computed from them.

    named         arguments by name; those without a name by their position, as text
    tensors       the tensors that are not outputs, in their order, with the tensors of lists; `outs` has the outputs
    all_tensors   the tensors and the outputs, in their order
    listed        the tensors of lists
    first_list    the tensors of the first list; None if no list has tensors
    is_of_lists   whether the first list precedes all other tensors
    first, main   the first tensor, and the tensor that the op is about
    given         the number of arguments without the outputs, which come last
    """

    def __init__(self, op: str, inputs: Inputs, listed: Sequence[str] | None = None) -> None:
        """`listed` has the types of the tensors in lists, because traces don't contain these types."""
        known_ones = formulas()
        count = len(inputs.sizes)
        outs = known_ones.outs.get((op, count)) if inputs.ends_in_tensor else None
        first_out = count + 1 if outs is None else count - outs + 1
        names = known_ones.arguments.get(op, ())
        self.has_types, self.given = inputs.has_types, first_out - 1
        every, lists = _arguments(inputs, names, first_out), _lists(inputs, names, first_out)
        self.named = {each.name or str(each.place): each for each in every}
        self.listed = [tensor for number, each in enumerate(lists) for tensor in _of_list(number, each, listed)]
        singles = [
            each for each in every if (known(each.bytes) if inputs.has_types else bool(each.sizes))
        ]  # fmt: skip
        self.all_tensors = singles
        if lists:
            self.all_tensors = sorted(singles + self.listed, key=lambda each: (each.place, each.part))
        single = next((each for each in singles if not each.is_out), None)
        self.is_of_lists = bool(lists) and (single is None or lists[0][0] < single.place)
        # If a trace lacks the tensors of lists, all lists look empty.
        self.first_list = [each for each in self.listed if each.place == lists[0][0]] if self.listed else None
        self.tensors = [each for each in self.all_tensors if not each.is_out]
        self.outs = [each for each in self.all_tensors if each.is_out]
        of_list = self.first_list[0] if self.is_of_lists and self.first_list else ABSENT
        self.first = of_list if self.is_of_lists else single or ABSENT
        if self.is_of_lists:
            self.main = of_list
        else:
            chosen = self.named.get("query") or self.named.get("self") or single
            self.main = chosen or next(iter(self.all_tensors), ABSENT)

    def __getitem__(self, name: str) -> Argument:
        """Return the argument of a name; `ABSENT` if it isn't written."""
        return self.named.get(name, ABSENT)

    @property
    def text(self) -> str:
        """The types and sizes of its tensors: bf16[8,4] bf16[4,2]."""
        return " ".join(
            f"{short_type(each.type)}[{','.join(f'{one:.0f}' for one in each.sizes)}]"
            for each in self.all_tensors
            if each.sizes is not None
        )


def _arguments(inputs: Inputs, names: Sequence[str], first_out: int) -> list[Argument]:
    return [
        Argument(
            at + 1, 0, _name(at + 1, names, first_out), _sizes(sizes), _sizes(inputs.stride(at)), inputs.value(at),
            inputs.dtype(at),
        )
        for at, sizes in enumerate(inputs.sizes)
    ]  # fmt: skip


# A list of tensors: its position, its name, and the sizes and distances of its tensors.
_List = tuple[int, str | None, list[Sizes], Any]


def _lists(inputs: Inputs, names: Sequence[str], first_out: int) -> list[_List]:
    found: list[_List] = []
    for at, each in enumerate(inputs.sizes):
        parts = [_sizes(part) for part in each] if isinstance(each, list) else []
        is_list = bool(parts) and None not in parts
        if inputs.dtype(at) == _LIST or is_list:
            name = _name(at + 1, names, first_out)
            found.append((at + 1, name, parts if is_list else [], inputs.stride(at)))
    return found


def _of_list(number: int, listed: _List, types: Sequence[str] | None) -> list[Argument]:
    place, name, parts, strides = listed
    dtype = types[min(number, len(types) - 1)] if types else None
    return [
        Argument(place, part, name, sizes, _sizes(_at(strides, part - 1)), None, dtype)
        for part, sizes in enumerate(parts, 1)
    ]


def _name(place: int, names: Sequence[str], first_out: int) -> str | None:
    """Return the name of an argument. The first argument that the call writes into is out, further ones are out2 and so
    on.
    """
    if place >= first_out:
        return "out" if place == first_out else f"out{place - first_out + 1}"
    return names[place - 1] if place <= len(names) else None


def _list(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _at(values: Any, at: int) -> Any:
    return values[at] if isinstance(values, list | tuple) and at < len(values) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _sizes(written: Any) -> Sizes:
    """Return sizes as they are written.

    None for anything but a list of whole numbers of 64 bits, and for more dimensions than a tensor can have.
    """
    if not isinstance(written, list) or len(written) > _MOST_DIMENSIONS:
        return None
    low, high = _INTEGERS
    if not all(type(each) is int and low <= each < high for each in written):
        return None
    return [float(each) for each in written]


def of_sizes(tensors: Sequence[Argument]) -> float:
    """Return the bytes of tensors in memory."""
    return total(each.held_bytes for each in tensors)
