"""Checks of what findings about dumps claim, against what was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median, quantiles

from tests.drawn.checks import Row, false_parts, number, ticks
from tests.drawn.dumps import COPIES, HEAVY, DrawnDump, DrawnRun, copies
from tests.drawn.words import DUMPS

INSIDE = ("kernel", "delegate", "delegate_call", "bare_call")
ALL = (*INSIDE, "framework", "rest")


def beside(found: float, least: float, most: float, part: float = 0.02) -> bool:
    """Whether a number is between others, but for rounding."""
    return least * (1 - part) - 1 <= found <= most * (1 + part) + 1


def tax(run: DrawnRun) -> float:
    """The time of a run outside of kernels and delegates."""
    return sum(t.ticks for t in run.own if t.kind not in INSIDE)


class AboutDump:
    """A finding about a dump."""

    def __init__(self, drawn: DrawnDump, row: Row) -> None:
        self.drawn, self.row = drawn, row

    def _time(self, match: re.Match[str], kinds: tuple[str, ...], names: tuple[str, ...] = ()) -> str | None:
        least, most = self.drawn.own(kinds, names)
        if not beside(ticks(match["time"]), least, most):
            return f"{least / 1e3:,.2f} to {most / 1e3:,.2f} us"
        if "share" in match.re.groupindex and match["share"]:
            low, high = (
                100 * part / max(whole, 1) for part, whole in zip((least, most), self.drawn.whole[::-1], strict=True)
            )
            if not beside(number(match["share"]), low - 1, high + 1, 0.05):
                return f"{low:.1f} to {high:.1f} % of a run"
        return None

    def tax(self, match: re.Match[str]) -> str | None:
        least, most = self.drawn.medians(tax)
        low, high = self.drawn.medians(lambda each: each.ticks)
        right = beside(ticks(match["time"]), least, most) and beside(ticks(match["whole"]), low, high)
        return None if right else f"{least / 1e3:,.2f} to {most / 1e3:,.2f} us of {low / 1e3:,.2f} to {high / 1e3:,.2f}"

    def tax_events(self, match: re.Match[str]) -> str | None:
        events = sum(each.delegate_debug_id_str is None for each in self.drawn.runs[0].events)
        return None if number(match["events"] or "1") == events else f"{events} events"

    def heavy(self, match: re.Match[str]) -> str | None:
        if any(op.is_delegate for op in self.drawn.ops):
            return "there are delegates"
        return self._time(match, ("kernel",), HEAVY)

    def fallback(self, match: re.Match[str]) -> str | None:
        delegates = sum(op.is_delegate for op in self.drawn.ops)
        names = {op.name for op in self.drawn.ops if not op.is_delegate}
        if number(match["delegates"]) != delegates or number(match["kernels"]) != len(self.drawn.ops) - delegates:
            return f"{delegates} calls of delegates"
        worst = max(self.drawn.own(("kernel",), (name,))[1] for name in names)
        if self.drawn.own(("kernel",), (match["worst"],))[1] < 0.9 * worst - self.drawn.step:
            return "another op takes more"
        return self._time(match, ("kernel",))

    def small_calls(self, match: re.Match[str]) -> str | None:
        calls = sum(op.is_delegate for op in self.drawn.ops)
        kinds = ("delegate", "delegate_call", "bare_call")
        least, most = self.drawn.own(kinds)
        if number(match["calls"]) != calls or not beside(ticks(match["each"]), least / calls, most / calls):
            return f"{calls} calls of {least / 1e3:,.2f} to {most / 1e3:,.2f} us in all"
        if match["copied"]:
            cost = self.drawn.own(("delegate",), copies(self.drawn))[0]
            room = 1 if self.drawn.step == 1 else 5
            right = beside(number(match["copied"]), 100 * cost / most - room, 100 * cost / least + room, 0.05)
            return None if right else f"{100 * cost / most:.1f} % is copies"
        if not match["share"]:
            return None
        cost = sum(self.drawn.own(*each)[0] for each in ((("delegate",), copies(self.drawn)), (("delegate_call",),)))
        room = 1 if self.drawn.step == 1 else 5  # in percent
        more = cost + self.drawn.own(("bare_call",))[1]
        return (
            None
            if beside(number(match["share"]), 100 * cost / most - room, 100 * more / least + room, 0.05)
            else f"{100 * cost / most:.1f} %"
        )

    def copied(self, match: re.Match[str]) -> str | None:
        return self._time(match, ("kernel", "delegate"), copies(self.drawn))

    def in_delegates(self, match: re.Match[str]) -> str | None:
        return None if self._moved("delegate", "Transpose") else "delegates have inputs in their layout"

    def reordered(self, match: re.Match[str]) -> str | None:
        return None if self._moved("kernel") or self._moved("delegate", "Transpose") else "nothing changes a layout"

    def copied_by_calls(self, match: re.Match[str]) -> str | None:
        calls = sum(t.kind in ("delegate_call", "bare_call") for t in self.drawn.runs[0].own)
        return None if self._moved("delegate") and calls > 1 else f"{calls} calls of delegates"

    def _moved(self, kind: str, word: str = "") -> set[str]:
        """Names of what moves data and is of this kind."""
        names = {t.name for t in self.drawn.runs[0].own if t.kind == kind and word in t.name}
        return names & set(copies(self.drawn))

    def timed_op(self, match: re.Match[str]) -> str | None:
        name = match["op"].removesuffix(".out")
        wrong = self._time(
            match, (("delegate_call", "bare_call") if name == "DELEGATE_CALL" else ("kernel", "delegate")), (name,)
        )
        calls = sum(t.name == name for t in self.drawn.runs[0].own)
        return wrong or (None if number(match["calls"]) == calls else f"{calls} calls")

    def dominating(self, match: re.Match[str]) -> str | None:
        if match["op"] in COPIES:
            return "it computes nothing"
        return self._time(match, ("kernel", "delegate"), (match["op"],))

    def first_run(self, match: re.Match[str]) -> str | None:
        first, later = self.drawn.runs[0], sorted(each.ticks for each in self.drawn.complete[1:])
        middle = later[len(later) // 2]
        if not beside(ticks(match["time"]), first.ticks, first.ticks) or not beside(
            ticks(match["median"]), middle, middle, 0.05
        ):
            return f"{first.ticks / 1e3:,.2f} us, the median is {middle / 1e3:,.2f}"
        return None if self.drawn.warm > 1 else f"no warm-up: times vary by chance (noise {self.drawn.noise})"

    def slow_runs(self, match: re.Match[str]) -> str | None:
        times = sorted((each.ticks for each in self.drawn.complete[1:]), reverse=True)
        if not beside(ticks(match["time"]), times[0], times[0]):
            return f"the slowest takes {times[0] / 1e3:,.2f} us"
        middle, total = times[len(times) // 2], sum(each.ticks for each in self.drawn.complete)
        excess = 100 * sum(each - middle for each in times[: int(number(match["slow"]))]) / total
        return None if abs(number(match["share"]) - excess) < 1.5 + 0.1 * excess else f"{excess:.1f} %"

    def slow_run(self, match: re.Match[str]) -> str | None:
        at = int(match["run"]) - bool(self.drawn.load)
        run = self.drawn.runs[at]
        return (
            None
            if not run.is_failed and beside(ticks(match["time"]), run.ticks, run.ticks)
            else f"it takes {run.ticks / 1e3:,.2f} us"
        )

    def drifts(self, match: re.Match[str]) -> str | None:
        times = [each.ticks for each in self.drawn.complete[1:]]
        tenth = len(times) // 10
        wanted = {"first": median(times[:tenth]), "last": median(times[-tenth:])}
        wrong = [
            f"{key} {value / 1e3:,.2f} us"
            for key, value in wanted.items()
            if not beside(ticks(match[key]), value, value)
        ]
        return ", ".join(wrong) or None

    def varies(self, match: re.Match[str]) -> str | None:
        times = [each.ticks for each in self.drawn.complete[1:]]
        tenths = quantiles(times, n=10, method="inclusive")
        wanted = {"low": tenths[0], "high": tenths[8], "median": tenths[4]}
        wrong = [
            f"{key} {value / 1e3:,.2f} us"
            for key, value in wanted.items()
            if not beside(ticks(match[key]), value, value)
        ]
        return ", ".join(wrong) or None

    def few_runs(self, match: re.Match[str]) -> str | None:
        return (
            None
            if number(match["runs"]) in (len(self.drawn.runs), len(self.drawn.complete))
            else f"{len(self.drawn.runs)} runs"
        )

    def loading(self, match: re.Match[str]) -> str | None:
        low, high = self.drawn.medians(lambda each: each.ticks)
        share = 100 * self.drawn.load / (self.drawn.load + sum(each.ticks for each in self.drawn.complete))
        right = beside(ticks(match["time"]), self.drawn.load, self.drawn.load)
        right &= match["runs"] is None or beside(
            number(match["runs"]), self.drawn.load / high - 1, self.drawn.load / low + 1, 0.05
        )
        return (
            None
            if right and abs(number(match["share"]) - share) < 1
            else f"{self.drawn.load / 1e3:,.1f} us, {share:.1f} %"
        )

    def coarse(self, match: re.Match[str]) -> str | None:
        events = self.drawn.events(bool(match["within"]))
        zeros = 100 * sum(each == 0 for each in events) / len(events)
        if self.drawn.step == 1:
            return "the clock counts single nanoseconds"
        if match["step"] and not beside(ticks(match["step"]), self.drawn.step, self.drawn.step, 0.005):
            return f"the step is {self.drawn.step / 1e3} us"
        return None if abs(number(match["zeros"]) - zeros) < 2 else f"{zeros:.1f} % are 0"

    def wrapped(self, match: re.Match[str]) -> str | None:
        return "one run did not end; all else is in order"

    def failed(self, match: re.Match[str]) -> str | None:
        failed = len(self.drawn.runs) - len(self.drawn.complete)
        return None if number(match["runs"]) == failed else f"{failed} runs failed"


def false_parts_of(drawn: DrawnDump, row: Row) -> list[str]:
    """What is false or unchecked in a finding."""
    return false_parts(AboutDump(drawn, row), row, DUMPS)


def missed(drawn: DrawnDump, rows: Sequence[Row]) -> list[str]:
    """Properties of a fifth or more that no finding names."""
    rules = {row["rule"] for row in rows}
    has_delegates = any(op.is_delegate for op in drawn.ops)
    kinds = ("kernel", "delegate")
    wanted = {
        "copies": drawn.share(kinds, copies(drawn)),
        "fallback kernels": drawn.share(("kernel",)) if has_delegates else 0,
        "nothing delegated": 0 if has_delegates else drawn.share(("kernel",), HEAVY),
        "framework tax": drawn.share(("framework", "rest")) if drawn.step == 1 else 0,
    }
    found = [f"{rule}: {share:.0f} %" for rule, share in wanted.items() if share >= 21 and rule not in rules]
    if len(drawn.complete) < len(drawn.runs) and "failed runs" not in rules:
        found.append("a failed run")
    total = sum(each.ticks for each in drawn.complete)
    if drawn.load > 1.1 * total > 0 and "loading" not in rules:
        found.append("loading takes longer than the runs")
    middle = drawn.medians(lambda each: each.ticks)[0]
    excess = sum(each.ticks - middle for at, each in enumerate(drawn.runs) if at in drawn.slow and not each.is_failed)
    if excess > 0.22 * total and not {"slow runs", "variance"} & rules:
        found.append(f"slow runs: {100 * excess / total:.0f} %")
    events = sorted(drawn.events(False))
    if (
        drawn.step > 1
        and len(events) >= 20
        and events[len(events) // 2] < 8 * drawn.step
        and "coarse clock" not in rules
    ):
        found.append(f"a clock of {drawn.step / 1e3} us")
    return found
