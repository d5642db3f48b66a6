"""Keeps the built site free of network requests: it is read offline, and readers aren't reported to third parties."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

# Addresses of scripts that the theme loads if a page has a Mermaid diagram, or in browsers without ResizeObserver.
# Diagrams are drawn when the site is built: Mermaid itself would be 3 MB.
_THEME: Final = re.compile(r"""(["'])https://unpkg\.com/[^"']*\1""")
# What makes a browser fetch from another host: an element with such an address, an import, a script's address in code.
_REMOTE: Final = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*?\ssrc\s*=\s*["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b(?![^>]*\srel=["']?canonical)[^>]*?\shref\s*=\s*["']?(?:https?:)?//[^\s"'>]+"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//[^\s"')]+"""
    r"""|url\(\s*["']?(?:https?:)?//(?!www\.w3\.org)[^\s"')]+"""
    r"""|["'`](?:https?:)?//[^\s"'`]+\.m?js["'`]"""
    r"""|["'`]https?://(?:unpkg\.com|cdn\.[^"'`/]+|[^"'`/]*jsdelivr\.net|cdnjs\.[^"'`/]+)[^"'`]*["'`]""",
    re.IGNORECASE,
)


def remote_parts(text: str) -> list[str]:
    """The parts of a page, a script or a style sheet that fetch from another host."""
    return [each.group() for each in _REMOTE.finditer(text)]


def without_theme_scripts(text: str) -> str:
    """A script of the theme in which the addresses of scripts on other hosts are empty."""
    return _THEME.sub(r"\1\1", text)


def take_offline(folder: Path) -> list[str]:
    """Empty the theme's addresses in the scripts of a built site; the files that still fetch from another host."""
    problems = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".html", ".js", ".css"):
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".js" and (changed := without_theme_scripts(text)) != text:
            path.write_text(changed, "utf-8")
            text = changed
        problems += [f"{path.relative_to(folder)}: fetches from another host: {each}" for each in remote_parts(text)]
    return problems


def on_post_build(config: Any) -> None:
    """MkDocs: raises PluginError if the site would make a request to another host."""
    from mkdocs.exceptions import PluginError

    if problems := take_offline(Path(config.site_dir)):
        raise PluginError("\n".join([*problems, "Copy the files into docs/ and name them there."]))
