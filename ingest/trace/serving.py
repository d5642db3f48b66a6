"""Steps of vLLM and SGLang, from the names of their annotations, like `_serving_name` in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

_REQUESTS: Final = re.compile(
    r"(?:execute_)?(?:\d+_)?context_(\d+)\((?:sq)?(\d+)\w*\)_generation_(\d+)\((?:sq)?(\d+)\w*\)", re.ASCII
)
_NEW: Final = re.compile(r"execute_new_(\d+)_cached_(\d+)", re.ASCII)
_MODE: Final = re.compile(r"step\[(\w+) bs=(\d+)(?: toks=(\d+))?\]", re.ASCII)
_PHASES: Final = {"EXTEND": "prefill", "DECODE": "decode", "MIXED": "mixed"}
# Numbers with more digits can't be numbers of tokens.
_MOST_DIGITS: Final = 12


class Told(NamedTuple):
    """The facts in the name of a step: columns of the view `serving_steps`; None for missing facts."""

    engine: str
    phase: str | None
    sequences: int | None
    tokens_in: int | None
    tokens_out: int | None


def told_by(name: str) -> Told | None:
    """Return the facts in the name of a server step's annotation; None for other names."""
    if (found := _REQUESTS.fullmatch(name)) is not None:
        contexts, tokens, generations, tried = map(_number, found.groups())
        if contexts is None or generations is None:
            return Told("vllm", None, None, tokens, generations if tried == generations else None)
        phase = ("mixed" if generations else "prefill") if contexts else "decode" if generations else None
        # If a sequence generates several tokens, they are speculative, and it is unknown how many of them are kept.
        return Told("vllm", phase, contexts + generations, tokens, generations if tried == generations else None)
    if (found := _NEW.fullmatch(name)) is not None:
        new, cached = map(_number, found.groups())
        phase = "prefill" if new and cached == 0 else None
        return Told("vllm", phase, None if new is None or cached is None else new + cached, None, None)
    if (found := _MODE.fullmatch(name)) is not None:
        mode, size = found[1], _number(found[2])
        tokens = {"EXTEND": None if found[3] is None else _number(found[3]), "DECODE": 0}.get(mode)
        return Told("sglang", _PHASES.get(mode), size, tokens, {"EXTEND": 0, "DECODE": size}.get(mode))
    return None


def is_sglang(name: str) -> bool:
    """Whether only SGLang writes events with this name. It also writes names of steps that vLLM writes, too."""
    return "sglang/" in name or _MODE.fullmatch(name) is not None


def serving_labels(steps: Iterable[Told]) -> dict[str, str]:
    """Return the labels of a trace with these steps: the facts that all of them share."""
    steps = [*steps]
    values: tuple[tuple[str, Callable[[Told], str | int | None]], ...] = (
        ("engine", lambda each: each.engine),
        ("phase", lambda each: each.phase),
        ("batch", lambda each: each.sequences),
        ("tokens", lambda each: _added(each.tokens_in, each.tokens_out)),
    )
    found = {key: {value(step) for step in steps} for key, value in values}
    return {
        key: str(only) for key, each in found.items() if len(each) == 1 and (only := min(each, key=str)) is not None
    }


def _added(some: int | None, others: int | None) -> int | None:
    return None if some is None or others is None else some + others


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MOST_DIGITS else None
