"""The HTML, style and scripts of pages. A page is a shell; its script fetches the data and draws them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from etq.report.page import STYLES, script_of, style_of

# The pages by path, with their titles.
PAGES: Final = {
    "home": "Home",
    "captures": "Captures",
    "trends": "Trends",
    "compare": "Compare",
    "fleet": "Fleet",
    "jobs": "Jobs",
    "sql": "SQL",
}
# The order matters: a file comes after the files that it uses.
SCRIPTS: Final = (
    "fetching.js", "selectors.js", "facets.js", "rows.js", "home.js", "captures.js", "capture.js", "compare.js",
    "trends.js", "fleet.js", "jobs.js", "results.js", "sql.js", "begin.js",
)  # fmt: skip

_DOCUMENT: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/{style}">
</head>
<body class="served" data-page="{page}">
{body}</body>
</html>
"""
_MISSING: Final = """<header class="top">
<nav class="pages" aria-label="Pages">{links}</nav>
</header>
<main id="main">
<h1>No such page</h1>
<p>This server has no page at this address. <a href="/">Home</a> links to all captures.</p>
</main>
"""
_BODY: Final = """<a class="skip" href="#main">Skip to content</a>
<noscript>This page draws itself with JavaScript, which is turned off.</noscript>
<header class="top">
<nav class="pages" aria-label="Pages">{links}</nav>
<span id="who" class="muted"></span>
<span id="source" class="source muted"></span>
</header>
<main id="main" tabindex="-1">
<div id="head"></div>
<div id="tools"></div>
<div id="state" role="status" aria-live="polite"></div>
<nav id="contents" aria-label="Sections"></nav>
<div id="sections"></div>
</main>
<footer id="foot"></footer>
{scripts}
"""


@dataclass(frozen=True)
class Asset:
    """A file that pages use, under a name that changes with its content."""

    name: str
    type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files that pages use, by the name before the hash: pages.js, editor.js, pages.css."""
    more = [(name, _read("assets", name)) for name in SCRIPTS]
    texts = {
        "pages.js": script_of(more=more),
        "editor.js": _read("vendor", "codemirror.min.js"),
        "pages.css": f"{style_of(STYLES)}\n{_read('assets', 'pages.css')}",
    }
    types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
    return {
        name: Asset(f"{digest(text)}.{name}", types[name.rsplit(".", 1)[1]], text.encode())
        for name, text in texts.items()
    }


def shell(page: str) -> str:
    """Return the HTML of a page. It reveals nothing about the warehouse, because anyone may read it."""
    links = "".join(_link(name, title, name == page) for name, title in PAGES.items())
    used = ["editor.js", "pages.js"] if page == "sql" else ["pages.js"]
    tags = "\n".join(f'<script defer src="/assets/{assets()[each].name}"></script>' for each in used)
    return document(PAGES.get(page, "Capture"), page, _BODY.format(links=links, scripts=tags))


def missing() -> str:
    """Return the HTML of the page for addresses that have none."""
    links = "".join(_link(name, title, False) for name, title in PAGES.items())
    return document("No such page", "missing", _MISSING.format(links=links))


def document(title: str, page: str, body: str) -> str:
    """Return the HTML of a page, whose name is `page`, by the HTML of its body."""
    return _DOCUMENT.format(title=title, style=assets()["pages.css"].name, page=page, body=body)


def _link(name: str, title: str, is_current: bool) -> str:
    address = "/" if name == "home" else f"/{name}"
    current = ' aria-current="page"' if is_current else ""
    return f'<a href="{address}"{current}>{title}</a>'


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(folder: str, name: str) -> str:
    return (files("etq.serve") / folder / name).read_text(encoding="utf-8")
