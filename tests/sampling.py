"""Which cases of a sweep, and how many examples of a property, run every time; the others are long tests.

Of the long cases of a sweep, `-m long` runs every thirtieth, but one at least, and of a property a sixth of the
examples; all of them with ETQ_ALL_CAPTURES=1, and those marked `whole`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

# Captures that differ most: of one method and of several, a counter that wraps, delegates with names and with numbers,
# branches, values.
FEW: Final = ("mlp", "mlp_wrap32", "mlp_debug5", "convnet_xnn", "demo_int", "cond_mixed", "multimethod_interleave")

IS_WHOLE: Final = bool(os.environ.get("ETQ_ALL_CAPTURES"))

# A long test of minutes or of large files, of whose parts there are shorter ones.
whole = pytest.mark.skipif(not IS_WHOLE, reason="takes long: runs with ETQ_ALL_CAPTURES=1")

_is_long_run = False


def set_long_run(is_long: bool) -> None:
    """Choose how many examples `examples` means; to be called before test modules are imported."""
    global _is_long_run  # noqa: PLW0603 - decorators are run at import, which takes no arguments
    _is_long_run = is_long


def thinned(cases: Iterable[Any], kept: Container[Any] = FEW) -> list[Any]:
    """The cases; those are long whose value, or whose first value in a tuple, is not among `kept`."""
    tuples = [case if isinstance(case, tuple) else (case,) for case in cases]
    others = [case for case in tuples if case[0] not in kept]
    step = 1 if IS_WHOLE else 30
    left_out = [case for at, case in enumerate(others) if at % step]
    return [
        pytest.param(*case, marks=() if case[0] in kept else pytest.mark.long)
        for case in tuples
        if not any(case is each for each in left_out)
    ]


Test = Callable[..., None]

# No property depends on how fast the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def examples(count: int, few: int | None = None, **options: Any) -> Callable[[Test], Test]:
    """Settings of a property: `count` examples in whole, and `few` every time: by default a tenth, at least 5."""

    def decorate(test: Test) -> Test:
        least = few or min(count, max(5, count // 10))
        number = least if not _is_long_run else count if IS_WHOLE else max(least, count // 6)
        made: Test = settings(max_examples=number, **options)(test)
        if _is_long_run:
            pytest.mark.long(made)
        return made

    return decorate
