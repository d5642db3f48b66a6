"""Assembles a report's sections into one HTML file that needs no other files.

A content security policy in the page allows only one script and one style, identified by their hashes: no network, no
inline handlers, no eval.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from etq.database.publishing import new_file
from etq.errors import printable
from etq.report.columns import packed
from etq.report.kit import Section
from etq.verdicts import words
from etq.version import VERSION

# The order matters: a file comes after the files that it uses. Each file becomes a block of one strict script.
SCRIPTS: Final = (
    "core.js", "numbers.js", "theme.js", "judged.js", "table.js", "canvas.js", "spans.js", "plots.js", "cards.js",
    "headline.js", "flame.js", "breakdown.js", "graph_places.js", "graph_view.js", "graph.js", "graph_pair.js",
    "timeline.js", "runs.js", "events.js", "memory.js", "roofline.js", "advice.js", "dots.js", "difference.js",
    "parts.js", "trends.js", "job.js", "lanes.js", "fleet.js", "series.js", "home.js", "main.js",
)  # fmt: skip
_GENERATOR: Final = re.compile('<meta name="generator" content="etq: ([^"]*)">')
# The last script of a report in a file: it draws the report from the page's data. Pages of `etq serve` call
# `etq.drawReport` instead.
START: Final = "start.js"
VENDORED_SCRIPTS: Final = ("uPlot.iife.min.js",)
VENDORED_STYLES: Final = ("uPlot.min.css",)
STYLES: Final = ("page.css", "many.css", "graph.css")


@dataclass(frozen=True)
class Report:
    """The content of a page: the kind of report (capture, difference, trends, job, fleet, home), title, and sections in
    order.
    """

    kind: str
    title: str
    sections: Sequence[Section]

    def as_data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "title": self.title,
            "made_by": f"etq {VERSION}",
            "sections": [section.as_data() for section in self.sections],
        }

    @property
    def subject(self) -> str:
        """The kind and title, which a page names."""
        return html.escape(printable(f"{self.kind} {self.title}"))

    def page(self) -> str:
        """Return the page as text."""
        script = script_of((*SCRIPTS, START))
        style = style_of(STYLES)
        policy = (
            f"default-src 'none'; script-src '{_hash_of(script)}'; style-src '{_hash_of(style)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        parts = {
            "policy": policy,
            "subject": self.subject,
            "title": html.escape(printable(self.title)),
            "style": style,
            "data": packed(self.as_data()),
            "script": script,
        }
        page = _read("assets", "page.html")
        # The template is split before data is inserted, so that placeholders aren't searched for within data.
        pieces = page.split("{{")
        filled = [pieces[0]]
        for piece in pieces[1:]:
            name, rest = piece.split("}}", 1)
            filled += [parts[name.strip()], rest]
        return "".join(filled)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which is replaced."""
        with new_file(os.fspath(path)) as written:
            Path(written).write_text(self.page(), encoding="utf-8", newline="\n")


def subject_of(page: str) -> str | None:
    """Return the kind and title of the report in an HTML page of etq; None for other texts."""
    found = _GENERATOR.search(page)
    return None if found is None else found[1]


def script_of(names: Sequence[str] = SCRIPTS, more: Sequence[tuple[str, str]] = ()) -> str:
    """Return one strict script: vendored files, then the named files, then `more` files given as name and text."""
    sources = [*((name, _read("assets", name)) for name in names), *more]
    blocks = [f"// {name}\n{{\n{text}}}" for name, text in sources]
    verdicts = {"keys": words.KEYS, "shown": words.SHOWN, "counting": words.COUNTING, "order": words.ORDER}
    constants = f"const VERDICT_WORDS = {json.dumps(verdicts)};"
    return "\n".join(['"use strict";', constants, *(_read("vendor", name) for name in VENDORED_SCRIPTS), *blocks])


def style_of(names: Sequence[str] = STYLES) -> str:
    """Return one style: vendored files, then the named files."""
    return "\n".join([*(_read("vendor", name) for name in VENDORED_STYLES), *(_read("assets", name) for name in names)])


def _read(folder: str, name: str) -> str:
    return (files("etq.report") / folder / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
