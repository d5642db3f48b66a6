"""Classes of a trace's events, by their categories and names: the rules are data, in `classes.toml`."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

from etq.errors import FormatError

# Names a file of further rules, which precede the built-in ones.
VARIABLE: Final = "ETQ_CLASSES"
# How many characters of a name are read: of a kernel, and of a call. Demangled names of templates have thousands of
# characters, names of calls some tens.
_MOST_CHARACTERS: Final = 4_000
_MOST_OF_CALLS: Final = 200
# Kernels of these families compute products, for which they may use matrix units; kernels of the other families don't.
PRODUCTS: Final = frozenset(("GEMM", "convolution", "attention", "MoE"))
# The most bytes of a user's file.
_MOST_BYTES: Final = 1 << 20
_KERNEL: Final = "kernel"
_CALL: Final = "call"
_UNKNOWN: Final = "other"
_FUNCTION: Final = "python_function"
_LIBRARY: Final = "library"
# A call that launches, copies without waiting, or asks for something returns within microseconds. A call that takes so
# many nanoseconds waits in the runtime or driver for what a trace doesn't show.
LONG_CALL: Final = 1_000_000
# Purposes of events in which torch.compile compiles.
COMPILING: Final = ("dynamo", "aot_autograd", "inductor", "autotuning", "compilation")
# Purposes of calls that belong to launching.
_LAUNCHING: Final = frozenset(("launch", "copy", "stream_wait", "event_record", "query"))

Patterns = re.Pattern[str]


class Class(NamedTuple):
    """The class of an event: the columns of the table `signatures` with these names. None means unknown, or not
    applicable to such events.
    """

    activity: str
    on_device: bool = False
    purpose: str | None = None
    waits: bool | None = None
    kernel_family: str | None = None
    uses_matrix_units: bool | None = None

    @property
    def is_work(self) -> bool:
        """Whether it is work of a device: a kernel, copy or fill."""
        return self.activity in (_KERNEL, "copy", "fill")

    @property
    def call_cause(self) -> str | None:
        """The column `call_cause` of `signatures`."""
        if self.activity != _CALL:
            return None
        if self.purpose == "copy" and self.waits:
            return "synchronization"
        return None if self.purpose in _LAUNCHING else self.purpose or _CALL


class Kernel(NamedTuple):
    """The class of a kernel by its name; None if the name doesn't determine it."""

    family: str | None
    uses_matrix_units: bool | None


class Track(NamedTuple):
    """A rule that assigns a category to events. It names the process and the thread of the events, and arguments; an
    event must have one of these arguments.

    The category is None for events that are left out because they repeat the times of other events.
    """

    category: str | None
    process: Patterns | None
    thread: Patterns | None
    args: Mapping[str, Patterns]

    @property
    def has_names(self) -> bool:
        """Whether it names a process or a thread."""
        return self.process is not None or self.thread is not None

    def has_one(self, written: Mapping[str, Any]) -> bool:
        """Return whether an event with these arguments has one of the rule's arguments; always true if the rule has
        none.
        """
        values = ((pattern, written.get(name)) for name, pattern in self.args.items())
        return not self.args or any(value is not None and pattern.search(str(value)) for pattern, value in values)


class _Named(NamedTuple):
    """A rule that gives an activity or a purpose to events with certain names. It applies to events of the activities
    `of`, and, with `only_without`, only in traces without that activity. `on_device`: whether the events become events
    of a device.
    """

    what: str
    of: frozenset[str]
    pattern: Patterns
    only_without: str | None = None
    on_device: bool | None = None

    def has(self, activity: str, name: str) -> bool:
        return activity in self.of and self.pattern.search(name) is not None


class Rules(NamedTuple):
    """The rules of `classes.toml`, preceded by those of a user's file if there is one."""

    categories: Mapping[str, Class]
    endings: Sequence[tuple[str, Class]]
    tracks: Sequence[Track]
    activities: Sequence[_Named]
    purposes: Sequence[_Named]
    call_name: Patterns
    launches: Patterns
    calls: Mapping[str, tuple[str, bool]]
    families: Sequence[tuple[str, Patterns]]
    matrix_units: Sequence[tuple[bool, Patterns]]

    def of_category(self, category: str) -> Class | None:
        """Return the class of a category's events; None if it is unknown."""
        lower = category.lower()
        if (found := self.categories.get(lower)) is not None:
            return found
        return next((each for ending, each in self.endings if lower.endswith(ending)), None)

    def is_library(self, function: str) -> bool:
        """Return whether a Python function, named as by the profiler, is not the user's own code."""
        return any(each.what == _LIBRARY and each.has(_FUNCTION, function) for each in self.purposes)

    def of_call(self, name: str) -> tuple[str | None, bool | None]:
        """Return the purpose of a runtime or driver call, and whether it waits; None if unknown."""
        found = self.call_name.match(name) if len(name) <= _MOST_OF_CALLS else None
        if (known := self.calls.get(name if found is None else found[1])) is not None:
            return known
        return ("launch" if self.launches.search(name[:_MOST_OF_CALLS]) else None), None

    def of_kernel(self, name: str) -> Kernel:
        """Return the class of a kernel by its name."""
        name = name[:_MOST_CHARACTERS]
        family = next((family for family, pattern in self.families if pattern.search(name)), None)
        if family is not None and family not in PRODUCTS:
            return Kernel(family, False)
        return Kernel(family, next((uses for uses, pattern in self.matrix_units if pattern.search(name)), None))


def classified(kinds: Sequence[tuple[str, str]], of_tracks: Mapping[str, Class] | None = None) -> list[Class]:
    """Return the class of each kind of events; a kind is a category and a name. `of_tracks` has the classes of unknown
    categories.

    Raises `FormatError` for a user's file of rules that can't be read.
    """
    known = rules()
    by_category = {
        category: known.of_category(category) or (of_tracks or {}).get(category) or Class(_UNKNOWN)
        for category in dict.fromkeys(category for category, _ in kinds)
    }
    found = [_active(known, by_category[category], name) for category, name in kinds]
    there = {each.activity for each in found}
    purposes = {
        activity: [each for each in known.purposes if activity in each.of and each.only_without not in there]
        for activity in there
    }
    return [_detailed(known, purposes[each.activity], each, name) for each, (_, name) in zip(found, kinds, strict=True)]


def _active(known: Rules, found: Class, name: str) -> Class:
    rule = next((each for each in known.activities if each.has(found.activity, name)), None)
    if rule is None:
        return found
    on_device = found.on_device if rule.on_device is None else rule.on_device
    return found._replace(activity=rule.what, on_device=on_device)


def _detailed(known: Rules, purposes: Sequence[_Named], found: Class, name: str) -> Class:
    """Add the properties of a class that follow from the event's name."""
    if found.activity == _KERNEL:
        kernel = known.of_kernel(name)
        return found._replace(kernel_family=kernel.family, uses_matrix_units=kernel.uses_matrix_units)
    if found.activity == _CALL:
        purpose, waits = known.of_call(name)
        return found._replace(purpose=purpose, waits=waits)
    what = next((purpose.what for purpose in purposes if purpose.pattern.search(name)), found.purpose)
    return found._replace(purpose=what)


def rules() -> Rules:
    """Return the rules. Raises `FormatError` if `ETQ_CLASSES` names a file that has no rules."""
    return _rules(os.environ.get(VARIABLE) or None)


@cache
def _rules(path: str | None) -> Rules:
    known = tomllib.loads(resources.files(__package__).joinpath("classes.toml").read_text(encoding="utf-8"))
    if path is None:
        return _parsed(known)
    try:
        own = tomllib.loads(_content(path))
        if unknown := own.keys() - known.keys():
            raise ValueError(f"{min(unknown)} is not known")
        _check_words(own, known)
        return _parsed({key: _joined(key, own.get(key), known[key]) for key in known})
    except OSError as error:
        raise FormatError(path, f"can't be read: {(error.strerror or str(error)).lower()}") from None
    except KeyError as error:
        raise FormatError(path, f"not a file of classes: an entry has no {error}") from None
    except (ValueError, OverflowError, RecursionError, re.error, TypeError, AttributeError) as error:
        raise FormatError(path, f"not a file of classes: {error}") from None


def _content(path: str) -> str:
    """Return the text of a file. Raises `ValueError` for anything but a file, and for a file that is too large."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("not a file")
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES >> 20} MB")
    return content.decode()


def _check_words(own: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an activity, or a call's purpose, that no view uses."""
    for word, tables in (("activity", ("category", "name")), ("purpose", ("call",))):
        words = sorted({entry[word] for table in tables for entry in known[table]})
        for entry in (entry for table in tables for entry in own.get(table, ())):
            if entry[word] not in words:
                raise ValueError(f"{word} {entry[word]!r} is not known; known are {', '.join(words)}")


def _joined(key: str, own: Any, known: Any) -> Any:
    """Return the entries of a user's file, followed by the built-in ones."""
    if own is None:
        return known
    if isinstance(known, dict):
        return {name: [*own.get(name, ()), *value] for name, value in known.items()}
    if not isinstance(own, list):
        raise ValueError(f"{key} isn't a list of tables; write [[{key}]]")
    return [*own, *known]


def _parsed(written: Mapping[str, Any]) -> Rules:
    categories: dict[str, Class] = {}
    endings: list[tuple[str, Class]] = []
    for entry in written["category"]:
        found = Class(_text(entry["activity"]), bool(entry.get("on_device", False)), _text_or_none(entry, "purpose"))
        for name in entry.get("names", ()):
            categories.setdefault(name.lower(), found)
        endings += [(ending.lower(), found) for ending in entry.get("endings", ())]
    calls: dict[str, tuple[str, bool]] = {}
    for entry in written["call"]:
        for name in entry["names"]:
            calls.setdefault(name, (_text(entry["purpose"]), bool(entry["waits"])))
    names = written["call_names"]
    known = Rules(
        categories,
        endings,
        [_track(entry) for entry in written["track"]],
        [_named(entry["activity"], entry) for entry in written["name"]],
        [_named(entry["name"], entry) for entry in written["purpose"]],
        re.compile(f"(?:{'|'.join(names['prefixes'])})([A-Z].*?)(?:{'|'.join(names['suffixes'])})*$"),
        _any_of(names["launches"]),
        calls,
        [(_text(entry["name"]), _any_of(entry["patterns"])) for entry in written["family"]],
        [(bool(entry["uses"]), _any_of(entry["patterns"])) for entry in written["matrix_units"]],
    )
    for track in known.tracks:
        if track.category is not None and known.of_category(track.category) is None:
            raise ValueError(f"category {track.category!r} of a track is not known")
    return known


def _named(what: Any, entry: Mapping[str, Any]) -> _Named:
    packages = entry.get("packages")
    patterns = [*(entry.get("patterns", ()) if packages else entry["patterns"])]
    if packages:
        patterns.append(rf"^(?:{'|'.join(map(re.escape, packages))})(?:\.py\(|[/\\])")
    on_device = None if "on_device" not in entry else bool(entry["on_device"])
    return _Named(
        _text(what), frozenset(entry["of"]), _any_of(patterns), _text_or_none(entry, "only_without"), on_device
    )


def _track(entry: Mapping[str, Any]) -> Track:
    process, thread = (_any_of(entry[key]) if key in entry else None for key in ("process", "thread"))
    args = {name: _any_of(patterns) for name, patterns in entry.get("args", {}).items()}
    return Track(_text_or_none(entry, "category"), process, thread, args)


def _text_or_none(entry: Mapping[str, Any], key: str) -> str | None:
    return _text(entry[key]) if key in entry else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _any_of(patterns: Sequence[str]) -> Patterns:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
