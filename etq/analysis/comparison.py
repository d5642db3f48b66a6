"""A comparison of two sides: the views that compute its parts, and the options that each view takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq import catalog
from etq.analysis.steps import steps_by_name, stored_steps
from etq.errors import EtqError, QueryError, counted
from etq.render.times import range_text
from etq.verdicts import words
from etq.verdicts.words import share_text

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.database.handles import Answers
    from etq.verdicts.sequential import Standing

# The parts of a comparison, each with its view.
VIEWS: Final = {
    "efficiency": "compare_efficiency",
    "captures": "compare_captures",
    "calls": "compare_calls",
    "modules": "compare_modules",
    "ops": "compare_ops",
    "metrics": "compare_metrics",
    "startup": "compare_startup",
    "memory": "compare_memory",
    "findings": "compare_findings",
    "sides": "compared_captures",
    "parts": "compare_parts",
}
# Parts that read `_comparison`, which is computed once for all of them.
_MADE: Final = ("captures", "modules", "ops", "findings", "sides", "parts")
# Options of the other parts.
_TAKEN: Final[Mapping[str, Sequence[str]]] = {
    "efficiency": ("unit", "phase"),
    "calls": (),
    "metrics": ("alpha", "min_effect", "allow_mismatch"),
    "startup": ("unit", "alpha", "min_effect", "allow_mismatch"),
    "memory": ("min_effect",),
}
# The largest difference between a change and the change that follows from the shown times: in percent, and as a part of
# the change.
_ROUNDED: Final = (0.15, 0.005)
# Findings about sides that were not measured in turns.
_APART: Final = {"measured apart", "time order unknown"}
# The default of the option alpha.
_ALPHA: Final = 0.05
# Verdicts on ops that changed.
_CHANGED: Final = (words.SLOWER, words.FASTER, words.DIFFERS, words.POSSIBLY + words.SLOWER)
# Verdicts that say nothing about a change.
UNJUDGED: Final = {words.TOO_FEW, words.CANT_JUDGE, words.CONDITIONS_DIFFER, words.ADDED, words.REMOVED}
# Options of the comparison itself.
OPTIONS: Final = ("unit", "quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch")
_numbers: Final = count(1)


def verdicts_of(warehouse: Answers, base: str, new: str, options: dict[str, Any]) -> list[str]:
    """Return the result of a comparison as sentences. Raises `QueryError` for an unknown option."""
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise QueryError(f"compare takes no {unknown[0]}; it takes {', '.join(OPTIONS)}")
    with closing(Comparison(warehouse, base, new, dict.fromkeys(OPTIONS) | options)) as comparison:
        return [*(line for line, _ in comparison.lines()), *comparison.label_lines()]


class Cause(NamedTuple):
    """The instances of an op that changed."""

    op: str
    kind: str
    verdict: str
    text: str  # with its change; for several instances also their number, and their additional time
    instances: list[tuple[str, float]]  # as `Comparison.op_key` names them, with the change in percent


def _cause(op: str, kind: str, verdict: str, rows: Sequence[Sequence[Any]]) -> Cause:
    """Return the cause of rows of an op: instruction, name, change in percent, base and unit."""
    instances = [(name, change) for _, name, change, _, _ in rows]
    if len(rows) == 1:
        number, _, change, *_ = rows[0]
        return Cause(op, kind, verdict, f"{op}{'' if number is None else f' @{number}'} {change:+.1f} %", instances)
    text, before = f"{op}, {len(rows)} instances", sum(base or 0 for *_, base, _ in rows)
    cost = sum(change / 100 * (base or 0) for _, _, change, base, _ in rows)
    if before > 0:
        text += f", {100 * cost / before:+.1f} %"
    if before > 0 and len(units := {unit for *_, unit in rows}) == 1 and None not in units:
        text += f", {cost:+.3g} {units.pop()}"
    return Cause(op, kind, verdict, text, instances)


class Comparison:
    """Two sides in a warehouse, and the options of their comparison.

    The comparison and each part of it are computed once, when they are first requested, into temporary tables of the
    connection, which `close` drops.
    """

    def __init__(
        self,
        warehouse: Answers,
        base: str,
        new: str,
        options: dict[str, Any],
        step_name: str | None = None,
        *,
        has_verdicts: bool = True,
    ) -> None:
        """Options are those of `compare_ops`; `step_name` is an annotation whose calls are taken as the steps of
        traces.

        Without verdicts, slower and faster become differs on different devices. Raises `EtqError` if a capture has no
        such annotation, or if a phase is given as well.
        """
        self.warehouse = warehouse
        self.base = base
        self.new = new
        self.options = options
        self.step_name = step_name
        self.has_verdicts = has_verdicts
        # The temporary tables, by the call that they were computed from.
        self._computed: dict[tuple[Any, ...], str] = {}
        self._reworded: set[str] = set()
        if step_name is not None:
            if options.get("phase") is not None:
                raise EtqError("the calls of an annotation have no phases: leave out step_name (--step-name) or phase")
            history = options.get("history")
            steps_by_name(warehouse, [base, new, *([] if history is None else [history])], step_name)

    def close(self) -> None:
        """Drop the temporary tables; parts that are requested later are computed again, with the stored steps."""
        for name in self._computed.values():
            self.warehouse.rows(f"DROP TABLE IF EXISTS {name}")
        self._computed.clear()
        if self.step_name is not None:
            stored_steps(self.warehouse)

    def rows(
        self, part: str, columns: str = "*", limit: int | None = None, **other: Any
    ) -> tuple[list[str], list[Any]]:
        """Return the columns and rows of one part of the comparison: see `VIEWS`.

        `other` are options that replace those of the comparison. Raises `QueryError` if the sides can't be compared.
        """
        options = self.options | other
        query = f"SELECT {columns} FROM {self._part(part, options)}"
        if limit is not None:
            query += f" LIMIT {int(limit)}"
        return self.warehouse.rows(query)

    def _part(self, part: str, options: Mapping[str, Any]) -> str:
        """Return the name of the temporary table with the rows of a part, for callers that select from it."""
        if part in _MADE:
            computed = self._table(options)
            return self._kept((part, computed), f"{VIEWS[part]}($base, $new)", {}, {"_comparison": computed})
        if part == "metrics":
            self._complete_steps()
        passed = _given(options, _TAKEN[part])
        reads = {} if part in ("efficiency", "calls") else {"_compared_sides": self._chosen}
        call = f"{VIEWS[part]}($base, $new{catalog.more_arguments(passed)})"
        kept = self._kept((part, *passed.items()), call, passed, reads)
        return self._worded(kept) if reads else kept

    def _table(self, options: Mapping[str, Any]) -> str:
        """Return the name of the temporary table with the comparison for these options.

        It has the rows of the macro `_comparison`, which calls the same function within DuckDB.
        """
        passed = _given(options, OPTIONS)
        key = tuple(passed.items())
        if key not in self._computed:
            unit = passed.pop("unit", None)
            call = f"_comparison_input($base, $new{catalog.more_arguments(passed)})"
            from etq.database.functions import answered

            with self.warehouse.locked() as connection:
                # A history is chosen together with the sides.
                reads = {} if "history" in passed else {"_compared_sides": self._chosen}
                samples = self._made(call, passed, reads)
                try:
                    given = connection.sql(f"FROM {samples}").to_arrow_table()
                    decided = answered("needs_etq_to_compare", given)
                    answer = given.select(["counted"]).append_column("decided", decided)
                    self._computed[key] = self._shown(f"{samples}_answer", answer, unit)
                finally:
                    connection.execute(f"DROP TABLE {samples}")
        return self._worded(self._computed[key])

    def _shown(self, name: str, answer: pa.Table, unit: str | None) -> str:
        """Return the name of a temporary table with the rows of an answer, in a unit of time. `name` names a table that
        doesn't exist yet.
        """
        connection = self.warehouse.connection
        connection.register(name, answer)
        try:
            return self._made(f"_comparison_answer('{name}', $unit)", {"unit": unit})
        finally:
            connection.unregister(name)

    @property
    def _chosen(self) -> str:
        """The name of the temporary table with the captures of both sides."""
        return self._kept(("chosen",), "_compared_sides($base, $new)", {})

    def _is_undirected(self) -> bool:
        return not self.has_verdicts and self.devices is not None

    def _worded(self, table: str) -> str:
        """Return the table; on different devices, slower and faster become differs, unless verdicts were requested."""
        if self._is_undirected() and table not in self._reworded:
            self._reworded.add(table)
            query = f"UPDATE {table} SET verdict = $differs WHERE list_contains($directions, verdict)"
            self.warehouse.rows(query, differs=words.DIFFERS, directions=[*words.DIRECTIONS])
        return table

    def _kept(
        self, key: tuple[Any, ...], call: str, arguments: Mapping[str, Any], reads: Mapping[str, str] | None = None
    ) -> str:
        """Return the name of the temporary table with the rows of a call, which is computed once."""
        if key not in self._computed:
            self._computed[key] = self._made(call, arguments, reads)
        return self._computed[key]

    def _made(self, call: str, arguments: Mapping[str, Any], reads: Mapping[str, str] | None = None) -> str:
        """Return the name of a new temporary table with the rows of a call of a macro that reads tables through other
        macros.
        """
        name = f"_computed_comparison_{next(_numbers)}"
        sides = {name: side for name, side in (("base", self.base), ("new", self.new)) if f"${name}" in call}
        # Imported here, as `etq --help` starts faster without DuckDB.
        from etq.analysis.focus import reading

        with self.warehouse.locked() as connection, reading(connection, reads or {}):
            self.warehouse.rows(f"CREATE TEMP TABLE {name} AS FROM {call}", **arguments, **sides)
        return name

    def verdicts(self, part: str, of: str, **other: Any) -> list[tuple[str, str]]:
        """Return the values of a part's column `of`, each with its verdict, or None."""
        return self.rows(part, f"coalesce({of}, ''), verdict", **other)[1]

    @cached_property
    def _sides(self) -> list[tuple[bool, bool, list[int]]]:
        """Whether all captures of base, and of new, have modules, whether any is a PyTorch trace, and their keys."""
        query = f"""
            SELECT
                bool_and(c.record_id IS NOT NULL OR c.format = 'torch_trace' AND c.capture_id IN (
                    SELECT m.capture_id FROM module_times AS m
                )),
                bool_or(c.format = 'torch_trace'),
                list(c.capture_id)
            FROM {self._chosen} AS c
            GROUP BY c.side
            ORDER BY c.side
        """
        return self.warehouse.rows(query)[1]

    def has_modules(self) -> bool:
        return all(has_modules for has_modules, _, _ in self._sides)

    @cached_property
    def devices(self) -> tuple[str, str] | None:
        """The devices of base and of new, if the sides are traces of different devices."""
        if not self.is_of_traces():
            return None
        query = "SELECT names, vendor FROM _devices_of($keys)"
        base, new = (self.warehouse.rows(query, keys=keys)[1][0] for _, _, keys in self._sides)
        if base[0] and new[0]:
            do_differ = not {*base[0]} & {*new[0]}
        else:
            do_differ = None not in (base[1], new[1]) and base[1] != new[1]
        if not do_differ:
            return None
        names = [", ".join(names) if names else str(vendor) for names, vendor in (base, new)]
        return names[0], names[1]

    def has_one_trace_per_side(self) -> bool:
        return self.is_of_traces() and all(len(keys) == 1 for _, _, keys in self._sides)

    @property
    def sample(self) -> str:
        """The kind of a side's samples: step, trace or capture."""
        if self.is_by_step():
            return "step"
        return "trace" if self.is_of_traces() else "capture"

    def is_by_step(self) -> bool:
        """Whether the samples are steps, because each side is one PyTorch trace."""
        return self.is_of_traces() and ("one trace per side",) in self.rows("findings", "rule")[1]

    def is_of_traces(self) -> bool:
        """Whether the captures are PyTorch traces."""
        return any(is_trace for _, is_trace, _ in self._sides)

    def statistic(self) -> str:
        """Return the word for the quantile of runs or steps that is a capture's time."""
        quantile = 0.5 if self.is_by_step() else self.options["quantile"] or 0.25
        return {0.5: "median "}.get(quantile, f"p{100 * quantile:.12g} ")

    def is_in_turns(self) -> bool:
        """Whether the captures of the sides alternate in time: if not, intervals don't cover changes of the machine."""
        return not self.is_by_step() and not _APART & {rule for (rule,) in self.rows("findings", "rule")[1]}

    def lines(
        self, *, of_ops: bool = True, of_once: bool = True, is_total_first: bool = False
    ) -> list[tuple[str, str | None]]:
        """Return the result as sentences, each with its verdict if it is about a total.

        The order: ops that changed, and their slowest tenth of runs; totals, and their slowest tenth of runs; loading
        and memory, if they changed. With `is_total_first`, for comments, totals precede ops.
        """
        ops = (self.op_line(), self.op_tail_line()) if of_ops else ()
        changed: list[tuple[str, str | None]] = [(line, None) for line in ops if line is not None]
        more = [*self.tail_lines(), *(self.once_lines() if of_once else [])]
        more += self.efficiency_lines()
        totals = self.total_lines()
        first = [*totals, *changed] if is_total_first else [*changed, *totals]
        return [*first, *((line, None) for line in more)]

    def total_lines(self) -> list[tuple[str, str | None]]:
        """Return a line for each total, with its verdict."""
        columns = "what, method, verdict, change_percent, low_percent, high_percent, base, new, unit, note"
        totals = [row for row in self.rows("captures", columns)[1] if row[0] == "total"]
        # The interval has a probability of 95 % only if the sides were measured in turns.
        spread = "" if all(row[4] is None for row in totals) or self.is_in_turns() else "spread "
        lines: list[tuple[str, str | None]] = []
        for _, method, verdict, change, low, high, base, new, unit, note in totals:
            finding = words.SHOWN.get(verdict, verdict)
            text = f"{'total' if len(totals) == 1 else method}: {finding}"
            if change is not None:
                text += f", {change:+.1f} %" + ("" if low is None else f" ({spread}{low:+.1f} to {high:+.1f} %)")
                text += _levels(self.statistic(), change, base, new, unit)
            lines.append((text + (f"; {note}" if note else ""), verdict))
        return lines

    def tail_lines(self) -> list[str]:
        """Return a line for each total whose slow runs have another verdict than the total."""
        return [
            f"slow runs of {method} (quantile 0.9) {words.are(verdict)}: {change:+.1f} %"
            for method, verdict, change in self.slow_tails()
        ]

    def efficiency_lines(self) -> list[str]:
        """Return a line with the MFU of each side's steps, the median over its captures; no line if the sides aren't
        traces, or if no side's MFU is known.
        """
        if not self.is_of_traces():
            return []
        self._complete_steps()
        query = f"""
            SELECT median(e.mfu_percent), coalesce(bool_or(e.is_least), false), min(e.known_percent),
                coalesce(string_agg(DISTINCT e.assumed, '; ' ORDER BY e.assumed), 'nothing')
            FROM {self._chosen} AS c LEFT JOIN _trace_efficiency AS e USING (capture_id)
            GROUP BY c.side ORDER BY c.side
        """
        sides = self.warehouse.rows(query)[1]
        if all(mfu is None for mfu, *_ in sides):
            return []
        texts = ["unknown" if mfu is None else share_text(mfu, is_least) for mfu, is_least, *_ in sides]
        known = [f"{share:.0f}" for mfu, _, share, _ in sides if mfu is not None]
        assumed = [each for *_, each in sides]
        sizes = "" if {*assumed} == {"nothing"} else f"; assumed: {' and '.join(dict.fromkeys(assumed))}"
        return [f"MFU: {' to '.join(texts)}; costs are known of {' and '.join(known)} % of devices' time{sizes}"]

    def _complete_steps(self) -> None:
        """Compute the operations of steps for traces in memory, too, if there are only two traces; for many, this would
        take long.
        """
        if self.has_one_trace_per_side():
            self.warehouse.complete_steps([key for _, _, keys in self._sides for key in keys])

    def metric_lines(self, names: Iterable[str]) -> list[str]:
        """Return a line with the verdict for each of these metrics, worse ones first."""
        columns = "name, verdict, change_percent, base, new, coalesce(unit, ''), note"
        by_name = {row[0]: row for row in self.rows("metrics", columns)[1]}
        return _sentences([by_name[name] for name in names])

    def startup_lines(self) -> list[str]:
        """Return a line with the verdict for loading, and for the first execute of each method.

        Raises `QueryError` if no capture has either.
        """
        columns = "what || coalesce(' of ' || method, ''), verdict, change_percent, base, new, unit, note"
        rows = self.rows("startup", columns)[1]
        if not rows:
            raise QueryError("no capture has a load or an execute; start-up can't be compared")
        return _sentences(rows)

    @property
    def shared(self) -> dict[str, Any]:
        """The option alpha for start-up when it is judged with everything else: its part of the whole alpha."""
        from etq.verdicts.comparison import LOADING_PART

        return {"alpha": LOADING_PART * (self.options.get("alpha") or _ALPHA)}

    def once(self) -> list[Sequence[Any]]:
        """Return the values that a capture has once and a gate judges: loading, and planned and allocated memory.

        The columns are what, name, verdict, change in percent, base, new, unit and note.
        """
        numbers = "verdict, change_percent, base, new, {}, note"
        loading = self.rows("startup", f"what, 'loading', {numbers.format('unit')}", **self.shared)[1]
        name = "what || ' memory' || coalesce(' of ' || method, '')"
        memory = self.rows("memory", f"'memory', {name}, {numbers.format(repr('B'))}")[1]
        return [*(("loading", *row[1:]) for row in loading if row[0] == "load"), *memory]

    def once_lines(self) -> list[str]:
        """Return a line for loading, and for each memory, if it changed."""
        return _sentences([row[1:] for row in self.once() if row[2] in words.COUNTING])

    def judged_line(self, of_ops: bool, of_once: bool) -> str:
        """Return a sentence on what a gate of times judged, and what it did not."""
        verdicts = [("total", verdict) for what, verdict in self.verdicts("captures", "what") if what == "total"]
        verdicts += [("ops", verdict) for _, verdict in (self.verdicts("ops", "op") if of_ops else ())]
        verdicts += [("slow runs", words.SAME)] if self._has_slow_runs() else []
        verdicts += [(what, verdict) for what, _, verdict, *_ in (self.once() if of_once else ())]
        every = Counter(what for what, _ in verdicts)
        judged = Counter(what for what, verdict in verdicts if verdict not in UNJUDGED)
        counts = {"ops": counted(every["ops"], "op")}
        if 0 < judged["ops"] < every["ops"]:
            counts["ops"] = f"{judged['ops']:,} of {counts['ops']}"
        found = [counts.get(what, what) for what in every if judged[what]]
        left = [counts.get(what, what) for what in every if not judged[what]]
        return f"judged: {', '.join(found) or 'nothing'}" + (f"; not judged: {', '.join(left)}" if left else "")

    def _has_slow_runs(self) -> bool:
        """Whether the slowest tenth of runs is judged: it is not judged without a judged total of several captures per
        side, nor for sides measured apart.
        """
        if self.is_by_step() or self.options.get("quantile") not in (None, 0.25):
            return False
        rows = self.rows("captures", "what, verdict, least(base_captures, new_captures)")[1]
        has_several = any(what == "total" and verdict not in UNJUDGED and least > 1 for what, verdict, least in rows)
        return has_several and ("measured apart",) not in self.rows("findings", "rule")[1]

    def label_lines(self) -> list[str]:
        """Return a line for each label that differs between the sides, except the labels that select them, as in
        findings.

        The captures need not have times.
        """
        query = f"""
            WITH sides AS (SELECT c.capture_id, c.side = 'new' AS is_new FROM {self._chosen} AS c)
            SELECT name, detail FROM _differing_labels($base, $new, 'sides')
        """
        labels = self.warehouse.rows(query, base=self.base, new=self.new)[1]
        names = {name for name, _ in labels}
        return [": ".join(words.of_label(name, detail, names)) for name, detail in labels]

    def has_few_common_ops(self) -> bool:
        """Whether the programs differ so much that only totals can be compared."""
        return (words.FEW_COMMON_OPS,) in self.rows("findings", "rule")[1]

    def op_line(self) -> str | None:
        """How many ops are slower, faster or differ, and which of them explain most of the difference; None if there
        are none, or if the programs have few ops in common.
        """
        if self.has_few_common_ops():
            return None
        # Annotations are left out, because the ops in them are listed.
        found = [each for each in self.causes() if each.kind not in ("annotation", "device_annotation")]
        texts = []
        for verdict in (words.SLOWER, words.FASTER, words.DIFFERS):
            if of_verdict := [each for each in found if each.verdict == verdict]:
                more = ", ..." if len(of_verdict) > 3 else ""
                ops = "; " if any(len(each.instances) > 1 for each in of_verdict[:3]) else ", "
                count = sum(len(each.instances) for each in of_verdict)
                named = ops.join(each.text for each in of_verdict[:3])
                texts.append(f"{words.counted_ops(count, verdict)}: {named}{more}")
        return "; ".join(texts) or None

    def causes(self) -> list[Cause]:
        """Return the ops that changed, the largest change first; instances of an op with the same verdict are one
        entry.
        """
        columns = f"{self._op_name()}, kind, verdict, instruction_id, {self.op_key()}, change_percent, base, unit"
        groups: dict[tuple[str, str, str], list[Sequence[Any]]] = {}
        for op, kind, verdict, *row in self.rows("ops", columns)[1]:
            if verdict in _CHANGED:
                groups.setdefault((op, kind, verdict), []).append(row)
        return [_cause(*key, rows) for key, rows in groups.items()]

    def op_sources(self) -> dict[str, tuple[str, int | None]]:
        """Return the file and line of ops, named by `op_key`, from the linked record of new.

        Ops with several lines are left out.
        """
        query = f"""
            SELECT c.name, any_value((s.source_file, s.source_line))
            FROM (SELECT *, {self.op_key()} AS name FROM {self._table(self.options)}) AS c
            JOIN _op_sources($keys) AS s
                ON s.kind = c.new_kind AND s.instruction_id = c.new_instruction_id
                AND (s.scope = c.scope OR s.is_only_scope)
                AND c.op IN (s.family, s.op_type)
            WHERE c.level = 'op'
            GROUP BY ALL
            HAVING count(DISTINCT (s.source_file, s.source_line)) = 1
        """
        (_, _, keys) = self._sides[1]
        return dict(self.warehouse.rows(query, keys=keys)[1])

    def op_tail_line(self) -> str | None:
        """Return how many ops are slower only in their slowest tenth of runs, and which; None as in `op_line`."""
        tails = [] if self.has_few_common_ops() else self.slow_op_tails()
        if not tails:
            return None
        ops = ", ".join(f"{op} {change:+.1f} %" for op, change in tails[:3]) + (", ..." if len(tails) > 3 else "")
        are = words.are(words.DIFFERS if self._is_undirected() else words.SLOWER)
        return f"slow runs of {len(tails)} op{'s' if len(tails) > 1 else ''} (quantile 0.9) {are}: {ops}"

    def _op_name(self) -> str:
        """The expression for the name of an op in a sentence."""
        return "op || CASE kind WHEN 'device_op' THEN ' on devices' ELSE '' END" if self.is_of_traces() else "op"

    def standing(self, measured: int) -> Standing:
        """Return whether these verdicts show that a benchmark has measured enough rounds.

        The comparison's alpha is this look's part of the benchmark's alpha, see `etq.verdicts.sequential`.
        """
        from etq.verdicts.sequential import Judged, standing

        query = f"""
            SELECT
                level,
                CASE level WHEN 'total' THEN 'total' || coalesce(' of ' || scope, '') ELSE {self.op_key()} END,
                verdict, change, change_low, change_high, share, base_captures + new_captures
            FROM {self._table(self.options)}
            WHERE level = 'total' OR level = 'op' AND kind NOT IN ('annotation', 'device_annotation')
            ORDER BY level = 'op', share DESC NULLS LAST, item
        """
        return standing([Judged(*row) for row in self.warehouse.rows(query)[1]], measured)

    def slow_tails(self) -> list[tuple[str, str, float]]:
        """Return the totals whose slowest tenth of runs is slower or faster, with another verdict than the total
        itself: method, verdict and change in percent. Empty if another quantile is chosen, and for steps.
        """
        return self._slow_runs("total", "scope")

    def slow_op_tails(self) -> list[tuple[str, float]]:
        """Return the ops whose slowest tenth of runs is slower, and that are not slower themselves: the op with its
        module and instruction, and its change in percent. Empty if the sides were not measured in turns.
        """
        return [(op, change) for op, _, change in self._slow_runs("op", self.op_key())]

    def _slow_runs(self, level: str, name: str) -> list[tuple[str, str, float]]:
        query = f"""
            SELECT {name}, verdict, change_percent FROM {self._table(self.options)}
            WHERE level = 'slow {level}' AND verdict IN ('{words.SLOWER}', '{words.FASTER}', '{words.DIFFERS}')
            ORDER BY abs(difference) DESC, item
        """
        return self.warehouse.rows(query)[1]

    def op_key(self) -> str:
        """Return the SQL that names an op, its module and its instruction; in traces also its kind."""
        op = "op || coalesce(' in ' || nullif(module_path, ''), '') || coalesce(' @' || instruction_id, '')"
        return f"kind || ' ' || {op}" if self.is_of_traces() else op


def _levels(statistic: str, change: float, base: float, new: float, unit: str) -> str:
    """Return the values of a total on both sides as text.

    If the change isn't the change between the two medians, because it is that of the median pair of captures, only the
    value of base is returned.
    """
    follows = not base or abs(100 * (new / base - 1) - change) <= max(_ROUNDED[0], _ROUNDED[1] * abs(change))
    return f"{', ' if follows else ' of '}{statistic}{range_text((base, new) if follows else (base,), unit)}"


def sentence(
    name: str,
    verdict: str,
    change: float | None,
    base: float | None,
    new: float | None,
    unit: str | None,
    note: str | None,
) -> str:
    """Return a sentence for a value of both sides; the change is in percent."""
    text = f"{name}: {words.SHOWN.get(verdict, verdict)}"
    if change is not None:
        text += f", {change:+.1f} %"
        if base is not None and new is not None:
            text += f", {range_text((base, new), unit or '').rstrip()}"
    return text + (f"; {note}" if note else "")


def _sentences(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a sentence for each value of both sides, worse ones first."""
    return [sentence(*row) for row in sorted(rows, key=lambda row: row[1] not in words.ARE_WORSE)]


def _given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options that are set."""
    return {name: options[name] for name in names if options[name] is not None}
