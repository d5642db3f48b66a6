"""Names of kernels for people: template arguments and namespaces of C++ are folded, except for parts that distinguish
names.

`void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, ...>(int, ...)` is shown as
`vectorized_elementwise_kernel<…>`; next to a kernel with MulFunctor, both show their functors. Different names never
become the same. Other names, such as those of ops, files and annotations, stay as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

FOLDED: Final = "…"
# Longer names, and names with more levels of brackets, are shown unchanged.
_LONGEST: Final = 20_000
_DEEPEST: Final = 60
_OPENING: Final = {"<": ">", "(": ")", "{": "}", "[": "]"}
_CLOSING: Final = {closing: opening for opening, closing in _OPENING.items()}


class _Name(NamedTuple):
    """A name without namespaces and parameters, and its template arguments; None if it has no arguments."""

    text: str
    arguments: tuple[_Name, ...] | None = None


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the shown form of each name; different names are shown differently."""
    distinct = list(dict.fromkeys(names))
    parsed = {name: found for name in distinct if (found := _parsed(name)) is not None}
    texts = dict(zip(parsed, _distinguished(list(parsed.values())), strict=True))
    shown = {name: texts.get(name, name) for name in distinct}
    # Names that only differ in folded parts are shown whole. A whole name may equal the shown form of another name.
    while len(counts := Counter(shown.values())) < len(shown):
        for name, text in shown.items():
            if counts[text] > 1:
                shown[name] = name
    return shown


def cut(texts: Iterable[str], width: int, mark: str) -> dict[str, str]:
    """Return each text, cut in the middle to at most a width. Texts that would become the same show the part in which
    they differ.
    """
    distinct = list(dict.fromkeys(texts))
    end = (width - 1) // 2
    middle = {text: f"{text[: width - 1 - end]}{mark}{text[len(text) - end :]}" for text in distinct}
    shown = {text: text if len(text) <= width else middle[text] for text in distinct}
    for group in _same(shown):
        # The ends of the texts differ, as in names of the same part of several layers.
        ends = {text: mark + text[len(text) - width + 1 :] for text in group}
        if len({*ends.values()}) == len(ends):
            shown |= ends
            continue
        # Show the text from the first letter that differs.
        at, first = _common(group), width // 3
        for text in group:
            start, room = max(at - 1, first + 1), width - first - 1
            rest = text[start:] if len(text) - start <= room else text[start : start + room - 1] + mark
            shown[text] = text[:first] + mark + rest
    if groups := _same(shown):
        # If the texts also differ later, show the first letters that differ, and the last letters.
        same = [text for group in groups for text in group]
        at, part = max(_common(same) - 1, 0), (width - 2) // 2
        for text in same:
            shown[text] = f"{mark}{text[at : at + part]}{mark}{text[len(text) - (width - 2 - part) :]}"
    return _numbered(shown, width, mark)


def _numbered(shown: dict[str, str], width: int, mark: str) -> dict[str, str]:
    """Return shown texts. Texts that still equal another one get a number at the end."""
    taken, number = set(shown.values()), 1
    for group in _same(shown):
        for text in group[1:]:
            while shown[text] in taken:
                number += 1
                shown[text] = text[: width - len(f"{mark}{number}")] + f"{mark}{number}"
            taken.add(shown[text])
    return shown


def _common(texts: Sequence[str]) -> int:
    """Return the length of the common prefix of all texts."""
    one, other = min(texts), max(texts)
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _same(shown: dict[str, str]) -> list[list[str]]:
    """Return groups of different texts that are shown the same."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for text, each in shown.items():
        groups[each].append(text)
    return [group for group in groups.values() if len(group) > 1]


def _distinguished(names: Sequence[_Name]) -> list[str]:
    """Return names as text. If they would be equal, they have the arguments in which they differ."""
    groups: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        groups[name.text, name.arguments is None].append(place)
    texts = [""] * len(names)
    for (text, is_plain), places in groups.items():
        lists = [names[place].arguments or () for place in places]
        is_one = is_plain or len(set(lists)) == 1
        shown = [[FOLDED]] * len(places) if is_one else _arguments(lists)
        for place, each in zip(places, shown, strict=True):
            texts[place] = text if is_plain else f"{text}<{', '.join(each)}>"
    return texts


def _arguments(lists: Sequence[tuple[_Name, ...]]) -> list[list[str]]:
    """Return the arguments of names as text; at least two of the names differ in them."""
    if len({len(each) for each in lists}) > 1:
        flat = iter(_distinguished([argument for each in lists for argument in each]))
        return [[next(flat) for _ in each] for each in lists]
    columns = []
    for column in zip(*lists, strict=True):
        columns.append([FOLDED] * len(lists) if len(set(column)) == 1 else _distinguished(column))
    return [
        [text for at, text in enumerate(row) if text != FOLDED or at == 0 or row[at - 1] != FOLDED]
        for row in zip(*columns, strict=True)
    ]


@lru_cache(maxsize=1024)  # several tables of a page have the same kernels
def _parsed(name: str) -> _Name | None:
    """Return a name of C++ with arguments or parameters; None for others."""
    if len(name) > _LONGEST or not ("::" in name or "<" in name or name.startswith("void ")):
        return None
    text = name.split(" [clone ", maxsplit=1)[0].replace("(anonymous namespace)::", "").replace(") const", ")")
    if not text.endswith((")", ">")):
        return None
    found = _name_of(text, _DEEPEST)
    return found if found is not None and found.text[:1].isidentifier() else None


def _name_of(text: str, depth: int) -> _Name | None:
    """Return a name, or an argument; None if its brackets don't match or are too deep."""
    if not depth:
        return None
    parts = _split(text, "::")
    if parts is None:
        return None
    for part in reversed(parts):
        words = _split(part, " ") or [part]
        bare = words[-1]
        while bare.endswith(")") and (at := _opening_of(bare)) > 0:
            bare = bare[:at]
        # A function object or lambda gets the name of the function that contains it.
        if bare and not bare.startswith(("{", "operator", "(")):
            return _with_arguments(text if len(parts) == 1 and words[:-1] and "<" not in text else bare, depth)
    return _Name(text)


def _with_arguments(text: str, depth: int) -> _Name | None:
    at = _opening_of(text) if text.endswith(">") else 0
    if at <= 0:
        return _Name(text)
    listed = _split(text[at + 1 : -1], ",")
    if listed is None:
        return None
    found = [_name_of(each.strip(), depth - 1) for each in listed]
    arguments = tuple(each for each in found if each is not None)
    return _Name(text[:at], arguments) if len(arguments) == len(found) else None


def _split(text: str, separator: str) -> list[str] | None:
    """Return the parts of a text between separators outside of brackets; None if brackets don't match."""
    parts, start, at = [], 0, 0
    open_: list[str] = []
    while at < len(text):
        letter = text[at]
        if letter in _OPENING:
            open_.append(letter)
        elif letter in _CLOSING:
            if not open_ or open_.pop() != _CLOSING[letter]:
                return None
        elif not open_ and text.startswith(separator, at):
            parts.append(text[start:at])
            at += len(separator)
            start = at
            continue
        at += 1
    return None if open_ else [*parts, text[start:]]


def _opening_of(text: str) -> int:
    """Return the position of the bracket that the last character closes; -1 if there is none."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in _CLOSING) - (text[at] in _OPENING)
        if not depth:
            return at
    return -1
