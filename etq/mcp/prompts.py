"""Prompts: questions that a user picks from a menu, with the calls that answer them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etq.errors import EtqError


@dataclass(frozen=True)
class Prompt:
    """A question with its arguments, which the text quotes as JSON."""

    name: str
    title: str
    arguments: Mapping[str, str]
    template: str

    def text(self, arguments: Mapping[str, str]) -> str:
        """Return the text for these arguments. Raises `EtqError` if they are not those of the prompt."""
        if set(arguments) != set(self.arguments):
            raise EtqError(f"{self.name}: the arguments are {', '.join(self.arguments)}")
        return self.template.format(**{name: json.dumps(value) for name, value in arguments.items()})


PROMPTS: Final = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "slow_capture",
            "Why is this capture slow",
            {"capture": "a name, a hash prefix, @latest, or labels that match one capture"},
            "Why is the capture {capture} slow? Call summary for it. Name the execute time with its unit and range, "
            "the ops with the largest share, and each piece of advice with its evidence, the time at stake and the "
            "remedy. If findings or runs left out make numbers doubtful, state that first. For more detail, call "
            "describe and ask: execute_breakdown, module_totals, source_totals and slow_runs take the capture's name.",
        ),
        Prompt(
            "slower_build",
            "What made build B slower",
            {"base": "the earlier build, such as build=41", "new": "the later build, such as build=42"},
            "What made {new} slower than {base}? Call compare with base {base} and new {new}. Quote the verdict on the "
            "total with its interval, then the ops and modules that are slower, in order of their difference, and the "
            "findings that limit how far the verdicts can be trusted. If nothing is slower, state that. To see whether "
            "the change is lasting, call regressions for the captures of the same model; it names the first build "
            "that has the change.",
        ),
    )
}
