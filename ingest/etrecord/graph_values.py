"""The values of exported programs' graphs, with the properties of their tensors."""

from __future__ import annotations

from typing import Final

import msgspec

from etq.ingest.etrecord.export_json import Graph, ProgramGraph, TensorMeta

# Stands for the node of a value that no node computes: an input of the graph.
NO_NODE: Final = -1
# Stands for the tensor of a value that isn't a tensor.
NO_TENSOR: Final = 0
_decoder: Final = msgspec.json.Decoder(TensorMeta)


def placed(error: msgspec.DecodeError, place: str) -> msgspec.DecodeError:
    """Return an error about a part of a member's JSON, with the error's path in the whole JSON; `place` is the part's
    path in msgspec's notation.
    """
    what, _, within = str(error).partition(" - at `$")
    return type(error)(f"{what} - at `{place}{within or '`'}")


class TensorsOfValues(dict[str, int]):
    """The number of each value's tensor, by the value's name; `NO_TENSOR` for other values."""

    def __missing__(self, name: str) -> int:
        return NO_TENSOR


class Tensors(dict[bytes, int]):
    """Numbers of tensor descriptions, by their JSON; each distinct text is decoded once, when it is first looked up."""

    def __init__(self) -> None:
        super().__init__()
        # The first entry, `NO_TENSOR`, is for values that are not tensors.
        self.metas: list[TensorMeta | None] = [None]

    def __missing__(self, written: bytes) -> int:
        meta = _decoder.decode(written)
        self[written] = number = len(self.metas)
        self.metas.append(meta if meta.meta is None else meta.meta)
        return number

    def of_values(self, graph: Graph | ProgramGraph, place: str) -> TensorsOfValues:
        """Return the number of the tensor of each value of a graph, by the value's name; `place` is for errors,
        see `placed`.
        """
        try:
            numbers = [*map(self.__getitem__, map(bytes, graph.tensor_values.values()))]
        except msgspec.DecodeError as error:
            raise placed(error, f"{place}.tensor_values[...]") from error
        return TensorsOfValues(zip(graph.tensor_values, numbers, strict=True))
