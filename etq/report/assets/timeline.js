// The timeline of a run: each event at its time, below its parent.

etq.section("timeline", (parent, tables) => {
  const { runs, events, signatures } = tables;
  const unit = runs.get(0, "unit") ?? "us";
  const starts = events.list("start");
  const lengths = events.list("duration");
  const ranges = rangesOf(events.list("run_index"));
  const begins = events.list("run_start");
  const placed = starts.map((start, id) => start + begins[id]);
  const place = new Map(signatures.list("signature_index").map((index, row) => [index, row]));
  const kinds = signatures.rows().map((row) => colourOf((name) => signatures.get(row, name)));
  const names = signatures.list("label");
  const texts = signatures.rows().map((row) => textOf(signatures, row));
  const signature = events.list("signature_index").map((index) => place.get(index));

  const chosen = etq.element("div", { class: "detail", "aria-live": "polite" });
  const top = etq.element("div");
  parent.append(top);
  const spans = new etq.Spans(parent, {
    title: "Timeline of runs",
    unit,
    colour: (id) => kinds[signature[id]],
    label: (id) => names[signature[id]],
    describe: (id) => described(tables, id, signature[id], unit),
    choose: (id) => chosen.replaceChildren(...(id < 0 ? [] : etq.details(names[signature[id]], described(tables, id, signature[id], unit)))),
  });
  etq.timeline = spans;
  parent.append(chosen);

  const select = etq.element("select", { "aria-label": "Run" });
  const isTrace = signatures.has("category");
  // Runs one after the other, if the start of each is known.
  const hasAll = ranges.size > 1 && !begins.includes(null);
  if (hasAll) select.append(etq.element("option", { value: ALL, text: `all ${etq.number(ranges.size)} ${isTrace ? "steps" : "runs"}` }));
  for (const row of runs.rows()) {
    const run = runs.get(row, "run_index");
    if (ranges.has(run)) select.append(etq.element("option", { value: run, text: nameOf(runs, row) }));
  }
  const summarize = (ids) => {
    const sum = ids.reduce((all, id) => all + (events.get(id, "self_time") ?? 0), 0);
    return `${etq.number(ids.length)} events, ${etq.quantity(sum, unit)} of their own`;
  };
  const tools = etq.spanTools(top, spans, (id) => texts[signature[id]], summarize, select);
  const isAll = (run) => run === ALL && hasAll;
  etq.showRun = (run) => {
    if (!ranges.has(run) && !isAll(run)) return false;
    select.value = run;
    chosen.replaceChildren();
    show(spans, events, isAll(run) ? [0, events.length] : ranges.get(run), isAll(run) ? placed : starts, lengths);
    tools.search();
    return true;
  };
  select.addEventListener("change", () => etq.showRun(Number(select.value)));
  const usual = hasAll && isTrace ? ALL : firstShown(runs, ranges);
  if (usual !== null) etq.showRun(usual);
  const used = new Set(kinds);
  const legend = isTrace ? LEGEND_OF_TRACES : LEGEND;
  etq.legend(parent, Object.entries(legend).filter(([colour]) => used.has(colour)));
  parent.append(etq.element("p", { class: "muted hint", text: "Drag to move; Ctrl or ⌘ and the wheel, + and − zoom; double-click shows all; a click keeps the details." }));
});

// The value of the menu entry that shows all runs.
const ALL = -1;
const LEGEND = {
  kernel: "kernels",
  delegate: "within delegates",
  call: "calls of ops and delegates",
  framework: "framework",
  control: "control flow, users' and other events",
};
const LEGEND_OF_TRACES = {
  kernel: "ops",
  delegate: "on devices",
  call: "runtime calls",
  python: "Python",
  control: "annotations and others",
};
// The colours of a dump's kinds of events and of a trace's activities; "control" for others.
const KINDS = { kernel: "kernel", delegate: "delegate", operator_call: "call", delegate_call: "call", framework: "framework" };
const ACTIVITIES = {
  op: "kernel",
  kernel: "delegate",
  copy: "delegate",
  fill: "delegate",
  call: "call",
  python: "python",
  python_function: "python",
  module: "python",
};

function colourOf(get) {
  return (get("category") === null ? KINDS[get("kind")] : ACTIVITIES[get("activity")]) ?? "control";
}

function textOf(signatures, row) {
  return ["label", "family", "kind", "op_types", "module_path", "source_file", "backend"]
    .map((name) => signatures.get(row, name) ?? "")
    .join("\n")
    .toLowerCase();
}

// The rows of each run; runs follow each other in time.
function rangesOf(runs) {
  const ranges = new Map();
  runs.forEach((run, row) => {
    if (!ranges.has(run)) ranges.set(run, [row, row]);
    ranges.get(run)[1] = row + 1;
  });
  return ranges;
}

// The run that is shown at first: the run nearest to the median in the block with the most time; otherwise the first
// run with events.
function firstShown(runs, ranges) {
  const there = runs.rows().filter((row) => ranges.has(runs.get(row, "run_index")));
  const timed = there.filter((row) => runs.get(row, "execute") !== null && !runs.get(row, "is_warm_up"));
  const times = timed.map((row) => [runs.get(row, "execute"), row]).sort((one, other) => one[0] - other[0]);
  const row = times.length ? times[times.length >> 1][1] : there.sort((one, other) => runs.get(other, "events") - runs.get(one, "events"))[0];
  return row === undefined ? null : runs.get(row, "run_index");
}

function nameOf(runs, row) {
  const parts = [`run ${runs.get(row, "run_index")}`, runs.get(row, "method") ?? runs.get(row, "name")];
  const time = runs.get(row, "execute");
  parts.push(time === null ? `${etq.number(runs.get(row, "events"))} events` : etq.quantity(time, runs.get(row, "unit")));
  if (runs.get(row, "is_warm_up")) parts.push("warm-up");
  if (runs.get(row, "is_outlier")) parts.push("outlier");
  return parts.join(" · ");
}

// Lanes one below the other; overlapping events of a lane go to lower rows.
function show(spans, events, [first, last], starts, lengths) {
  const lanes = new Map();
  for (let row = first; row < last; row += 1) {
    const lane = events.get(row, "lane");
    if (!lanes.has(lane)) lanes.set(lane, []);
    lanes.get(lane).push(row);
  }
  const rows = [];
  let [from, to] = [Infinity, -Infinity];
  for (const [lane, ids] of lanes) {
    const depths = new Map(ids.map((id) => [id, events.get(id, "depth")]));
    ids.sort((one, other) => starts[one] - starts[other] || depths.get(one) - depths.get(other));
    for (const id of ids) {
      from = Math.min(from, starts[id]);
      to = Math.max(to, starts[id] + lengths[id]);
    }
    if (lanes.size > 1) rows.push({ heading: lane, ids: [], starts: [], ends: [] });
    const made = etq.spanRows(ids.length, (at) => starts[ids[at]], (at) => starts[ids[at]] + lengths[ids[at]], (at) => depths.get(ids[at]));
    for (const row of made) rows.push({ ...row, ids: row.ids.map((at) => ids[at]) });
  }
  spans.show(rows, [from, to]);
}

function described({ events, signatures }, id, row, unit) {
  const get = (name) => signatures.get(row, name);
  const line = get("source_line") === null ? "" : `:${get("source_line")}`;
  const lines = get("lines") > 1 ? `${get("lines")} lines` : null;
  const unlike = events.get(id, "value_unit") !== unit;
  return [
    ["start", etq.quantity(events.get(id, "start"), unit)],
    ["time", unlike ? "" : etq.quantity(events.get(id, "value"), unit)],
    ["logged", unlike ? etq.quantity(events.get(id, "value"), events.get(id, "value_unit")) : ""],
    ["self time", etq.quantity(events.get(id, "self_time"), events.get(id, "value_unit"))],
    ["place", events.get(id, "is_estimated") ? "estimated: it is on a clock of its own" : ""],
    ["kind", get("category") ?? get("kind")],
    ["op", get("op_type") ?? get("op_types")],
    ["shape", get("output_shape") ?? events.get(id, "shapes")],
    ["module", get("module_path")],
    ["source", get("source_file") === null ? lines : get("source_file") + line],
    ["instruction", get("instruction_id") === null ? "" : String(get("instruction_id"))],
    ["backend", get("backend")],
    ["mapping", { aligned: "aligned by order", call: "module of the call" }[get("mapping")] ?? ""],
  ];
}
