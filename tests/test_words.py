"""The words of code, SQL, help, errors and documentation are those of docs/glossary.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What docs/glossary.md advises against.
BANNED = re.compile(
    r"\b(?:told|tells?|telling|said|says?|is no (?!more|longer|t)|are no (?!more|longer|t)|beside|behind|own time|alike"
    r"|stands? in|whoever|meant|laid|takes? back|taken back|common mode)\b",
    re.IGNORECASE,
)
TEXTS = [
    *sorted(ROOT.glob("docs/**/*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(
        path
        for folder, ending in (
            ("etq", "py"),
            ("etq/report/assets", "js"),
            ("etq/serve/assets", "js"),
            ("ingest", "py"),
            ("sql", "sql"),
        )
        for path in sorted((ROOT / folder).rglob(f"*.{ending}"))
    ),
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_words_that_the_glossary_advises_against(path: Path) -> None:
    text = path.read_text()
    if path.name == "glossary.md":
        text = text[: text.index("## Words to avoid")]
    found = [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if BANNED.search(line)]
    assert found == []
