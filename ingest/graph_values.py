"""The values of exported programs' graphs: by name, and what is known of their tensors."""

from __future__ import annotations

from typing import Final

import msgspec

from etq.ingest.export_json import Graph, ProgramGraph, TensorMeta

# The row of the node that gives a value, where it is the graph's input; the number of what is no tensor.
NO_NODE: Final = -1
NO_TENSOR: Final = 0
_decoder: Final = msgspec.json.Decoder(TensorMeta)


def placed(error: msgspec.DecodeError, place: str) -> msgspec.DecodeError:
    """An error of a part of a member's JSON, told as of the whole: the part is at `place`, as msgspec writes it."""
    told, _, within = str(error).partition(" - at `$")
    return type(error)(f"{told} - at `{place}{within or '`'}")


class Tensors(dict[bytes, int]):
    """Numbers of descriptions of tensors, by the JSON they are written in; each is decoded when it first comes."""

    def __init__(self) -> None:
        super().__init__()
        # The first is of what is no tensor.
        self.metas: list[TensorMeta | None] = [None]

    def __missing__(self, written: bytes) -> int:
        meta = _decoder.decode(written)
        self[written] = number = len(self.metas)
        self.metas.append(meta if meta.meta is None else meta.meta)
        return number

    def values_of(self, graph: Graph | ProgramGraph, place: str) -> Values:
        """The tensors of a graph; `place` is for errors, see `placed`."""
        try:
            numbers = [*map(self.__getitem__, map(bytes, graph.tensor_values.values()))]
        except msgspec.DecodeError as error:
            raise placed(error, f"{place}.tensor_values[...]") from error
        return Values([*graph.tensor_values], numbers)


class Values(dict[str, int]):
    """The values of a graph: numbers by name, which add what is asked for and isn't there, and lists by number."""

    def __init__(self, names: list[str], tensors: list[int]) -> None:
        super().__init__(zip(names, range(len(names)), strict=True))
        self.names = names
        self.tensors = tensors
        # The last node so far that gave it.
        self.makers = [NO_NODE] * len(names)

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self.names)
        self.names.append(name)
        self.tensors.append(NO_TENSOR)
        self.makers.append(NO_NODE)
        return number
