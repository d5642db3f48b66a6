"""Comments on changes of series, in the table `change_comments`. An accepted change resets the series' level."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from etq.choices import TREND_KINDS
from etq.errors import ArgumentError, printable
from etq.selectors import selector_of

if TYPE_CHECKING:
    import duckdb

ACCEPTED: Final = "accepted"
NOTE: Final = "note"
# A comment on everything that changed there: the total, the ops and others.
ALL: Final = "all"
# The most characters of a comment, and of its author.
LONGEST: Final = 1000
LONGEST_AUTHOR: Final = 120
_NO_KEY: Final = re.compile(r"[\"!@]")


@dataclass(frozen=True)
class Comment:
    """A comment on a change: the columns of `change_comments` that its writer gives."""

    series: str
    what: str
    item: str | None
    identity: str | None
    ordered_by: str
    first_bad: str
    kind: str
    verdict: str
    text: str
    author: str | None


def labels_of_series(connection: duckdb.DuckDBPyConnection, selector: str | None) -> str:
    """Return a selector of labels in the form of series' names: each label once, in order.

    Raises `EtqError` for a selector that doesn't consist of labels.
    """
    [(terms,)] = connection.execute("SELECT _selector_terms($s)", {"s": selector or ""}).fetchall()
    pairs = {}
    for term in terms:
        if term["sign"] != "=" or len(term["values"]) != 1 or _NO_KEY.search(term["key"]) is not None:
            raise ArgumentError(
                f"{printable(term['part'])}: not KEY=VALUE; a comment is on captures with labels, KEY=VALUE,KEY=VALUE"
            )
        [pairs[term["key"]]] = term["values"]
    return selector_of(dict(sorted(pairs.items())))


def check(comment: Comment) -> None:
    """Raise `EtqError` for an invalid comment."""
    if comment.what not in (*TREND_KINDS, ALL):
        raise ArgumentError(f"{comment.what!r} is not {', '.join((*TREND_KINDS, ALL))}")
    if comment.what in TREND_KINDS and comment.what != "total" and comment.item is None:
        raise ArgumentError(f"name the {comment.what} that changed")
    for name, text, longest in (("text", comment.text, LONGEST), ("author", comment.author, LONGEST_AUTHOR)):
        if text is None:
            continue
        if not text.strip() or len(text) > longest:
            raise ArgumentError(f"the {name} of a comment has 1 to {longest:,} characters; shorten it, or write one")
        if printable(text) != text:
            raise ArgumentError(f"the {name} of a comment has a character that can't be displayed; leave it out")


def add_comment(connection: duckdb.DuckDBPyConnection, comment: Comment) -> int:
    """Add a comment, and return its number. Raises `EtqError` for an invalid one."""
    check(comment)
    [(number,)] = connection.execute("SELECT coalesce(max(c.comment_id), 0) + 1 FROM change_comments AS c").fetchall()
    columns = vars(comment)
    connection.execute(
        f"INSERT INTO change_comments BY NAME SELECT $comment_id AS comment_id, "
        f"{', '.join(f'${name} AS {name}' for name in columns)}, $written_at AS written_at",
        {**columns, "comment_id": number, "written_at": datetime.now(UTC).replace(tzinfo=None, microsecond=0)},
    )
    return int(number)


def remove_comment(connection: duckdb.DuckDBPyConnection, number: int) -> None:
    """Remove a comment. Raises `EtqError` for an unknown one."""
    query = "DELETE FROM change_comments WHERE comment_id = ? RETURNING comment_id"
    if not connection.execute(query, [number]).fetchall():
        raise ArgumentError(f"no comment has the number {number}; etq comment lists them")
