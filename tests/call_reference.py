"""What calls of runtimes and drivers are for, by rules on their names, in the order of the rules; without etq's table."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

RULES: Final = (
    (r"StreamWait(Event|Value)|EventsWaitWithBarrier|AppendBarrier|waitOnEvent", "stream_wait"),
    (r"[Ss]ynchroni[sz]e|EventsWait|EventWait$|QueueFinish", "synchronization"),
    (r"Graph(Instantiate|ExecUpdate|Upload|Create|Destroy|ExecDestroy)|(Begin|End)Capture", "graph_instantiation"),
    (r"Launch|CommandBufferEnqueue|ExecuteCommandLists", "launch"),
    (r"[Mm]em(cpy|set)|EnqueueUSM(Memcpy|Fill)|AppendMemory", "copy"),
    (r"EventRecord|recordEvent", "event_record"),
    (r"Get|Query|IsCapturing|Occupancy|SetAttribute|SetDevice|CanAccess", "query"),
    (r"(Stream|Event|Ctx|Context|Queue)(Create|Destroy)|PrimaryCtx|^cuInit$", "creation"),
    (r"Host(Alloc|Malloc|Free|Register|Unregister)|(Malloc|Free|Alloc)Host|USMHostAlloc", "pinned_memory"),
    (r"Free|MemUnmap|MemRelease", "free"),
    (r"Malloc|MemAlloc|Alloc$|MemCreate|MemMap|MemSetAccess|AddressReserve", "allocation"),
    (r"Module(Load|Unload|Create)|Library|LinkComplete|ProgramBuild|KernelCreate", "module_load"),
)
PREFIXES: Final = re.compile(r"(cuda|cu|hip|ur|ze|pi|sycl|mtia|syn)[A-Z]|synchronize|recordEvent|enqueueCommand ")
LAUNCHING: Final = {"launch", "copy", "stream_wait", "event_record", "query"}


@cache
def kind(name: str) -> str | None:
    if not PREFIXES.match(name):
        return None
    return next((found for rule, found in RULES if re.search(rule, name)), None)


@cache
def waits(name: str) -> bool:
    """Whether it returns only when work of a device has ended."""
    found = kind(name)
    if found == "copy":
        return not re.search("Async|Enqueue|Append", name)
    if found == "pinned_memory":
        return "Free" in name or "Unregister" in name
    return found == "synchronization" or (found == "free" and not re.search("Async|Mem(Unmap|Release)|Address", name))


@cache
def cause(name: str) -> str | None:
    """What a thread does in it instead of launching."""
    found = kind(name)
    if found == "copy" and waits(name):
        return "synchronization"
    return None if found in LAUNCHING else found or "call"
