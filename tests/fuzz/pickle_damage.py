"""Damage to pickles of plain data: values of other types and sizes where readers expect their own, and opcodes."""

from __future__ import annotations

import pickle
import pickletools
from copy import deepcopy
from random import Random
from typing import Any, Final

from tests.fuzz.damage import EDGES, NAMES

_OPCODES: Final = tuple(ord(each.code) for each in pickletools.opcodes)
_OTHERS: Final[tuple[Any, ...]] = (
    None, True, -1, 0.5, float("nan"), float("inf"), "", "x", b"\xff", [], {}, (), [[]], {"a": {}}, {1: 2}, 2**70, -(2**70),
    *EDGES, *(each.decode("utf-8", "surrogateescape") for each in NAMES[:12]),
)  # fmt: skip


def damage_values(random: Random, content: bytes, times: int) -> tuple[bytes, list[str]]:
    """Replace, remove or repeat values of a pickle, which stays one."""
    value = pickle.loads(content)
    edits = [_damage(random, value) for _ in range(times)]
    return pickle.dumps(value, random.choice((2, 3, 4, 5))), edits


def damage_opcode(random: Random, content: bytes) -> tuple[bytes, str]:
    """Replace an opcode of a pickle by another one."""
    places = [place for _, _, place in pickletools.genops(content) if place is not None]
    at = random.choice(places)
    data = bytearray(content)
    data[at] = random.choice(_OPCODES)
    return bytes(data), f"opcode {chr(data[at])!r} at {at}"


def _damage(random: Random, value: Any) -> str:
    """Change one value somewhere within lists and dicts, often deep within."""
    path: list[Any] = []
    while True:
        keys = [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []
        if not keys:
            return f"nothing at {path}"
        key = random.choice(keys)
        path.append(key)
        within = value[key]
        if not (isinstance(within, dict | list) and within) or random.random() < 0.1:
            break
        value = within
    way = random.randrange(8)
    if way == 0:
        del value[key]
    elif way == 1 and isinstance(value, list):
        value.extend([within] * random.choice((1, 3, 1000)))
    elif way == 2 and isinstance(within, int):
        value[key] = within + random.choice((-1, 1, 512, -(2**40), 2**40))
    else:
        value[key] = deepcopy(random.choice(_OTHERS))
    return f"{path}, way {way}"
