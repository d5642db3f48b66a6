"""Memory snapshots of torch.cuda: what is held at the peak, as plain Python adds it up; and pickles that run nothing."""

from __future__ import annotations

import datetime
import os
import pickle
import pickletools
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import etq
from etq.errors import FormatError
from etq.ingest.registry import read_capture
from etq.ingest.snapshot.pickles import loads
from tests.command_line import run_etq

SITE = "/usr/lib/python3.12/site-packages/torch"
NOW = 1_700_000_000_000_000


def frames(*places: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


MAIN = ("/home/me/train.py", 3, "<module>")
LINEAR = frames(
    ("??", 0, "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)"), ("??", 0, "at::_ops::addmm::call(at::Tensor)"),
    (f"{SITE}/nn/functional.py", 5, "linear"), ("/home/me/net.py", 14, "forward"), MAIN,
)  # fmt: skip
PYTHON = frames((f"{SITE}/nn/functional.py", 9, "relu"), (f"{SITE}/nn/module.py", 2, "call"))


def entry(action: str, address: int, size: int, at: int, stack: Any = ()) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": NOW + at, "frames": [*stack]}


def block(address: int, size: int, state: str, stack: Any = ()) -> dict[str, Any]:
    return {
        "address": address,
        "size": -(-size // 512) * 512,
        "requested_size": size,
        "state": state,
        "frames": [*stack],
    }


def snapshot(segments: list[dict[str, Any]], *traces: list[dict[str, Any]], protocol: int = 4) -> bytes:
    written = {
        "segments": segments,
        "device_traces": [*traces],
        "allocator_settings": {"expandable": True, "ratio": 0.5},
    }
    return pickle.dumps(written, protocol)


# Of 100 bytes that were allocated before, and 300 that still are; the peak is after the second allocation.
SMALL = snapshot(
    [
        {
            "device": 0, "address": 4096, "total_size": 2 << 20, "segment_pool_id": (0, 0), "blocks": [
                block(4096, 4096, "inactive"), block(8192, 1024, "active_allocated", PYTHON),
                block(9216, 300, "active_allocated", LINEAR), block(9728, 64, "active_awaiting_free", PYTHON),
            ],
        }
    ],
    [
        entry("segment_alloc", 4096, 2 << 20, 0), entry("free_requested", 4000, 100, 1),
        entry("free_completed", 4000, 100, 1), entry("alloc", 4096, 512, 5, LINEAR), entry("alloc", 8192, 1024, 9, PYTHON),
        entry("free_requested", 4096, 512, 12), entry("free_completed", 4096, 512, 12), entry("oom", 0, 1 << 40, 13),
        entry("snapshot", 0, 0, 20),
    ],
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_is_held_at_the_peak(tmp_path: Path, protocol: int) -> None:
    """By hand, by op and by line; memory over time; and what the commands say."""
    path = tmp_path / "mine.pickle"
    path.write_bytes(pickle.dumps(pickle.loads(SMALL), protocol))
    with etq.read(path) as warehouse:
        columns = "device, peak_bytes, peak_time, op, source, allocations, held_bytes"
        ask = f"SELECT {columns} FROM peak_memory('@latest', unit := 'us', \"by\" := $by)"
        assert warehouse.rows(ask, by="op")[1] == [
            ("GPU0", 1836, 9, f"{SITE}/nn/functional.py(9): relu", None, 1, 1024), ("GPU0", 1836, 9, "aten::addmm", None, 2, 812),
        ]  # fmt: skip
        assert warehouse.rows(ask, by="source")[1] == [
            ("GPU0", 1836, 9, None, "(no line of the user's)", 1, 1024), ("GPU0", 1836, 9, None, "/home/me/net.py:14", 2, 812),
        ]  # fmt: skip
        line = "SELECT time, allocated_bytes, reserved_bytes FROM memory_timeline('@latest', unit := 'us') ORDER BY ALL"
        assert warehouse.rows(line)[1] == [
            (0, 400, 0), (1, 300, 2 << 20), (5, 812, 2 << 20), (9, 1836, 2 << 20), (12, 1324, 2 << 20),
        ]  # fmt: skip
    shown = run_etq("memory", str(path), "--by", "source").stdout
    assert "GPU0: at most 1.793 KiB in use" in shown and "net.py:14" in shown
    told = run_etq(str(path))
    assert "memory snapshot of torch.cuda, " in " ".join(told.stdout.split()) and "Self time" not in told.stdout
    assert "ops and functions have no times" in told.stderr


CALL = [
    (f"{SITE}/nn/modules/module.py", 1789, "_call_impl"),
    (f"{SITE}/nn/modules/module.py", 1778, "_wrapped_call_impl"),
]
ANY = ("??", 0, "_PyObject_Call")
NESTED = [
    ("??", 0, "at::_ops::addmm::call(at::Tensor)"), (f"{SITE}/nn/functional.py", 5, "linear"),
    (f"{SITE}/nn/modules/linear.py", 125, "forward"), ANY, *CALL, ("/home/me/net/block.py", 9, "forward"), *CALL,
    ("/home/me/net/model.py", 14, "wrapped"), *CALL, ("/home/me/train.py", 3, "<module>"),
]  # fmt: skip


def test_modules_around_allocations(tmp_path: Path) -> None:
    """Functions that `Module._call_impl` calls, with the lines that call the next; a function named forward alone is none."""
    head, tail = NESTED[:2], NESTED[6:]
    stacks = [
        frames(*NESTED), frames(*head, *NESTED[2:]), frames(("/home/me/net/block.py", 11, "forward"), *tail[1:]),
        frames(("/home/me/other.py", 2, "forward"), ("/home/me/train.py", 3, "<module>")),
    ]  # fmt: skip
    entries = [entry("alloc", 512 * at, 100 * at, at, stack) for at, stack in enumerate(stacks, 1)]
    path = tmp_path / "mine.pickle"
    path.write_bytes(snapshot([], entries))
    with etq.read(path) as warehouse:
        query = "SELECT module, op, allocations, held_bytes FROM peak_memory('@latest', \"by\" := 'module')"
        assert warehouse.rows(query)[1] == [
            ("(no module)", None, 1, 400),
            ("net/model.py:14 > net/block.py", None, 1, 300),
            ("net/model.py:14 > net/block.py:9 > modules/linear.py", None, 2, 300),
        ]  # fmt: skip
    assert "net/model.py:14 > net/block.py" in run_etq("memory", str(path), "--by", "module").stdout


def test_a_deep_stack_keeps_the_innermost_modules(tmp_path: Path) -> None:
    """A file has a stack once for all allocations with it, and each of them a text of its own."""
    forward = [("/home/me/net/block.py", line, "forward") for line in range(1000)]
    stack = frames(*(frame for each in forward for frame in (each, *CALL)))
    path = tmp_path / "deep.pickle"
    path.write_bytes(snapshot([], [entry("alloc", 512 * at, 100, at, stack) for at in range(1, 4)]))
    with etq.read(path) as warehouse:
        query = "SELECT module, allocations FROM peak_memory('@latest', \"by\" := 'module')"
        lines = [f"net/block.py:{line}" for line in range(63, 0, -1)]
        assert warehouse.rows(query)[1] == [(" > ".join([*lines, "net/block.py"]), 3)]


@pytest.mark.long
def test_allocations_of_a_random_program(tmp_path: Path) -> None:
    """Two devices, thousands of allocations, of which the snapshot has the last: by a list of what is held, in plain Python."""
    random = Random(3)
    stacks = [frames((f"/home/me/part_{number}.py", number, "run"), MAIN) for number in range(5)]
    traces: list[list[dict[str, Any]]] = []
    segments, expected = [], {}
    for device in (0, 1):
        held: dict[int, tuple[int, int]] = {}
        entries: list[dict[str, Any]] = []
        moments: list[tuple[int, Counter[int]]] = []
        for at in range(3000):
            if held and random.random() < 0.5 + (at > 2000) * 0.1:
                address = random.choice([*held])
                size, _ = held.pop(address)
                entries += [entry(action, address, size, at) for action in ("free_requested", "free_completed")]
            else:
                address, size, of = (
                    random.choice(range(512, 1 << 20, 512)),
                    random.randint(1, 5000),
                    random.randrange(5),
                )
                if address in held:
                    continue
                held[address] = size, of
                entries.append(entry("alloc", address, size, at, stacks[of]))
            # What is held by the functions, as the kept entries and the blocks at the end tell.
            moments.append((at, Counter()))
            for size, of in held.values():
                moments[-1][1][of] += size
        first = next(place for place, each in enumerate(entries) if each["time_us"] >= NOW + 1000)
        kept = moments[next(place for place, (at, _) in enumerate(moments) if at >= 1000) :]
        traces.append(entries[first:])
        blocks = [block(address, size, "active_allocated", stacks[of]) for address, (size, of) in sorted(held.items())]
        segments += [
            {"device": device, "address": each["address"], "total_size": 8192, "blocks": [each]} for each in blocks
        ]
        most = max(sum(each.values()) for _, each in kept)
        expected[f"GPU{device}"] = most, next(each for _, each in kept if sum(each.values()) == most)
    path = tmp_path / "mine.pickle"
    path.write_bytes(snapshot(segments, *traces))
    with etq.read(path) as warehouse:
        rows = warehouse.rows(
            "SELECT device, peak_bytes, source, op, held_bytes FROM peak_memory('@latest', \"by\" := 'source')"
        )[1]
    found: defaultdict[str, dict[Any, int]] = defaultdict(dict)
    for name, peak, source, op, held_bytes in rows:
        assert peak == expected[name][0]
        found[name][source or op] = held_bytes
    for name, (most, parts) in expected.items():
        assert sum(found[name].values()) == most
        unknown = found[name].pop("(before the recording)", 0)
        # What was allocated before, and released since, has no stack in the snapshot.
        assert all(found[name][f"/home/me/part_{of}.py:{of}"] <= known for of, known in parts.items())
        assert sum(parts.values()) - sum(found[name].values()) == unknown


def test_a_snapshot_without_history(tmp_path: Path) -> None:
    """What is held at the end is all that it has."""
    path = tmp_path / "mine.pickle"
    path.write_bytes(
        snapshot([{"device": 0, "address": 0, "total_size": 512, "blocks": [block(0, 70, "active_allocated")]}], [])
    )
    with etq.read(path) as warehouse:
        held = "SELECT peak_bytes, op, held_bytes FROM peak_memory('@latest')"
        assert warehouse.rows(held)[1] == [(70, None, 70)]


class _Runs:
    """A pickle of it runs a command when it is read."""

    def __init__(self, what: Any, *arguments: Any) -> None:
        self.call = what, arguments

    def __reduce__(self) -> Any:
        return self.call


def _hostile(folder: Path) -> list[bytes]:
    """Pickles that would call something, name something, take all memory or time, or are no snapshot."""
    touched = str(folder / "touched")
    calls = [
        _Runs(os.system, f"touch {touched}"), _Runs(eval, f"open({touched!r}, 'w')"), _Runs(open, touched, "w"), _Runs(Path.touch, Path(touched)),
        _Runs(os.mkdir, touched), _Runs(exec, "import os"), _Runs(getattr, 3, "real"), datetime.datetime(2020, 1, 1), Decimal(3), OrderedDict(a=1),
        {1, 2}, frozenset((3,)), b"bytes", bytearray(b"bytes"), 1j, range(3), Path("x"), len, int,
    ]  # fmt: skip
    found = [
        pickle.dumps({"segments": [each], "device_traces": []}, protocol) for each in calls for protocol in (2, 4, 5)
    ]
    begin = b"\x80\x04}\x94(\x8c\x08segments\x94"
    # Each operation of pickle that isn't of plain data, where a value stands.
    plain = {"MARK", "STOP", "PROTO", "FRAME", "NONE", "NEWTRUE", "NEWFALSE", "POP"}
    known = (
        *plain,
        "EMPTY",
        "APPEND",
        "SETITEM",
        "TUPLE",
        "BININT",
        "BINFLOAT",
        "LONG1",
        "LONG4",
        "BINUNICODE",
        "MEMOIZE",
        "BINPUT",
        "BINGET",
        "LONG_BIN",
        "SHORT_BINUNICODE",
    )
    for operation in pickletools.opcodes:
        if not operation.name.startswith(known) or operation.name == "EMPTY_SET":
            found.append(begin + operation.code.encode("latin-1") + b"cos\nsystem\n(X\x01\x00\x00\x00a\x85R.")
    found += [
        begin + b"X\xff\xff\xff\xff", begin + b"\x8d" + b"\xff" * 8, begin + b"\x8b\xff\xff\xff\x7f", begin + b"\x8a\xff" + b"1" * 255,
        begin + b"h\x09.", begin + b"j\xff\xff\xff\xff.", begin, begin + b"u.", begin + b"N.", begin + b"(" * 5000 + b".", b"\x80\x04segments.",
        b"\x80\x09}\x94(\x8c\x08segments\x94Nu.", begin + b"\x95" + b"\xff" * 8,
    ]  # fmt: skip
    # Texts that aren't UTF-8, keys that are lists, numbers that aren't whole, and what only looks like a snapshot.
    found += [begin + b"\x8c\x02\xff\xfe.", b"\x80\x04}(\x8c\x08segments]]NNu.", b"\x80\x04}(\x8c\x08segments]))u."]
    bad: list[Any] = [
        {"segments": 3, "device_traces": []}, {"segments": [], "device_traces": {}}, {"segments": [3], "device_traces": [[]]}, {"segments": []},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1.5, "size": 3, "frames": []}]]},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 2**63, "frames": []}]]},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 3, "frames": [{"name": [], "filename": "", "line": 1}]}]]},
        {"segments": [], "device_traces": [3]}, {"segments": [], "device_traces": [["alloc"]]}, ["segments"], "segments", {"segments": None},
    ]  # fmt: skip
    # A list in itself, and lists that each have the one before a thousand times.
    itself: list[Any] = []
    itself.append(itself)
    often: list[Any] = [entry("alloc", 1, 1, 0)] * 1000
    bad += [{"segments": [], "device_traces": itself}, {"segments": [], "device_traces": [often] * 1000}]
    # Allocations that share a stack of 16 kB, in two bytes each.
    deep = entry("alloc", 1, 1, 0, frames(*((f"{SITE}/nn/functional.py", line, "linear") for line in range(250))))
    bad.append({"segments": [], "device_traces": [[deep] * 20_000]})
    return found + [pickle.dumps(each) for each in bad]


def test_hostile_pickles_are_refused(tmp_path: Path) -> None:
    """None is read, none runs anything, and each error is of its file."""
    hostile = _hostile(tmp_path)
    assert len(hostile) > 100
    for number, content in enumerate(hostile):
        assert b"segments" in content[:200], number
        with pytest.raises(FormatError, match="^mine: "):
            list(read_capture(content, "mine"))
        assert not os.listdir(tmp_path), f"pickle {number} ran"


def test_pickles_cut_anywhere_are_refused() -> None:
    for length in range(60, len(SMALL) - 1, 7):
        with pytest.raises(FormatError, match="^mine: "):
            list(read_capture(SMALL[:length], "mine"))


def test_depth_takes_no_stack() -> None:
    """A hundred thousand lists within each other."""
    value = loads(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "mine")
    depth = 0
    while value:
        [value], depth = value, depth + 1
    assert depth == 99_999


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_as_python_reads_it(protocol: int) -> None:
    shared = [
        "x" * 300,
        "\N{SNOWMAN}",
        -1,
        255,
        256,
        65536,
        -(2**31),
        2**40,
        -(2**62),
        0.5,
        True,
        False,
        None,
        (),
        (1,),
        (1, 2, 3, 4),
    ]
    data = {"a": shared, "b": [shared, {}, [], {"c": (1, (2, 3))}], 7: ["y"] * 3000}
    assert loads(pickle.dumps(data, protocol), "mine") == data
