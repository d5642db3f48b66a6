"""The types of options that are numbers: click's, whose errors and help call them ranges, named as what is written."""

from __future__ import annotations

from math import isnan
from typing import Any, Final

import click

# Views have integers of 64 bits.
_MOST: Final = 2**63 - 1


class IntRange(click.IntRange):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return number if number <= _MOST else self.fail(f"{number} is more than {_MOST}.", param, ctx)


class FloatRange(click.FloatRange):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        # No range excludes it, as it is neither less nor more than any bound.
        return self.fail(f"{value!r} is not a number.", param, ctx) if isnan(number) else number
