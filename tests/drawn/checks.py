"""Checks of what findings about traces claim, against the truth."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.drawn.schedule import Part, recorded, within
from tests.drawn.truth import Truth, is_named, plain
from tests.drawn.words import TRACES

Row = dict[str, Any]
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def number(text: str) -> float:
    """A number of a text; of a share, too."""
    return 99.75 if text.startswith("over") else float(text.replace(",", "").rstrip(" %"))


def ticks(text: str) -> float:
    value, unit = text.split()
    return number(value) * UNITS[unit]


class About:
    """A finding about a trace, while its sentences are checked: what is known of it so far."""

    def __init__(self, truth: Truth, row: Row) -> None:
        self.truth, self.row = truth, row
        self.device = truth.rank
        self.times = truth.families
        self.causes: tuple[str, ...] = ()
        self.subject: str | None = None
        self.time = float(row["time_at_stake"] or 0) * UNITS.get(row["unit"] or "us", 1)

    def share_of(self, whole: float, what: str, unknown: float = 0) -> str | None:
        """Whether the share is that of the time in a whole, of which a part may not be counted."""
        share, most = self.row["share_percent"], 100 * self.time / max(whole - unknown, 1)
        off = 0.02 * most + 0.1 + 100 * self.truth.slack / max(whole, 1)
        if share is not None and not 100 * self.time / max(whole, 1) - off <= share <= most + off:
            return f"{share:.1f} % of {what}, which is {self.time / 1e3:,.1f} of {whole / 1e3:,.1f} us, {most:.1f} %"
        return None

    # --- Idle devices ---

    def idle(self, match: re.Match[str], *causes: str) -> str | None:
        self.device = int(match["device"]) if match["device"] else self.device
        self.causes = causes = tuple(cause.replace("_op", " op") for cause in causes)
        if self.device not in self.truth.runs:
            return f"there is no device {self.device}"
        return self._covered(causes) or self.share_of(self.truth.span(self.device), "the device's time")

    def _covered(self, causes: tuple[str, ...]) -> str | None:
        truth, least = self.truth, self.time / 2 - self.truth.slack
        idle = sum(each.ticks for each in truth.idle(self.device))
        if self.time > idle * 1.01 + truth.slack:
            return f"{self.time / 1e3:,.1f} us of {idle / 1e3:,.1f} us of idle time"
        if "pause" in causes and not truth.drawn.tool:
            causes = (*causes, "step")  # without steps, what lies between ops is not recorded either
        covered = truth.idle_by(self.device, causes)
        if covered >= least or truth.saved(self.device, causes) >= least:
            return None
        by = {each.cause: truth.idle_by(self.device, [each.cause]) for each in truth.idle(self.device)}
        words = ", ".join(
            f"{cause} {time / 1e3:,.0f}" for cause, time in sorted(by.items(), key=lambda each: -each[1])[:4]
        )
        saved = truth.saved(self.device, causes) / 1e3
        return f"{' or '.join(causes)} covers {covered / 1e3:,.0f} of {self.time / 1e3:,.0f} us (without: {saved:,.0f} less); idle: {words}"

    def idle_in(self, match: re.Match[str]) -> str | None:
        """A function, op or compilation that launches nothing."""
        self.subject = match["subject"]
        return self.idle(match, "function", "cpu op", "compile", "load") or self.mostly_in(match)

    def idle_unknown(self, match: re.Match[str]) -> str | None:
        """The file doesn't show it: of work that other launches' ids name, or delays of what was launched."""
        self.device = int(match["device"]) if match["device"] else self.device
        hidden = () if self.truth.drawn.repeats else self._covered(("delay", "stream", "lost"))
        return hidden or self.share_of(self.truth.span(self.device), "the device's time")

    def mostly_in(self, match: re.Match[str]) -> str | None:
        subject = match["subject"].split(" of ")[-1]
        if self.row["rule"] == "critical path":
            among = self.truth.on_path(self.subject or "")
        else:
            self.subject, among = subject, self.truth.idle(self.device)
        found = sum(each.ticks for each in among if any(plain(name) == plain(subject) for name in each.names))
        if found < self.time / 2 - self.truth.slack and "pause" not in self.causes:
            return f"the host was in {subject} for {found / 1e3:,.0f} of {self.time / 1e3:,.0f} us"
        return None

    def first_of(self, match: re.Match[str]) -> str | None:
        """What the host was in for most of the time, with the shares of that."""
        said = [(match["first"], match["share"]), (match["second"], match["other"])]
        for name, share in [(name, share) for name, share in said if name]:
            parts = [each for each in self.truth.idle(self.device) if is_named(each, name)]
            found, least = sum(each.ticks for each in parts), number(share) / 100 * self.time
            if found < 0.95 * least - self.truth.slack:
                return f"the host was in {name} for {found / 1e3:,.0f} us, not {least / 1e3:,.0f}"
        return None

    def waits_in(self, match: re.Match[str]) -> str | None:
        """Most waits of the host are in a call of this name, or in an op."""
        waits = [each for each in self.truth.runs[self.device].host if each.cause == "sync"]
        found = sum(each.ticks for each in waits if any(plain(name) == plain(match["call"]) for name in each.names))
        return None if 2 * found >= sum(each.ticks for each in waits) else f"few waits are in {match['call']}"

    def whole(self, match: re.Match[str]) -> str | None:
        part, whole, share = ticks(match["part"]), ticks(match["whole"]), self.row["share_percent"]
        if share is not None and abs(100 * part / whole - share) > 1 + 0.02 * share:
            return f"{part} of {whole} is not {share:.1f} %"
        return None

    # --- The critical path ---

    def on_path(self, match: re.Match[str]) -> str | None:
        truth, self.subject = self.truth, match["subject"]
        whole = truth.recording
        if match["subject"].startswith("on the host, between"):
            found = sum(each.ticks for each in truth.path if each.cause in ("step", "host", "sync"))
            self.causes = ("step",)
        else:
            self.subject = self.subject.split(": the host ")[0] if ": the host " in self.subject else self.subject
            found = sum(each.ticks for each in self._on_path())
        beside = found + sum(each.end - each.start for each in truth.beside_path if each.names[-1:] == (self.subject,))
        beside += sum(each.end - each.start for each in truth.beside_path if each.kernel.name == self.subject)
        if found < self.time / 2 - truth.slack or self.time > beside + 0.1 * whole + truth.slack:
            return f"{found / 1e3:,.0f} of {whole / 1e3:,.0f} us of the path are {self.subject}, not {self.time / 1e3:,.0f}"
        unknown = sum(each.ticks for each in truth.path if each.cause == "delay" or not each.names)
        begin, end = truth.path_window
        return self.share_of(whole, "the critical path", unknown + whole - (end - begin))

    def _on_path(self) -> list[Part]:
        """The parts of the path that are of the subject; while a graph is captured, the host does nothing else."""
        if self.subject != "graph capture":
            return self.truth.on_path(self.subject or "")
        begun, ended = ([each for each in self.truth.last.slices if name in each.name] for name in ("BeginC", "EndC"))
        spans = [(begin.start, end.end) for begin, end in zip(begun, ended, strict=True)]
        return [each for each in self.truth.path if within([(each.start, each.end)], spans)]

    def path_sides(self, match: re.Match[str]) -> str | None:
        parts = self.truth.on_path(self.subject or "")
        total = sum(each.ticks for each in parts if each.cause != "delay")
        device = sum(each.ticks for each in parts if each.cause in ("device", "rank"))
        # While a stream runs earlier work, a trace doesn't tell whether what is launched waits for that.
        unsure = self.truth.busy_delays
        if (
            total
            and self.truth.drawn.clock == 1
            and abs(number(match["device"]) - 100 * device / total) > 20 + 100 * unsure / total
        ):
            return f"{100 * device / total:.0f} % of {self.subject} is on devices"
        return None

    def top_kernel(self, match: re.Match[str]) -> str | None:
        """The kernel with most of the subject's time on the path."""
        times: Counter[str] = Counter()
        for each in self.truth.on_path(self.subject or ""):
            times[each.names[-1]] += each.ticks if each.cause in ("device", "rank") else 0
        name = match["kernel"].rstrip("…")
        most = max(times.values(), default=0)
        said = max((time for kernel, time in times.items() if kernel.startswith(name)), default=0)
        beside = sum(each.end - each.start for each in self.truth.beside_path if each.kernel.name.startswith(name))
        if said + beside + self.truth.slack + 0.1 * most < most:
            return f"{said / 1e3:,.1f} us, of another {most / 1e3:,.1f}"
        # What a launch waits for while its stream runs earlier work isn't told.
        off = self.truth.slack + self.truth.busy_delays + beside + 0.1 * self.truth.recording
        claimed = number(match["share"]) / 100 * self.time
        # Of shared ids, a part of the kernels counts for no op.
        right = claimed <= said + off and (self.truth.drawn.repeats or claimed >= said - off)
        return None if right else f"{said / 1e3:,.1f} of {self.time / 1e3:,.1f} us"

    # --- Time of devices ---

    def families(self, match: re.Match[str]) -> str | None:
        self.times = self.truth.families_of_steps if match["within"] else self.truth.families
        total = sum(self.times.values())
        for word in match["families"].split(", "):
            share, family = re.fullmatch(r"(.+ %) (.+)", word).groups()  # type: ignore[union-attr]
            found = 100 * self.times[family] / total
            if abs(number(share) - found) > 0.6 + 100 * self.truth.slack / total:
                return f"{family} is {found:.1f} % of the devices' time"
        return self.share_of(total, "the devices' time")

    def top_family(self, match: re.Match[str]) -> str | None:
        family = match["family"]
        found = max(self.times, key=self.times.__getitem__)
        is_most = self.times[family] + self.truth.slack >= self.times[found]
        return None if is_most else f"most time is {found}"

    def saves_little(self, match: re.Match[str]) -> str | None:
        work, told = sum(self.times.values()), ticks(match["all"])
        if abs(told - work) > 0.01 * work + self.truth.slack:
            return f"devices work for {work / 1e3:.0f} us"
        found = sum(each.ticks for each in self.truth.path if each.cause in ("device", "rank"))
        most = 0.0 if "part" not in match.re.groupindex else ticks(match["part"])
        beside = self.truth.slack + 0.1 * self.truth.recording
        return f"{found / 1e3:.0f} us of devices are on the path" if found > most + beside else None

    def functions(self, match: re.Match[str]) -> str | None:
        found = self.truth.functions
        least = int(match["number"].replace(",", "")) if "number" in match.re.groupindex else 1
        return None if least <= found else f"{found} functions are recorded"

    def chains(self, match: re.Match[str]) -> str | None:
        most = sum(
            1 for run in self.truth.runs.values() for each in run.work
            if each.kernel.family in ("elementwise", "normalization", "reduction", "embedding")
        )  # fmt: skip
        return None if number(match["kernels"]) <= most else f"there are {most} such kernels"

    # --- Steps ---

    def waits_for_rank(self, match: re.Match[str]) -> str | None:
        waited, moved = self.truth.collectives
        rank = int(match["rank"]) if "rank" in match.re.groupindex else None
        if rank is not None and rank != self.truth.drawn.late:
            return f"rank {self.truth.drawn.late} is late"
        return None if waited >= moved else f"{waited / 1e3:,.0f} us waited for a rank, {moved / 1e3:,.0f} transferred"

    def is_late(self, match: re.Match[str]) -> str | None:
        right = int(match["rank"]) == self.truth.rank == self.truth.drawn.late
        return None if right else f"rank {self.truth.drawn.late} is late"

    def waited_for(self, match: re.Match[str]) -> str | None:
        ranks = [each for each in range(len(self.truth.drawn.programs)) if each != self.truth.rank]
        waited = sum(Truth(self.truth.drawn, each).collectives[0] for each in ranks)
        off = 0.02 * waited + len(ranks) * self.truth.slack
        if int(match["ranks"]) != len(ranks) or abs(ticks(match["time"]) - waited) > off:
            return f"{len(ranks)} ranks waited {waited / 1e3:,.0f} us"
        return None

    def transfers(self, match: re.Match[str]) -> str | None:
        waited, moved = self.truth.collectives
        return None if moved >= waited else f"{waited / 1e3:,.0f} us waited for a rank, {moved / 1e3:,.0f} transferred"

    def one_rank(self, match: re.Match[str]) -> str | None:
        return "all ranks are there" if len(self.truth.drawn.programs) > 1 else None

    def step_share(self, match: re.Match[str], what: str) -> str | None:
        least, most = self.truth.step_shares(what, match["of"])
        right = least - 3 <= number(match["share"]) <= most + 3
        return None if right else f"{least:.1f} to {most:.1f} % is in {what}"

    def waits_for_data(self, match: re.Match[str]) -> str | None:
        self.causes = ("load",)
        found = sum(each.ticks for each in self.truth.path if each.cause == "load")
        return None if 100 * found >= 3 * self.truth.recording else f"{found / 1e3:,.0f} us of the path wait for it"

    def mostly_idle(self, match: re.Match[str]) -> str | None:
        found = self.truth.step_shares("any")[0]
        return None if found < 52 else f"it is busy for {found:.0f} % of the steps"

    def outside(self, match: re.Match[str]) -> str | None:
        """The time before a device's first event, or after its last: not longer than that of the recording."""
        run = self.truth.runs[self.device]
        work = recorded(run)
        is_before = match["side"] == "before"
        most = work[0].start - run.begin if is_before else run.end - max(each.end for each in work)
        if ticks(match["part"]) > 1.01 * most + self.truth.slack:
            return f"{most / 1e3:,.1f} us"
        parts = [each for each in run.host if (each.start < work[0].start if is_before else each.end > run.end - most)]
        found = sum(each.ticks for each in parts if match["host"] and is_named(each, match["host"]))
        return (
            None
            if not match["host"] or 2.2 * found >= ticks(match["part"])
            else f"{found / 1e3:,.1f} us in {match['host']}"
        )

    def kernel_share(self, match: re.Match[str]) -> str | None:
        least, most = self.truth.step_shares("kernel", match["of"])
        right = least - 1 <= number(match["share"]) <= most + 1
        return None if right else f"{least:.1f} to {most:.1f} %"

    def compiles(self, match: re.Match[str]) -> str | None:
        self.causes = ("compile",)
        least, most = self.truth.step_shares("compile", match["of"])
        return None if least - 2 < number(match["share"]) < most + 2 else f"{least:.1f} to {most:.1f} %"

    def no_tensor_cores(self, match: re.Match[str]) -> str | None:
        return self.for_products(match, "plain")

    def lost(self, match: re.Match[str]) -> str | None:
        lost, least, most = self.truth.launches
        if number(match["lost"]) != lost or not least <= number(match["launches"]) <= most:
            return f"{lost} of {least} launches are lost ({most - least} more were recorded into a graph)"
        return None

    # --- Remedies ---

    def vendor(self, match: re.Match[str]) -> str | None:
        """Whether the vendor of the device calls its graphs and units so, and graphs aren't replayed already."""
        said, device = match.groupdict(), self.truth.drawn.device
        runtime = device.runtime if device else None
        if said.get("graphs") and said["graphs"].lower() != runtime:
            return f"{said['graphs']} graphs, on {runtime}"
        if said.get("graphs") and "capture" in self.truth.drawn.problems:
            return "graphs are replayed already"
        units = {"hip": "matrix", "cuda": "tensor"}.get(runtime or "")
        return f"{said['units']} cores, on {runtime}" if said.get("units") and said["units"] != units else None

    def in_one_place(self, match: re.Match[str]) -> str | None:
        is_idle = self.row["rule"] == "device idle"
        parts = self.truth.idle(self.device) if is_idle else self.truth.path
        starts = [each.start for each in recorded(self.truth.runs[self.device])] if is_idle else []
        times: Counter[int] = Counter()  # by the work that ends a gap
        begins: dict[int, int] = {}
        for number, each in enumerate(parts):
            if each.cause in self.causes or not self.causes:
                place = bisect_left(starts, each.end) if is_idle else number
                times[place] += each.ticks
                begins.setdefault(place, each.start)
        most = max(times.values(), default=0)
        before = min(
            (begins[place] for place, ticks in times.items() if ticks >= most - self.truth.slack), default=0
        ) - min(run.begin for run in self.truth.runs.values())
        if before > most + self.truth.slack:
            return f"{before / 1e3:,.0f} us are before it"
        return None if 2 * most >= self.time - self.truth.slack else f"{most / 1e3:,.0f} of {self.time / 1e3:,.0f} us"

    def for_cause(self, match: re.Match[str], *causes: str) -> str | None:
        causes = tuple(cause.replace("_op", " op") for cause in causes)
        if self.row["rule"] == "device idle":
            return self._covered(causes)
        parts = self._on_path() if self.subject and self.causes != ("step",) else self.truth.path
        found = sum(each.ticks for each in parts if each.cause in causes or self.subject == "graph capture")
        if found < self.time / 2 - self.truth.slack:
            return (
                f"for {' or '.join(causes)}, which is {found / 1e3:,.0f} of {self.time / 1e3:,.0f} us of {self.subject}"
            )
        return None

    def for_loader(self, match: re.Match[str], *facts: str) -> str | None:
        has_workers = self.truth.drawn.has_workers
        if not any(each.cause == "load" for each in self.truth.last.host):
            return "nothing is loaded"
        return (
            "it has workers"
            if has_workers and "no" in facts
            else "it has no workers"
            if not has_workers and "no" not in facts
            else None
        )

    def for_training(self, match: re.Match[str], *facts: str) -> str | None:
        if not self.truth.drawn.is_training:
            return "for inference"
        return self.for_transfer(match) if facts else None

    def for_short(self, match: re.Match[str]) -> str | None:
        return self.for_training(match) if match["batch"] else self.not_compiled(match)

    def for_transfer(self, match: re.Match[str]) -> str | None:
        waited, moved = self.truth.collectives
        return f"rank {self.truth.drawn.late} is late" if waited > moved and self.truth.drawn.late is not None else None

    def for_launches(self, match: re.Match[str], *facts: str) -> str | None:
        if "no" in facts and self.truth.drawn.is_compiled and any("triton" in name for name in self.truth.kernels):
            return "it is compiled"
        if self.subject and plain(self.subject) not in self.truth.launching and self.subject in self.truth.kinds:
            return f"{self.subject} launches nothing"
        if self.row["rule"] == "device idle":
            return self._covered(("host", "step"))
        parts = self.truth.on_path(self.subject or "") if self.causes != ("step",) else self.truth.path
        found = sum(each.ticks for each in parts if each.cause in ("host", "step", "delay"))
        return (
            None
            if found >= self.time / 2 - self.truth.slack
            else f"{found / 1e3:,.0f} of {self.time / 1e3:,.0f} us launch"
        )

    def for_op(self, match: re.Match[str]) -> str | None:
        kind = self.truth.kinds.get(plain(self.subject or ""))
        if kind in ("user_annotation", "python_function"):
            return f"{self.subject} is no op"
        on_device = [each for each in self.truth.on_path(self.subject or "") if each.cause == "device"]
        copies = sum(each.ticks for each in on_device if each.names[-1].startswith(("Memcpy HtoD", "Memcpy DtoH")))
        return "it copies from or to the host" if 2 * copies > sum(each.ticks for each in on_device) else None

    def for_kernels(self, match: re.Match[str]) -> str | None:
        """Kernels have half of the time of what is named, and it is no op, whose costs would be known."""
        if self.truth.kinds.get(plain(self.subject or "")) == "cpu_op":
            return f"{self.subject} is an op"
        found = sum(each.ticks for each in self.truth.on_path(self.subject or "") if each.cause == "device")
        return None if 2 * found >= self.time else f"{found / 1e3:,.0f} of {self.time / 1e3:,.0f} us are on devices"

    def for_products(self, match: re.Match[str], how: str) -> str | None:
        device = self.truth.drawn.device
        simple = sum(time for name, time in self.truth.kernels.items() if "sgemm" in name)
        if how == "plain" and (device is None or not device.has_units):
            return f"{device.name if device else 'the CPU'} has no tensor cores"
        if (2 * simple > self.truth.families["GEMM"]) != (how == "plain"):
            return f"{simple / 1e3:,.0f} of {self.truth.families['GEMM'] / 1e3:,.0f} us of products run without them"
        return None

    def for_memory(self, match: re.Match[str], *facts: str) -> str | None:
        return self.not_compiled(match) if "no" in facts else None

    def not_compiled(self, match: re.Match[str]) -> str | None:
        if self.row["rule"] == "fusable kernels":  # of torch's own kernels, as the chains are listed
            is_compiled = "triton" in self.row["evidence"]
        else:
            compiled = sum(time for name, time in self.truth.kernels.items() if "triton" in name)
            is_compiled = 2 * compiled > self.truth.families["elementwise"]
        return "it is compiled already" if is_compiled else None

    def for_copies(self, match: re.Match[str], way: str) -> str | None:
        times = Counter({name: time for name, time in self.truth.kernels.items() if name.startswith("Memcpy")})
        if self.row["rule"] == "critical path":
            times = Counter()
            for each in self.truth.on_path(self.subject or ""):
                times[each.names[-1]] += each.ticks if each.names[-1].startswith("Memcpy") else 0
        found = sum(time for name, time in times.items() if way in name and way != "Device")
        return None if times.total() and 2 * found >= times.total() else f"for {[*times][:2]}"


Check = Callable[..., str | None]


def false_parts(about: Any, row: Row, table: tuple[tuple[str, str, str, str], ...] = TRACES) -> list[str]:
    """What is false or unchecked in a finding, in words; first the finding, so that its subject is known."""
    found = []
    for field in ("finding", "evidence", "remedy"):
        rest = row[field] or ""
        for of, rules, pattern, check in table:
            if of != field or not re.fullmatch(rules, row["rule"]):
                continue
            for match in [*re.finditer(pattern, rest)]:
                rest = rest.replace(match.group(), "", 1)
                name, *arguments = check.split() or [""]
                why = getattr(about, name)(match, *arguments) if name else None
                why = why or (about.vendor(match) if isinstance(about, About) else None)
                if why:
                    found.append(f"{field}: {match.group().strip('; ')!r}: {why}")
        if re.search(r"\w", rest):
            found.append(f"unchecked {field}: {rest.strip('; ')!r}")
    return found


CAUSES = {
    # Causes of idle time, and the words by which one is named in any finding.
    "pause": r"outside of steps, where|records nothing|nothing is recorded|recorded nothing",
    "load": r"input data|DataLoader", "function": r"while the host runs|Run it in other|critical path is",
    "cpu op": r"while the host runs|runs on the CPU|critical path is", "compile": r"[Cc]ompil(?:es|ation)",
    "host": r"too slowly|launches nothing for long|critical path is", "step": r"too slowly|launches nothing for long|between the ops|critical path is",
    "allocation": r"allocates memory", "free": r"frees memory", "pinned_memory": r"pinned memory",
    "module_load": r"loads kernels", "graph_instantiation": r"instantiates graphs", "creation": r"creates streams",
    "sync": r"synchroniz", "delay": r"to start|does not show",
}  # fmt: skip


def _idle_missed(truth: Truth, said: str) -> Iterator[str]:
    """Causes of a fifth of a device's time that are not named."""
    for device in truth.runs:
        for cause, words in CAUSES.items():
            time = truth.saved(device, [cause]) if cause == "delay" else truth.idle_by(device, [cause])
            if cause == "step" and not truth.drawn.tool and re.search(CAUSES["pause"], said):
                continue
            share = 100 * time / truth.span(device)
            if share >= 20 and not re.search(words, said):
                yield f"{cause}: {share:.0f} % of the time of device {device}"


def missed(truth: Truth, rows: list[Row]) -> list[str]:
    """Planted problems of a fifth or more that no finding names."""
    said = " ".join(f"{row['finding']} {row['evidence']} {row['remedy']}" for row in rows)
    lost, launches, _ = truth.launches
    if 20 * lost >= launches > 0:
        return [] if any(row["rule"] == "lost kernels" for row in rows) else [f"{lost} of {launches} launches are lost"]
    # Of shared ids it is unknown which launch was whose.
    hidden = truth.drawn.repeats and "does not show" in said
    found = [] if hidden or not truth.drawn.device else [*_idle_missed(truth, said)]
    compiling = 100 * sum(each.ticks for each in truth.last.host if each.cause == "compile") / truth.recording
    if compiling >= 20 and not re.search(CAUSES["compile"], said):
        found.append(f"compile: {compiling:.0f} % of the recording")
    waited, moved = truth.collectives
    late = truth.drawn.late
    if late is not None and late != truth.rank and 5 * waited >= truth.recording and f"rank {late}" not in said:
        found.append(f"rank {late} is late: {100 * waited / truth.recording:.0f} % of the recording")
    if late == truth.rank and f"ranks wait for rank {late}" not in said:
        others = [Truth(truth.drawn, each) for each in range(len(truth.drawn.programs)) if each != late]
        if 5 * sum(each.collectives[0] for each in others) >= sum(each.recording for each in others):
            found.append("it is late")
    if 5 * moved >= truth.recording and "ommunicat" not in said and "transfer" not in said:
        found.append(f"communication: {100 * moved / truth.recording:.0f} % of the recording")
    simple, runs_on = truth.kernels["ampere_sgemm_128x64_tn"], truth.drawn.device
    if runs_on and runs_on.has_units and 2 * simple > sum(truth.families.values()) and "tensor cores" not in said:
        found.append("products without tensor cores")
    copied = truth.families["memcpy"]
    if 2 * copied > sum(truth.families.values()) and not re.search("memcpy|Memcpy", said):
        found.append("copies: half of the devices' time")
    return found
