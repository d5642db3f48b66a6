"""Makes the changes of captures that a server was asked for; a part of the writer's process."""

from __future__ import annotations

from etq.errors import EtqError
from etq.remote.protocol import status_of
from etq.team.changes import LABELLED, REMOVED, Change, Changes, Outcome
from etq.warehouse.warehouse import Warehouse, open


def make_changes(path: str, changes: Changes) -> None:
    """Make all changes that wait. Raises `EtqError` while the warehouse can't be opened: they are tried again."""
    with open(path) as warehouse:
        for identifier, change in changes.waiting():
            if not changes.begin(identifier):
                continue
            try:
                outcome = _made(warehouse, changes, identifier, change)
            except EtqError as error:
                outcome = Outcome(status_of(error), error=str(error))
            changes.end(identifier, outcome)


def _made(warehouse: Warehouse, changes: Changes, identifier: str, change: Change) -> Outcome:
    """Make a change, which is noted before: what was done is in the audit log, whenever the process ends."""
    capture = warehouse.capture(change.capture)
    about = {"capture": capture.name, "sha256": capture.sha256}
    if change.labels is None:
        changes.note(identifier, REMOVED, about)
        warehouse.remove(capture)
        return Outcome(200, capture.name, capture.sha256)
    changes.note(identifier, LABELLED, {**about, "labels": change.labels})
    labels = warehouse.label(capture, **change.labels)
    return Outcome(200, capture.name, capture.sha256, labels)
