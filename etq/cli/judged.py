"""What a gate judged: as rows, as sentences, and for CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from etq.analysis.comparison import UNJUDGED, Cause, Comparison, sentence
from etq.cli.compare import Worse, headline, regressions
from etq.render.ci import ERROR, NOTICE, WARNING, Case, junit, workflow_command
from etq.render.writers import Output
from etq.verdicts import words

# Formats of CI systems.
FOR_CI: Final = ("github", "junit")
COLUMNS: Final = ("what", "name", "verdict", "change_percent", "base", "new", "unit", "note")
_NAME: Final = "etq gate"
# The most instances of an op that an annotation on GitHub shows.
_MOST: Final = 20


class Judged(NamedTuple):
    """A comparison, and the parts of it that a gate judges."""

    comparison: Comparison
    of_ops: bool
    metrics: tuple[str, ...]
    startup: bool
    of_once: bool

    @property
    def is_of_times(self) -> bool:
        return not self.startup and not self.metrics

    def lines(self, *, is_total_first: bool = False) -> list[tuple[str, str | None]]:
        """Return the result as sentences, and what was judged, each with its verdict if it is about a total."""
        of = self.comparison
        if self.is_of_times:
            lines = of.lines(of_ops=self.of_ops, of_once=self.of_once, is_total_first=is_total_first)
            return [*lines, (of.judged_line(self.of_ops, self.of_once), None)]
        return [(line, None) for line in (of.startup_lines() if self.startup else of.metric_lines(self.metrics))]

    def rows(self) -> list[Sequence[Any]]:
        """Return what is judged, as rows of `COLUMNS`."""
        of, numbers = self.comparison, "change_percent, base, new, unit, note"
        if self.startup:
            of.startup_lines()  # an error if there is none
            return of.rows("startup", f"what, what || coalesce(' of ' || method, ''), verdict, {numbers}")[1]
        if self.metrics:
            found = of.rows("metrics", f"'metric', name, verdict, {numbers}")[1]
            return [row for row in found if row[1] in self.metrics]
        rows = [row for row in of.rows("captures", f"what, method, verdict, {numbers}")[1] if row[0] == "total"]
        tails = of.slow_tails()
        if self.of_ops:
            tails += [(op, words.SLOWER, change) for op, change in of.slow_op_tails()]
        rows += [("slow runs", name, verdict, change, *(None,) * 4) for name, verdict, change in tails]
        rows += of.once() if self.of_once else []
        return [*rows, *of.rows("ops", f"'op', {of.op_key()}, verdict, {numbers}")[1]] if self.of_ops else rows

    def sentences(self) -> list[str]:
        """Return a sentence for each of `rows`: of a total, with its interval."""
        totals = iter(self.comparison.total_lines() if self.is_of_times else ())
        return [next(totals)[0] if row[0] == "total" else sentence(_named(row), *row[2:]) for row in self.rows()]


def text_of(judged: Judged, found: Worse, output: Output) -> str:
    """Return what a gate prints: a table's sentences, Markdown for a comment, or a format of `FOR_CI`."""
    if (form := output.form) == "github":
        return "".join(_workflow_commands(judged))
    if form == "junit":
        cases = zip(judged.rows(), judged.sentences(), strict=True)
        printed = "\n".join(line for line, _ in judged.lines(is_total_first=True))
        return junit(_NAME, [_case(row, text) for row, text in cases], printed)
    is_markdown = form == "markdown"
    text = headline(judged.lines(is_total_first=is_markdown), is_markdown, output.style)
    return text + regressions(judged.comparison, found.worse) if is_markdown and found.worse else text


def _named(row: Sequence[Any]) -> str:
    """Return the name of a row in a sentence."""
    return f"slow runs of {row[1]}" if row[0] == "slow runs" else str(row[1])


def _level(what: str, verdict: str) -> str:
    """Return the level of an annotation: an error for what fails the gate."""
    if verdict in words.ARE_WORSE or (verdict == words.UNSTABLE and what != "op"):
        return ERROR
    return WARNING if verdict in words.UNCLEAR else NOTICE


def _case(row: Sequence[Any], text: str) -> Case:
    what, name, verdict, *_ = row
    failure = verdict if _level(what, verdict) == ERROR else None
    return Case(f"etq.{what}", str(name), text, failure, failure is None and verdict in UNJUDGED)


def _workflow_commands(judged: Judged) -> Iterator[str]:
    """Yield annotations: first for the total, then the errors, of which GitHub shows the first ten."""
    annotations = [*_annotations(judged)]
    first = annotations[:1] if judged.is_of_times else []
    others = sorted(annotations[len(first) :], key=lambda each: (ERROR, WARNING, NOTICE).index(each[0]))
    for level, lines, place in [*first, *others]:
        file, line = (None, None) if place is None else place
        yield workflow_command(level, lines, {"file": file, "line": line, "title": _NAME})
    if judged.is_of_times:
        yield f"{judged.lines()[-1][0]}\n"


_Place = tuple[str, int | None]


def _annotations(judged: Judged) -> Iterator[tuple[str, list[str], _Place | None]]:
    """Yield level, lines and place of annotations: always of totals, metrics and start-up; of other items only if they
    are worse.
    """
    is_of_ops = judged.of_ops and judged.is_of_times
    places = judged.comparison.op_sources() if is_of_ops else {}
    sources = {name: (_in_checkout(file), line) for name, (file, line) in places.items()}
    for row, text in zip(judged.rows(), judged.sentences(), strict=True):
        what, name, verdict, *_ = row
        level = _level(what, verdict)
        is_listed = what == "total" or not judged.is_of_times
        if what != "op" and (is_listed or level == ERROR):
            yield level, [text], sources.get(name) if what == "slow runs" else None
    for cause in judged.comparison.causes() if is_of_ops else ():
        if cause.verdict in (words.SLOWER, words.POSSIBLY + words.SLOWER):
            for place in dict.fromkeys(sources.get(name) for name, _ in cause.instances):
                yield _level("op", cause.verdict), _lines_at(cause, place, sources), place


def _lines_at(cause: Cause, place: _Place | None, sources: dict[str, _Place]) -> list[str]:
    """Return a sentence on an op, with its instances at a source line."""
    text = f"{words.counted_ops(len(cause.instances), cause.verdict)}: {cause.text}"
    if len(cause.instances) == 1:
        name, change = cause.instances[0]
        return [f"{name}: {cause.verdict}, {change:+.1f} %"]
    here = [f"{name} {change:+.1f} %" for name, change in cause.instances if sources.get(name) == place]
    return [text, *here[:_MOST], *([f"and {len(here) - _MOST} more"] if len(here) > _MOST else [])]


def _in_checkout(file: str) -> str:
    """Return the path of a source file in the form that GitHub needs.

    The given path is from the machine that exported the program. The result is relative to the checkout, if the
    checkout has the file at the same place or below another folder.
    """
    root = Path(os.environ.get("GITHUB_WORKSPACE") or ".")
    parts = PurePath(file).parts
    candidates = ("/".join(parts[at:]) for at in range(len(parts)) if parts[at] not in ("/", ".."))
    return next((path for path in candidates if (root / path).is_file()), file)
