"""The writer of a team's server, when files and users mean harm: others' captures are stored."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from etq.remote.protocol import Push, Sent
from etq.serve import storing
from etq.team.folder import TeamFolder
from etq.team.queue import AT_ONCE, LATER, PushQueue
from tests.serve.server import serving
from tests.serve.server_process import small_capture
from tests.serve.test_push import ended, push_of, pushed, put

# A writer that does to files what their names say.
HARMFUL = """
import time
from etq.team import writer

opened = writer.Writer._opened

def harmed(self, warehouse, push):
    if push.file.name.startswith("hanging"):
        time.sleep(1000)
    if push.file.name.startswith("loud"):
        print("x" * 1_000_000, flush=True)
    return opened(self, warehouse, push)

writer.Writer._opened = harmed
writer.main()
"""


@pytest.fixture
def harmful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "harmful.py"
    script.write_text(HARMFUL)
    monkeypatch.setattr(storing, "command", lambda module, *words: [sys.executable, str(script), *words])


def states_of(path: Path, *names: str) -> list[dict[str, Any]]:
    """What becomes of captures that are pushed together with these names of files."""
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team"))) as server:
        contents = [small_capture(number) for number in range(len(names))]
        for each in contents:
            put(server, each)
        pushes = [push_of(number, each) for number, each in enumerate(contents)]
        for push, name in zip(pushes, names, strict=True):
            push["file"]["name"] = name
        assert pushed(server, *pushes)[0] == 202
        return [ended(server, each["id"]) for each in pushes]


@pytest.mark.usefixtures("harmful")
def test_a_file_that_hangs_the_writer_has_its_time_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "LEAST", 3.0)
    begun = time.monotonic()
    states = states_of(path, "a.etdp", "hanging.etdp", "b.etdp", "c.etdp")
    assert time.monotonic() - begun < 40
    assert [each["state"] for each in states] == ["stored", "failed", "stored", "stored"]
    assert "(it took longer than 3 s)" in states[1]["error"]


@pytest.mark.usefixtures("harmful")
def test_what_a_library_prints_ends_nothing(path: Path) -> None:
    """More than the 64 kB of a line that a stream of asyncio takes."""
    with serving(path, edits=True, folder=TeamFolder(path.with_name("team"))) as server:
        for number in range(3):
            content = small_capture(number)
            put(server, content)
            push = push_of(number, content)
            push["file"]["name"] = "loud.etdp"
            assert pushed(server, push)[0] == 202
            assert ended(server, push["id"])["state"] == "stored"
            time.sleep(3)  # in which the process ends, as nothing waits


def test_larger_files_have_more_time(path: Path) -> None:
    queue = PushQueue(TeamFolder(path.with_name("team")))
    of_file, of_lake = (storing.Storing(each, path.parent, queue) for each in (str(path), "s3://lab/lake"))
    assert of_file._seconds(0) == 120 and of_file._seconds(100 * 10**6) == 620
    assert of_file._seconds(10**12) == of_lake._seconds(10**12) == 1800
    assert of_lake._seconds(0) == 600


def queue_of(path: Path, *waiting: tuple[str, int]) -> PushQueue:
    """A queue in which so many captures of each user wait, in this order; they are named by user and number."""
    folder = TeamFolder(path.with_name("team"))
    folder.make()
    queue = PushQueue(folder)
    queue.make()
    for user, count in waiting:
        for number in range(count):
            push = Push(f"{user}-{number:08}", Sent(hashlib.sha256(b"x").hexdigest(), f"{user}{number}"))
            assert queue.add(user, [push], {push.file.sha256}) == []
    return queue


def test_users_take_turns(path: Path) -> None:
    queue = queue_of(path, ("ada", 200), ("ben", 1), ("cy", 3))
    taken = [each.push.file.name for each in queue.take()]
    assert len(taken) == AT_ONCE
    # Those of a user are in a row: they are stored in one transaction.
    assert taken == [f"ada{number}" for number in range(AT_ONCE - 4)] + ["ben0", "cy0", "cy1", "cy2"]


def test_what_ended_the_writer_comes_last_for_a_while(path: Path) -> None:
    queue = queue_of(path, ("ada", 3), ("ben", 2))
    queue.begin([each.push for each in queue.take() if each.push.file.name == "ada0"])
    queue.note_crash("")
    assert [each.push.file.name for each in queue.take()] == ["ada1", "ada2", "ben0", "ben1"]
    with queue._folder.writing() as connection:
        connection.execute("UPDATE pushes SET received_at = received_at - ?", [LATER])
    assert [each.push.file.name for each in queue.take()] == ["ada0"]
