"""The values of exported programs' graphs, with the properties of their tensors."""

from __future__ import annotations

from typing import Final

import msgspec

from etq.ingest.etrecord.export_json import Graph, ProgramGraph, TensorMeta

# The row of the node of a graph's input; the number of values that are not tensors.
NO_NODE: Final = -1
NO_TENSOR: Final = 0
_decoder: Final = msgspec.json.Decoder(TensorMeta)


def placed(error: msgspec.DecodeError, place: str) -> msgspec.DecodeError:
    """An error of a part of a member's JSON, as an error of the whole: the part is at `place`, as msgspec writes it."""
    what, _, within = str(error).partition(" - at `$")
    return type(error)(f"{what} - at `{place}{within or '`'}")


class TensorsOfValues(dict[str, int]):
    """The numbers of values' tensors by the values' names; for all others that of values that are not tensors."""

    def __missing__(self, name: str) -> int:
        return NO_TENSOR


class Tensors(dict[bytes, int]):
    """Numbers of descriptions of tensors, by the JSON they are written in; each is decoded when it first comes."""

    def __init__(self) -> None:
        super().__init__()
        # The first is for values that are not tensors.
        self.metas: list[TensorMeta | None] = [None]

    def __missing__(self, written: bytes) -> int:
        meta = _decoder.decode(written)
        self[written] = number = len(self.metas)
        self.metas.append(meta if meta.meta is None else meta.meta)
        return number

    def of_values(self, graph: Graph | ProgramGraph, place: str) -> TensorsOfValues:
        """The number of each value of a graph that is a tensor, by its name; `place` is for errors, see `placed`."""
        try:
            numbers = [*map(self.__getitem__, map(bytes, graph.tensor_values.values()))]
        except msgspec.DecodeError as error:
            raise placed(error, f"{place}.tensor_values[...]") from error
        return TensorsOfValues(zip(graph.tensor_values, numbers, strict=True))
