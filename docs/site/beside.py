"""Hook of MkDocs: adds the pages that stand beside docs/ in the repository, and links from pages to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

PAGES: Final = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, whose links into docs/ are then to pages beside them."""
    from mkdocs.structure.files import File

    for name in PAGES:
        text = (Path(config.docs_dir).parent / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page of docs/ with links to the added pages."""
    for name in PAGES:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return markdown
