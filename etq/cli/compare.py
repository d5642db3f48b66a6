"""The command that compares captures, and what is worse in a comparison."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from etq import catalog
from etq.analysis.comparison import VIEWS, Comparison
from etq.choices import PHASES, UNITS
from etq.cli import main
from etq.cli.job_targets import found_jobs
from etq.cli.messages import note_left_out, say
from etq.cli.options import alpha_option, output_options, percentage, quantile_option, together, warehouse_option
from etq.cli.targets import check_path, is_file, is_folder, is_there, opened, refuse_warehouse, report_warnings
from etq.errors import EtqError, nearest_files, printable
from etq.ingest.found_files import files_of
from etq.render.selection import selection
from etq.render.table import HINT, VERDICT_STYLES, Rows, table
from etq.render.terminal import TerminalStyle, wrapped
from etq.render.writers import Output, write_rows, write_text
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

REGRESSION: Final = 3
# The number of modules and of ops in tables, unless --limit names another.
MOST: Final = 10
TITLES: Final = {
    "captures": "In all",
    "modules": "Modules, those that explain most of the difference first",
    "ops": "Ops, those that explain most of the difference first",
    "metrics": "Metrics",
    "startup": "Start-up",
    "memory": "Memory",
}
# Parts that are shown only if something changed.
ONLY_CHANGED: Final = ("startup", "memory")
# The verdicts that count as a change there.
CHANGED: Final = (*words.COUNTING, words.CONDITIONS_DIFFER)


# Options of a comparison, and of what counts as a difference.
judging_options: Final = together(
    quantile_option,
    click.option("--phase", type=click.Choice(PHASES), help="Only runs of that phase."),
    click.option("--history", metavar="SELECTOR", help="Earlier captures to judge by, if each side has one capture."),
    alpha_option("verdict"),
    click.option(
        "--min-effect",
        metavar="PERCENT",
        callback=percentage,
        help="Smallest difference that counts; of single captures at least 10%.  [default: 2%; of totals not "
        "measured in turns 3%]",
    ),
    click.option(
        "--allow-mismatch",
        "allow_mismatch",
        is_flag=True,
        help="Compare even if profiling levels or conditions differ.",
    ),
    click.option(
        "--step-name",
        metavar="NAME",
        help="For PyTorch traces: the annotation whose calls are the steps.  [default: profiler steps]",
    ),
)


def _refuse_more(context: click.Context, _: click.Parameter, more: tuple[str, ...]) -> None:
    """Raise `UsageError` for more than two sides, which mean that the shell has expanded patterns."""
    if not more:
        return
    files = [context.params["base"], context.params["new"], *more]
    patterns = dict.fromkeys(str(Path(file).with_name(f"*{Path(file).suffix}")) for file in files)
    example = " ".join(f"'{pattern}'" for pattern in patterns) if len(patterns) == 2 else "'base/*' 'new/*'"
    raise click.UsageError(
        f"{len(files)} arguments, not two sides; quote patterns, or the shell replaces them by files: "
        f"etq {context.info_name} {example}"
    )


side_arguments: Final = together(
    click.argument("base"),
    click.argument("new"),
    click.argument("more", nargs=-1, metavar="", expose_value=False, callback=_refuse_more),
    click.option("--etrecord", metavar="FILE", help="For files: the ETRecord of their program."),
)


@main.command()
@side_arguments
@click.option(
    "--what",
    type=click.Choice([*VIEWS, "all"]),
    help="Part to print.  [default: all; ops for CSV and other data formats]",
)
@click.option("--unit", type=click.Choice(UNITS), help="Unit of times.  [default: us; cycles where ticks are cycles]")
@judging_options
@click.option("--verdicts", "has_verdicts", is_flag=True, help="Say which of two different devices is slower.")
@warehouse_option
@output_options
def compare(
    base: str,
    new: str,
    what: str | None,
    etrecord: str | None,
    step_name: str | None,
    has_verdicts: bool,
    db: str,
    output: Output,
    **options: Any,
) -> None:
    """Compare NEW with BASE: what is slower, and is it noise?

    Each side is a name, a selector (key=value,...) that may match many captures, or files: a file, a folder, or a
    pattern in quotes. Several captures per side, measured alternately (etq bench), give the clearest result. Without
    --what, it shows the 10 modules and ops (or --limit of each) that explain most of the difference. For PyTorch traces
    of different devices, it first shows each side's kernel time by op and inputs, and no verdicts unless --verdicts
    is given. To fail a job if NEW is slower, see etq gate. Two jobs, each a folder of its ranks' traces or a selector,
    are compared rank by rank.

    \b
    etq compare build=41 build=42 --db lab.duckdb
    etq compare 'base/*.etdp' 'new/*.etdp' --etrecord net.etrecord --format markdown
    etq compare yesterday.pt.trace.json today.pt.trace.json --step-name train_step
    etq compare h100.pt.trace.json mi300.pt.trace.json --what efficiency
    """
    if what is None and etrecord is None and (jobs := found_jobs(base, new, db)) is not None:
        from etq.cli.job_screen import show_jobs

        show_jobs(jobs, db, output, options["unit"])
        return
    if what in (None, "all"):
        chosen = {"--sort-by": selection.get().sort_by, "--columns": selection.get().columns}
        for name in (name for name, value in chosen.items() if value is not None):
            raise click.UsageError(f"{name} needs --what: parts have different columns")
    with sides(base, new, db, etrecord) as (warehouse, base_selector, new_selector):
        comparison = Comparison(warehouse, base_selector, new_selector, options, step_name, has_verdicts=has_verdicts)
        if what in (None, "all") and output.form in ("table", "markdown", "json"):
            text = whole(comparison, output, selection.get().limit or MOST)
            write_text(text, output, is_printable=output.form == "table")
        else:
            part = "ops" if what is None or what == "all" else what
            if part != "efficiency":  # needs no comparison by steps
                _print_findings(comparison)
            view = catalog.named(VIEWS[part])
            columns, rows = comparison.rows(part, selection.get().columns_of(view, output.is_to_read))
            write_rows(columns, rows, output, view=view)


@contextmanager
def sides(base: str, new: str, db: str, etrecord: str | None) -> Iterator[tuple[Warehouse, str, str]]:
    """The warehouse, and both sides as selectors in it. Files are loaded into a warehouse in memory."""
    from etq.warehouse.warehouse import open

    files = [_files(side, db) for side in (base, new)]
    if not files[0] and not files[1]:
        if etrecord is not None:
            raise EtqError("--etrecord is for files; link captures of a warehouse to their records with etq link")
        for side in (base, new):
            check_path(side, db)
        with opened(db) as warehouse:
            yield warehouse, base, new
        return
    for side, sources in zip((base, new), files, strict=True):
        if not sources:
            raise EtqError(
                f"{side}: no such file or folder{nearest_files(side)}; name files on both sides, or ingest both"
            )
    with open() as warehouse:
        record = None if etrecord is None else warehouse.ingest_record(etrecord)
        known: dict[int, str] = {}
        for side, sources in zip(("base", "new"), files, strict=True):
            links = [] if record is None else [record]
            captures = warehouse.ingest_many(sources, labels={"side": side}, link_to=links)
            for file, capture in zip(sources, captures, strict=True):
                if isinstance(capture, EtqError):
                    raise capture
                if capture.capture_id in known:
                    raise EtqError(f"{file}: the same content as {known[capture.capture_id]}; name different files")
                known[capture.capture_id] = file
                if record is not None:
                    report_warnings(warehouse, capture)
        yield warehouse, "side=base", "side=new"


def _files(side: str, db: str) -> list[str]:
    """The files of a side; none if it selects captures of the warehouse."""
    refuse_warehouse(side)
    if is_file(side, db) or is_folder(side):
        found, left = files_of(side)
        note_left_out(left)
        return found
    if glob.has_magic(side):
        paths = sorted(glob.glob(side, recursive=True))  # noqa: PTH207 - of a pattern with folders
        if paths:
            return paths
        # Labels and names of captures may contain characters of patterns.
        if "=" not in side and (os.sep in side or not is_there(db)):
            raise EtqError(f"{side}: no such files")
    return []


class _Page(NamedTuple):
    """How the parts of a comparison are written: as Markdown, or as text for people, of `limit` rows.

    hint  how to see the columns that don't fit on a terminal
    """

    is_markdown: bool
    style: TerminalStyle
    limit: int
    hint: str

    def table(self, columns: Sequence[str], rows: Rows, view: catalog.SqlObject) -> str:
        from etq.render.markdown import markdown

        return (
            markdown(columns, rows) if self.is_markdown else table(columns, rows, self.style, self.hint, view.foremost)
        )

    def heading(self, title: str, *colours: str) -> str:
        return f"### {title}\n\n" if self.is_markdown else self.style.styled(f"{title}:", *colours) + "\n"

    def remark(self, rule: str, detail: str) -> str:
        """Return a finding in yellow, or with its rule in bold."""
        from etq.render.markdown import inline

        mark, safe = ("**{}**: {}", inline) if self.is_markdown else ("! {}: {}", printable)
        return mark.format(safe(rule), safe(detail))


def whole(comparison: Comparison, output: Output, limit: int = MOST, hint: str = HINT) -> str:
    """The whole comparison, as text for people, as Markdown, or as JSON. Markdown lists only what is worse.

    limit, hint  as of `_Page`
    """
    if output.form == "json":
        import json

        from etq.render.writers import json_objects

        parts_with_rows = [part for part in VIEWS if part != "modules" or comparison.has_modules()]
        named = VIEWS if _is_of_devices(comparison) else [part for part in VIEWS if part != "efficiency"]
        answers = {part: json_objects(*_rows(comparison, part)) if part in parts_with_rows else [] for part in named}
        return json.dumps(answers, indent=1, ensure_ascii=False, default=str) + "\n"
    is_comment = output.form == "markdown"  # the first line is shown alone in lists and notifications
    style = output.style
    page = _Page(is_comment, style, limit, hint)
    findings = comparison.rows("findings")[1]
    parts = _across_devices(comparison, page)
    top = headline(comparison.lines(is_total_first=is_comment), is_comment, style)
    parts.insert(0 if is_comment else len(parts), top)
    if is_comment and (worse := find_worse(comparison).worse):
        parts.append(regressions(comparison, worse))
    if findings:
        texts = (wrapped(("- " if is_comment else "") + page.remark(*finding), style) for finding in findings)
        parts.append("\n".join(style.styled(text, "yellow") for text in texts) + "\n")
    cells: set[str] = set()
    for part, title in TITLES.items():
        if part == "modules":
            parts += _changed_calls(comparison, page)
        if part == "modules" and not comparison.has_modules():
            continue
        view = catalog.named(VIEWS[part])
        if part == "captures":  # their notes are in the lines above
            view = view.without(("note",))
        columns, rows = _rows(comparison, part, view.to_read, limit if part in ("modules", "ops") else None)
        if rows and (part not in ONLY_CHANGED or any(row[columns.index("verdict")] in CHANGED for row in rows)):
            meaning = "".join(f"\n{wrapped(text, style)}\n" for text in _meanings(comparison, part))
            drawn = page.table(columns, rows, view) + (meaning if is_comment else meaning[1:])
            parts.append(page.heading(title) + drawn)
            cells.update(cell for row in rows for cell in row if isinstance(cell, str))
    meant = [f"{word}: {text}" for word, text in words.MEANING.items() if word in cells]
    if meant and style.width is not None:
        parts.append(style.styled(wrapped("\n".join(meant), style), "dim") + "\n")
    return "\n".join(parts)


def regressions(comparison: Comparison, worse: Sequence[str]) -> str:
    """What is worse as a list in Markdown, with its heading, and the instances of an op below it."""
    from etq.render.markdown import inline

    below = {each.text: each.instances for each in comparison.causes() if len(each.instances) > 1}
    lines = ["### Regressions\n\n"]
    for what in worse:
        lines.append(f"- {inline(what)}\n")
        lines += [f"  - {inline(f'{name} {change:+.1f} %')}\n" for name, change in below.get(what, ())]
    return "".join(lines)


def _rows(comparison: Comparison, part: str, columns: str = "*", limit: int | None = None) -> tuple[list[str], Rows]:
    """The rows of a part; start-up gets its share of the probability of a false verdict."""
    return comparison.rows(part, columns, limit, **(comparison.shared if part == "startup" else {}))


def _meanings(comparison: Comparison, part: str) -> list[str]:
    """A line that explains the numbers of a part if the change isn't new divided by base; otherwise none."""
    columns = "what, change_percent, greatest(base_captures, new_captures)"
    rows = comparison.rows("captures", columns)[1]
    if part == "captures":
        runs = "steps" if comparison.is_of_traces() else "runs"
        which = "the" if comparison.is_by_step() else "all"
        texts = [f"times: {comparison.statistic()}of {which} {runs} of a capture"]
        if comparison.is_of_traces():
            texts[0] += ", from their start to their end on the host; on devices, of what they launched"
        if any(what == "total" and captures > 1 for what, _, captures in rows):
            texts.append(f"change of the total: by the geometric mean of each side's {comparison.sample}s")
        return ["; ".join(texts)] if texts else []
    shifts = ", ".join(f"{change:+.2f} %" for what, change, _ in rows if what == "common shift")
    if part in ("modules", "ops") and shifts:
        return [f"own change: without the common shift of all ops ({shifts}); difference includes it"]
    return []


def _is_of_devices(comparison: Comparison) -> bool:
    """Whether each side is one trace, and their devices differ."""
    return comparison.devices is not None and comparison.has_one_trace_per_side()


def _across_devices(comparison: Comparison, page: _Page) -> list[str]:
    """For different devices, a note that says so, and the differences by op; nothing for equal devices."""
    if comparison.devices is None:
        return []
    note = words.other_devices(*comparison.devices, has_verdicts=comparison.has_verdicts)
    parts = [page.style.styled(page.remark("different devices", note), "yellow") + "\n"]
    if not _is_of_devices(comparison):
        return parts
    view = catalog.named(VIEWS["efficiency"])
    # Names of kernels are too long to fit beside the numbers.
    kernels = [column.name for column in view.shown if column.name.endswith("_kernel")]
    numbers = [column.name for column in view.shown[2:] if column.name not in kernels]
    titles = {
        "What differs by op, per step and call, the longest difference first": kernels,
        "Kernels with most time in these": numbers,
    }
    for title, others in titles.items():
        columns, rows = comparison.rows("efficiency", view.without(others).to_read, page.limit)
        if rows:
            parts.append(page.heading(title, "bold") + page.table(columns, rows, view))
    return parts


def _changed_calls(comparison: Comparison, page: _Page) -> list[str]:
    """Numbers of calls that differ between traces; nothing if none differ. They are certain even if times aren't."""
    if not comparison.is_of_traces():
        return []
    view = catalog.named(VIEWS["calls"])
    columns, rows = comparison.rows("calls", view.to_read)
    if not rows:
        return []
    counts = Counter(row[columns.index("change")] for row in rows)
    title = f"Calls per step, counted: {', '.join(f'{counts[change]} {change}' for change in counts)}"
    shown = page.table(columns, rows[: page.limit], view)
    more = f"and {len(rows) - page.limit} more: --what calls\n" if len(rows) > page.limit else ""
    return [page.heading(title, "bold") + shown + more]


def headline(lines: Iterable[tuple[str, str | None]], is_markdown: bool, style: TerminalStyle) -> str:
    """Sentences of a comparison, each with its verdict, as text for people or as Markdown."""
    if is_markdown:
        from etq.render.markdown import inline

        return "".join(f"**{inline(line)}**\n\n" for line, _ in lines)
    return "".join(
        style.styled(wrapped(printable(line), style), "bold", *filter(None, [VERDICT_STYLES.get(verdict or "")])) + "\n"
        for line, verdict in lines
    )


def _print_findings(comparison: Comparison) -> None:
    for rule, detail in comparison.rows("findings")[1]:
        say(f"Note: {rule}: {detail}")


class Worse(NamedTuple):
    """The names of items that are worse, unstable, unclear (unstable ones included), and not decided."""

    worse: Sequence[str] = ()
    unstable: Sequence[str] = ()
    unclear: Sequence[str] = ()
    open: Sequence[str] = ()


def find_worse_startup(comparison: Comparison) -> Worse:
    """Loading and first executes that are worse."""
    results = comparison.verdicts("startup", "what || coalesce(' of ' || method, '')")
    return _found(results)


def find_worse(
    comparison: Comparison, of_ops: bool = True, metrics: tuple[str, ...] = (), of_once: bool = True
) -> Worse:
    """The metrics that are worse; if no metrics are given, those of the total, its slow runs, ops, loading and memory
    that are worse.
    """
    if metrics:
        found = comparison.rows("metrics", "name, verdict, better")[1]
        verdicts_by_name = {name: verdict for name, verdict, _ in found}
        for name in metrics:
            if name not in verdicts_by_name:
                raise EtqError(
                    f"no metric {name} on either side; there are {', '.join(sorted(verdicts_by_name)) or 'none'}"
                )
            if all(better is None for other, _, better in found if other == name):
                raise EtqError(
                    f"it is unknown which direction of the metric {name} is better, so it can't be judged; "
                    f"etq label CAPTURE --metric {name}=VALUE --better higher (or lower) says so"
                )
        results = [(name, verdicts_by_name[name]) for name in metrics]
        slower = set()
    else:
        columns = "what, 'total of ' || method, verdict, low_percent"
        totals = [row[1:] for row in comparison.rows("captures", columns)[1] if row[0] == "total"]
        results = [(what, verdict) for what, verdict, _ in totals]
        # The verdict is not decided although the interval is above 0.
        slower = {what for what, _, low in totals if low is not None and low > 0}
        results += [(f"slow runs of {method}", verdict) for method, verdict, _ in comparison.slow_tails()]
        if of_ops and not comparison.has_few_common_ops():
            results += [
                (each.instances[0][0] if len(each.instances) == 1 else each.text, each.verdict)
                for each in comparison.causes()
                if each.verdict in (words.SLOWER, words.POSSIBLY + words.SLOWER)
            ]
            results += [(f"slow runs of {op}", words.SLOWER) for op, _ in comparison.slow_op_tails()]
        once = comparison.once() if of_once else []
        results += [(name, verdict) for _, name, verdict, *_ in once if verdict in words.ARE_WORSE]
    return _found(results, slower)


def _found(results: Sequence[tuple[str, str]], slower: Collection[str] = ()) -> Worse:
    """Sort results by name; an open verdict is unclear if the item is in `slower`."""
    is_unclear = {
        what for what, verdict in results if verdict in words.UNCLEAR or (verdict == words.OPEN and what in slower)
    }
    return Worse(
        [what for what, verdict in results if verdict in words.ARE_WORSE],
        [what for what, verdict in results if verdict == words.UNSTABLE],
        [f"{what}: {words.SHOWN.get(verdict, verdict)}" for what, verdict in results if what in is_unclear],
        [f"{what}: {verdict}" for what, verdict in results if verdict == words.OPEN and what not in is_unclear],
    )


def report_worse(found: Worse) -> None:
    """Print what is worse, and what is unclear."""
    for what in found.worse:
        say(f"Regression: {what}", bold=True)
    for text in (*found.unclear, *found.open):
        say(f"Unclear: {text}")
