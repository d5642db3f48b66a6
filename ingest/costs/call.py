"""One call of an op, with the sizes that formulas share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from etq.ingest.costs.arguments import Argument, Arguments
from etq.ingest.costs.formulas import Formula
from etq.ingest.costs.numbers import (
    UNKNOWN,
    Sizes,
    first_known,
    known,
    list_in,
    number_in,
    product,
    rank,
    ratio,
    size,
    total,
    truth_in,
    whole_in,
    wholes_in,
)

_DIMENSIONS: Final = re.compile(r"(\d)d")


class Lengths(NamedTuple):
    """The lengths of the sequences of a server's step, each summed over the sequences. They are read from the step's
    name.

    queries, keys              numbers of queries and of keys
    seen                       number of pairs of a query and a key that causal attention computes
    generated, generated_keys, generated_seen  the same for generation alone
    """

    queries: float
    keys: float
    seen: float
    generated: float
    generated_keys: float
    generated_seen: float


class Heads(NamedTuple):
    """The sizes of attention over a cache or with a mask, for all heads together.

    rows                            number of rows of queries
    sequences                       number of sequences
    query_elements, value_elements  elements of the queries, and of as many rows of values
    row_bytes                       bytes of a row of the cache
    most                            an upper bound of the positions that the rows see, summed over the rows
    """

    rows: float
    sequences: float
    query_elements: float
    value_elements: float
    row_bytes: float
    most: float


class Recurrence(NamedTuple):
    """The sizes of a recurrent network's call; NaN where unknown."""

    gates: float
    hidden: float
    width: float  # the size of its output, which may be projected
    layers: float
    directions: float


class Call:
    """One call of an op of a trace.

    arguments   its arguments
    lengths     lengths of the sequences of its step; None if they are unknown
    assumed     sizes that its arguments lack, by name: what people have given, or what the call allocates shows
    products    how many products a backward pass computes
    output_sizes  the sizes of its output, see `output_sizes`; None until they are computed
    """

    def __init__(
        self,
        label: str,
        formula: Formula,
        arguments: Arguments,
        lengths: Lengths | None = None,
        assumed: Mapping[str, float] | None = None,
        products: int = 0,
    ) -> None:
        self.label, self.formula, self.arguments = label, formula, arguments
        self.op, self.per_input, self.per_output = formula.op, formula.per_input, formula.per_output
        self.lengths, self.assumed, self.products = lengths, assumed or {}, products
        self.main, self.first = arguments.main, arguments.first
        self.tensors, self.outs = arguments.tensors, arguments.outs
        self.output_sizes: Sizes = None

    def __getitem__(self, name: str) -> Argument:
        """Return the argument of this name; if there is none, an argument without sizes and value."""
        return self.arguments[name]

    def value(self, name: str) -> str | None:
        """Return the value of an argument as text."""
        return self.arguments[name].value

    def whole(self, name: str) -> float:
        """Return the value of an argument as a whole number."""
        return whole_in(self.value(name))

    def number(self, name: str) -> float:
        """Return the value of an argument as a number."""
        return number_in(self.value(name))

    def wholes(self, name: str) -> Sizes:
        """Return the value of an argument as a list of whole numbers."""
        return wholes_in(self.value(name))

    def truth(self, name: str) -> bool | None:
        """Return whether an argument is true; None if it is unknown."""
        return truth_in(self.value(name))

    def assume(self, name: str) -> float:
        """Return an assumed size; NaN if that size isn't assumed."""
        return self.assumed.get(name, UNKNOWN)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the main argument."""
        return self.main.sizes

    @cached_property
    def input_elements(self) -> float:
        """The number of elements of the main argument, or of the first list."""
        if not self.arguments.is_of_lists:
            return self.main.elements
        listed = self.arguments.first_list
        return UNKNOWN if listed is None else total(each.elements for each in listed)

    @property
    def output_elements(self) -> float:
        """The number of elements of the output."""
        if self.arguments.is_of_lists and self.formula.sizes == "each":
            return UNKNOWN if self.arguments.first_list is None else len(self.arguments.first_list)
        return self.input_elements if self.arguments.is_of_lists else product(self.output_sizes)

    @property
    def is_sized_by_outs(self) -> bool:
        """Whether the tensors that it writes into show the size of its output. An empty tensor doesn't: the op resizes
        it.
        """
        if self.formula.sizes == "out" and self.outs:
            return True
        return total(each.elements for each in self.outs) > 0

    @property
    def dimensions(self) -> int:
        """The number of dimensions in the op's name; 0 if it has none."""
        match = _DIMENSIONS.search(self.op)
        return 0 if match is None else int(match[1])

    @property
    def is_transposed(self) -> bool:
        """Whether it is a transposed convolution."""
        return "transpose" in self.op or self.truth("transposed") is True

    @property
    def is_by_weight(self) -> bool:
        """Whether its weight is a matrix that its input can be multiplied by."""
        weight = self["weight"].sizes
        return rank(weight) == 2 and rank(self.sizes) >= 2 and size(weight, 2) == size(self.sizes, -1)

    @property
    def asked(self) -> Sequence[bool | None] | None:
        """For each output of a backward pass, whether it is asked for; None if that is unknown."""
        parts = list_in(self.value("output_mask"))
        found = None if parts is None else [truth_in(part) for part in parts]
        return None if found is None or None in found else found

    def is_asked(self, place: int) -> float:
        """Return 1 if output `place`, from 1, is asked for, else 0; NaN if that is unknown."""
        asked = self.asked
        return UNKNOWN if asked is None or place > len(asked) else float(asked[place - 1] is True)

    @property
    def dims(self) -> Sizes:
        """The dimensions that it works along, counted from 0. A stable sort has one more argument before them."""
        name = "dim"
        if self.op == "aten.sort":
            name = "second" if self.arguments.given == 4 else "first"
        return self.from_start(self.wholes(name))

    def from_start(self, dims: Sizes) -> Sizes:
        """Return dimensions of the main argument, counted from 0."""
        if dims is None or self.sizes is None:
            return None
        return [each + len(self.sizes) if each < 0 else each for each in dims]

    @property
    def chosen(self) -> float:
        """How many experts each token has."""
        return first_known(self.written_chosen, self.assume("top_k"))

    @property
    def written_chosen(self) -> float:
        """How many experts each token has, according to the arguments."""
        return first_known(size(self["topk_ids"].sizes, -1), self.whole("topk"))

    @property
    def is_of_one_token(self) -> bool:
        """Whether it is a call of experts for one token: then it uses only the experts of that token."""
        return size(self["topk_ids"].sizes, 1) == 1 and self["w1"].bytes > 1

    @property
    def recurrence(self) -> Recurrence:
        """The sizes of a recurrent network."""
        hidden, projected = self.whole("hidden_size"), self.whole("proj_size")
        return Recurrence(
            {"2": 4, "3": 3, "0": 1, "1": 1}.get(self.value("mode") or "", UNKNOWN),
            hidden,
            projected if known(projected) and projected else hidden,
            self.whole("layers"),
            {"True": 2, "False": 1}.get(self.value("bidirectional") or "", UNKNOWN),
        )

    @property
    def has_no_window(self) -> bool:
        """Whether each query sees all positions, or all positions up to its own. An op of torch without a window
        doesn't write the argument.
        """
        unwritten = "-1" if self.op.startswith("aten.") else None
        left, right = (self.value(name) or unwritten for name in ("window_left", "window_right"))
        is_causal = self.value("window_right") == "0" and self.truth("is_causal") is True
        return left == "-1" and (right == "-1" or is_causal)

    @property
    def is_causal(self) -> bool | None:
        """Whether attention is causal; None if it is unknown."""
        if (causal := self.truth("is_causal")) is not None:
            return causal
        kind = self.value("mask_type")
        return None if kind is None else kind != "0"

    @property
    def query_length(self) -> float:
        """The length of the sequences of queries."""
        return self._length(self.sizes, "cum_seq_q", "max_q")

    @property
    def key_length(self) -> float:
        """The length of the sequences of keys."""
        if self["block_table"].has_dimensions or self["used_keys"].has_dimensions:
            return UNKNOWN
        return self._length(self["key"].sizes, "cum_seq_k", "max_k")

    def _length(self, sizes: Sizes, bounds: str, longest: str) -> float:
        """Return the length of sequences.

        NaN if sequences in one tensor have different lengths, or if the arguments don't show whether their lengths
        differ. `bounds` is the argument with the begins and ends of the sequences, `longest` the argument with the
        greatest length.
        """
        ends = self[bounds].sizes
        if not ends:
            return size(sizes, -2 if "_cudnn_attention" in self.op else -3)
        length = self.whole(longest)
        return length if size(sizes, -3) == (size(ends, 1) - 1) * length else UNKNOWN

    @property
    def table_width(self) -> float:
        """The number of elements of a row of batched tables of embeddings.

        Known if all rows have one size: with one table, or if all tables have the greatest one. The optimizer keeps one
        number for each row.
        """
        together = first_known(size(self["gradient"].sizes, -1), self.whole("total_width"))
        tables = size(self["D_offsets"].sizes, 1) - 1
        if tables == 1:
            kept = ratio(self["weight"].elements, self["state"].elements)
            return first_known(together, kept if self["uvm_weight"].elements == 0 else UNKNOWN)
        width = self.whole("width")
        return width if width * tables == together else UNKNOWN

    @property
    def rotated(self) -> float:
        """The number of rotated elements of queries and keys.

        In each head, the number of rotated elements is the length of a row of the table. It is unknown if the call has
        more tensors, because it then also writes caches.
        """
        if len(self.arguments.all_tensors) > 6:
            return UNKNOWN
        query, key = self["query"], self["key"]
        both = total(each.elements if each.sizes is None or each.sizes else 0 for each in (query, key))
        head = first_known(self.whole("head_size"), size(query.sizes, -1) if rank(query.sizes) == 3 else UNKNOWN)
        return ratio(both * size(self["table"].sizes, -1), head)

    @cached_property
    def heads(self) -> Heads:
        """The sizes of attention over a cache or with a mask."""
        if self.formula.counts == "latent attention":
            return self._latent
        return self._masked if self.formula.counts == "masked attention" else Heads(*[UNKNOWN] * 6)

    @property
    def _latent(self) -> Heads:
        """The sizes of latent attention (MLA).

        Its rows may see chosen positions, or the positions of all pages. Some versions take the rotated part of queries
        as a separate tensor.
        """
        query, rope, cache = self["query"], self["query_rope"], self["key_cache"]
        rows = ratio(query.elements, product(None if query.sizes is None else query.sizes[-2:]))
        sequences = first_known(size(self["query_bounds"].sizes, 1) - 1, size(query.sizes, 1))
        # The tensor of partial results, whose dimensions are parts, rows and heads.
        parts = next((each for each in self.tensors if each.place > 6 and rank(each.sizes) == 4), None)
        width = first_known(
            size(self["out"].sizes, -1), self.whole("value_size"), UNKNOWN if parts is None else size(parts.sizes, -1)
        )
        more = UNKNOWN
        if rank(rope.sizes) == rank(query.sizes) and size(rope.sizes, -1) < size(query.sizes, -1):
            more = rope.elements
        elif size(query.sizes, -1) > width:
            more = 0
        chosen, table, pages = (self[name].sizes for name in ("chosen_keys", "block_table", "pages"))
        most = UNKNOWN
        if rank(chosen) == 3:
            most = rows * size(chosen, 3)
        elif rank(table) == 2:
            most = rows * size(table, 2) * size(cache.sizes, 2)
        elif rank(pages) == 1:
            most = ratio(rows, sequences) * size(pages, 1) * size(cache.sizes, 2)
        return Heads(
            rows,
            sequences,
            query.elements + more,
            ratio(query.elements, size(query.sizes, -1)) * width,
            size(cache.sizes, -1) * cache.bytes if rank(cache.sizes) >= 3 else UNKNOWN,
            most,
        )

    @property
    def _masked(self) -> Heads:
        """The sizes of the kernels of FlexAttention and SageAttention.

        Rows may see as many positions as there are keys. The kernel takes tensors whose views were its arguments. Their
        middle dimensions are heads and positions, or positions and heads. The sizes of the sums of exponentials
        (logsumexp), or of the scales of the blocks of a head's queries, show which order it is.
        """
        query, key, value = (self[name].sizes for name in ("query", "key", "value"))
        sums = self["logsumexp"].sizes or self["query_scales"].sizes
        unknown = Heads(*[UNKNOWN] * 6)
        if query is None or key is None or value is None or sums is None or not len(query) == len(key) == 4:
            return unknown
        places = {3: [*query[:-1]], 2: [query[0], query[2], query[1]]}
        count = 3 if self["logsumexp"].sizes else 2
        place = next((place for place, each in places.items() if each[:count] == [*sums[:count]]), 0)
        heads = size(key, 5 - place) if place else UNKNOWN
        is_one = key[3] == query[3] and [*key[:3]] == [*value[:3]] and key[0] in (1, query[0])
        if not is_one or not heads or not known(heads) or size(sums, 2) % heads:
            return unknown
        rows = product(query[:-1])
        return Heads(rows, query[0], self["query"].elements, rows * size(value, 4), UNKNOWN, rows * key[place - 1])
