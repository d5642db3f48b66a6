"""Parsing the texts that torch.export writes about a node: its op, its line of source, its modules."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MODULES_OF_TARGETS: Final = ("executorch.exir.dialects.edge.ops.", "torch.ops.")
_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d+)')
_INSTALLED: Final = re.compile(r"(?:^|[/\\])(?:site-packages|dist-packages)[/\\]")
_CALL_NUMBER: Final = re.compile(r"@(\d+)$")

# One level of a node's module stack: key, path, class, call number.
ModuleLevel = tuple[str, str, str, int]


@lru_cache(maxsize=65536)
def op_type(target: str) -> str:
    """Return a target without its Python module: `aten.addmm.default`."""
    for module in _MODULES_OF_TARGETS:
        if target.startswith(module):
            return target.removeprefix(module)
    return target


@lru_cache(maxsize=65536)
def op_name(target: str) -> str:
    """Return the name of the op alone, as in names of kernels: `addmm` for `aten.addmm.default`, `cond` for
    `torch.ops.higher_order.cond`.
    """
    parts = op_type(target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@lru_cache(maxsize=65536)
def source_place(stack_trace: str) -> tuple[str | None, int | None]:
    """Return file and line of the innermost frame outside installed packages. If all frames are inside installed
    packages, return those of the innermost frame.
    """
    frames = _FRAME.findall(stack_trace)
    own = [frame for frame in frames if not _INSTALLED.search(frame[0])]
    if not frames:
        return None, None
    file, line = (own or frames)[-1]
    return file, int(line) if len(line) < 10 else None


@lru_cache(maxsize=65536)
def module_levels(stack: str) -> tuple[ModuleLevel, ...]:
    """Return the levels of an nn_module_stack, outermost first.

    The text is `key,path,class;key,path,class`; a class may contain commas and semicolons within brackets.
    """
    levels = []
    for level in _split(stack, ";"):
        key, path, *rest = [*_split(level, ","), "", ""]
        number = _CALL_NUMBER.search(key)
        levels.append((key, path, rest[0], int(number[1]) if number and len(number[1]) < 9 else 0))
    return tuple(levels)


def _split(text: str, separator: str) -> list[str]:
    """Split the text at separators that are outside all brackets."""
    if "[" not in text and "(" not in text:
        return text.split(separator)
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == separator and depth <= 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]
