"""The types of options that are numbers: click's, whose errors and help call them ranges, named as what is written."""

from __future__ import annotations

import click


class IntRange(click.IntRange):
    name = "integer"


class FloatRange(click.FloatRange):
    name = "number"
