"""Which cases of a sweep, and how many examples of a property, run every time; the others are long tests.

Of the long cases of a large sweep, `-m long` runs every fifth; all of them with ETQ_ALL_CAPTURES=1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

# Captures that differ most: of one method and of several, a counter that wraps, delegates with names and with numbers,
# branches, values.
FEW: Final = ("mlp", "mlp_wrap32", "mlp_debug5", "convnet_xnn", "demo_int", "cond_mixed", "multimethod_interleave")

# A sweep that has more long cases than that is sampled.
LARGE: Final = 8
IS_WHOLE: Final = bool(os.environ.get("ETQ_ALL_CAPTURES"))

_is_long_run = False


def set_long_run(is_long: bool) -> None:
    """Choose how many examples `examples` means; to be called before test modules are imported."""
    global _is_long_run  # noqa: PLW0603 - decorators are run at import, which takes no arguments
    _is_long_run = is_long


def thinned(cases: Iterable[Any], kept: Container[Any] = FEW) -> list[Any]:
    """The cases; those are long whose value, or whose first value in a tuple, is not among `kept`."""
    tuples = [case if isinstance(case, tuple) else (case,) for case in cases]
    others = [case for case in tuples if case[0] not in kept]
    left_out = [] if IS_WHOLE or len(others) <= LARGE else [case for at, case in enumerate(others) if at % 5]
    return [
        pytest.param(*case, marks=() if case[0] in kept else pytest.mark.long)
        for case in tuples
        if not any(case is each for each in left_out)
    ]


Test = Callable[..., None]


def examples(count: int, few: int | None = None, **options: Any) -> Callable[[Test], Test]:
    """Settings of a property: `count` examples as a long test, and `few` every time: by default a fifth, at least 5."""

    def decorate(test: Test) -> Test:
        number = count if _is_long_run else few or min(count, max(5, count // 5))
        made: Test = settings(max_examples=number, deadline=None, **options)(test)
        if _is_long_run:
            pytest.mark.long(made)
        return made

    return decorate
