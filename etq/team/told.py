"""What a webhook was told of, and what it is to be told: kept so that a restart neither loses nor repeats a message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any, Final

from etq.team.folder import TeamFolder

BEGAN: Final = "regression began"
ENDED: Final = "regression ended"
# Seconds until a message is sent again, which double, and the most.
FIRST_WAIT: Final = 2.0
LONGEST_WAIT: Final = 900.0
# The most messages that wait: a receiver that is gone must not fill the disk.
MOST_WAITING: Final = 1000

Change = Mapping[str, Any]


@dataclass(frozen=True)
class Message:
    """What is to be sent."""

    number: int
    body: str
    attempts: int


def note_changes(folder: TeamFolder, found: Mapping[str, Mapping[str, Any]], now: float, link: str) -> int:
    """Compare the changes of overviews with those that were told, and keep what is to be sent. Returns how many.

    found  by overview: `changes`, `items`, their numbers, and `problems`, of those that could not be asked
    now    seconds since 1970
    link   the address of the server's pages, without a slash at its end

    Of an item that is new, changes are only noted. A change that is found a capture earlier or later is the same.
    """
    made = 0
    with folder.writing() as connection:
        known = {*connection.execute("SELECT overview, item FROM told_items").fetchall()}
        for overview, given in found.items():
            unknown = {int(number) for number in given["problems"]}
            news = _compared(connection, overview, given["changes"], unknown, now)
            for event, change in news:
                if (overview, change["number"]) in known and change["number"] in given["items"]:
                    body = json.dumps(message_of(event, overview, change, link))
                    connection.execute(
                        "INSERT INTO messages (body, made_at, next_at) VALUES (?, ?, ?)", [body, now, now]
                    )
                    made += 1
            rows = [(overview, number) for number in given["items"] if number not in unknown]
            connection.executemany("INSERT OR IGNORE INTO told_items VALUES (?, ?)", rows)
        there = {(overview, number) for overview, given in found.items() for number in given["items"]}
        connection.executemany("DELETE FROM told_items WHERE overview = ? AND item = ?", sorted(known - there))
        gone = {overview for overview, _ in known} - {*found}
        connection.executemany("DELETE FROM told WHERE overview = ?", [(overview,) for overview in sorted(gone)])
        last = "SELECT message_id FROM messages ORDER BY message_id DESC LIMIT ?"
        connection.execute(f"DELETE FROM messages WHERE message_id NOT IN ({last})", [MOST_WAITING])
    return made


def _compared(
    connection: Connection, overview: str, changes: Sequence[Change], unknown: set[int], now: float
) -> list[tuple[str, Change]]:
    """Return what began and ended since the last time, and note it."""
    query = "SELECT change_key, details FROM told WHERE overview = ? AND ended_at IS NULL"
    open_before = {key: json.loads(details) for key, details in connection.execute(query, [overview])}
    stand = {change["key"]: change for change in changes if change["stands"]}
    began = {key: change for key, change in stand.items() if key not in open_before}
    ended = {key: change for key, change in open_before.items() if key not in stand and change["number"] not in unknown}
    for key, change in [*began.items()]:
        moved = next((old for old, each in ended.items() if _is_same(each, change)), None)
        if moved is not None:
            del ended[moved], began[key]
            details = json.dumps({**change, "change_percent": open_before[moved]["change_percent"]})
            connection.execute(
                "UPDATE OR REPLACE told SET change_key = ?, details = ? WHERE overview = ? AND change_key = ?",
                [key, details, overview, moved],
            )
    by_key = {change["key"]: change for change in changes}
    for key, change in began.items():
        connection.execute(
            "INSERT OR REPLACE INTO told VALUES (?, ?, ?, NULL, ?)", [overview, key, now, json.dumps(change)]
        )
    for key in ended:
        connection.execute("UPDATE told SET ended_at = ? WHERE overview = ? AND change_key = ?", [now, overview, key])
    # Of one that was accepted, why; its size stays that of which was told.
    last = [{**by_key.get(key, old), "change_percent": old["change_percent"]} for key, old in ended.items()]
    return [*((BEGAN, each) for each in began.values()), *((ENDED, each) for each in last)]


def _is_same(old: Change, new: Change) -> bool:
    """Whether a change is one that was found at another capture near it."""
    return bool(
        old["of"] == new["of"] and old["verdict"] == new["verdict"] and abs(old["position"] - new["position"]) <= 2
    )


def message_of(event: str, overview: str, change: Change, link: str) -> dict[str, Any]:
    """Return a message: `text` is what chats show."""
    from urllib.parse import urlencode

    page = f"{link}/overview?{urlencode({'name': overview})}"
    what = f"{change['name']} {change['verdict']} by {abs(change['change_percent']):.1f} %"
    where = f" ({change['series']})" if change["series"] else ""
    is_accepted = event == ENDED and change.get("is_accepted")
    happened = "regression accepted" if is_accepted else event
    text = f"{overview}: {happened}: {what} since {change['over']} {change['first_bad']}{where}"
    if is_accepted and change.get("comment"):
        text += f": {change['comment']}"
    return {"event": event, "text": f"{text} {page}", "overview": overview, "link": page, "change": dict(change)}


def next_message(folder: TeamFolder, now: float) -> tuple[Message | None, float | None]:
    """Return the oldest message if it is to be sent now, and else when; None and None if none waits."""
    with folder.reading() as connection:
        query = "SELECT message_id, body, attempts, next_at FROM messages ORDER BY message_id LIMIT 1"
        row = connection.execute(query).fetchone()
    if row is None:
        return None, None
    return (None, row[3]) if row[3] > now else (Message(row[0], row[1], row[2]), row[3])


def was_taken(folder: TeamFolder, message: Message) -> None:
    """Note that the receiver has a message."""
    with folder.writing() as connection:
        connection.execute("DELETE FROM messages WHERE message_id = ?", [message.number])


def was_refused(folder: TeamFolder, message: Message, now: float) -> float:
    """Note that the receiver does not have a message. Returns when it is sent again."""
    at = now + min(FIRST_WAIT * 2.0 ** min(message.attempts, 30), LONGEST_WAIT)
    with folder.writing() as connection:
        query = "UPDATE messages SET attempts = attempts + 1, next_at = ? WHERE message_id = ?"
        connection.execute(query, [at, message.number])
    return at
