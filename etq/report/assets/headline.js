// The key figures, and the properties of the capture.

etq.section("headline", (parent, tables, facts) => {
  const { numbers, capture, labels, findings, coverage } = tables;
  const names = numbers?.list("number") ?? [];
  const cards = [
    ...names.map((name, row) => card(numbers, row, names.filter((other) => other === name).length > 1, facts)),
    ...(coverage ? coveredCard(coverage) : []),
    ...(tables.steps?.rows() ?? []).map((row) => stepCard(tables.steps, row)),
    ...(tables.efficiency?.rows() ?? []).map((row) => efficiencyCard(tables.efficiency, row)),
    ...(tables.idle?.rows() ?? []).map((row) => idleCard(tables.idle, row)),
  ];
  parent.append(cards.length ? etq.cards(cards) : etq.element("p", {
    class: "muted",
    text: facts.is_trace
      ? "A trace of PyTorch's profiler: its ops and calls are below."
      : "Nothing was executed in this capture, so it has no execute, load or framework tax.",
  }));
  const pair = etq.element("div", { class: "pair" });
  parent.append(pair);
  parent.append(described(capture, labels));
  if (findings.length) {
    parent.append(etq.element("h3", { text: "Findings about the file" }));
    parent.append(etq.findings(findings));
  }
  // The longest ops and device events are next to each other, above the facts from the file.
  return { parent: (name) => (name.startsWith("top_") ? pair : null) };
});

const NAMES = { "first run excess": "first run, on top" };
const MEANINGS = {
  execute: "Method::execute, median of typical runs",
  load: "Program::load_method",
  "first run excess": "time by which the first run is longer than the median of the others",
  "framework tax": "part of execute outside of kernels and delegates, median of typical runs",
  "delegated time": "part of execute within delegates, median of typical runs",
};

function card(numbers, row, hasParts, facts) {
  const [name, unit, part] = ["number", "unit", "part"].map((column) => numbers.get(row, column));
  const [low, high, runs] = ["low", "high", "runs"].map((column) => numbers.get(row, column));
  const show = (value) => (unit === "percent" ? etq.percent(value) : etq.quantity(value, unit));
  const notes = [];
  if (runs > 1) notes.push(`median of ${etq.number(runs)} ${name === "load" ? "loads" : facts.runs === "all" ? "runs" : "typical runs"}`);
  if (runs > 1 && numbers.get(row, "mean") !== null) notes.push(`mean ${show(numbers.get(row, "mean"))}`);
  if (low !== null && runs > 2 && low < high) notes.push(`p10–p90 ${bare(low, unit)}–${show(high)}`);
  if (numbers.get(row, "note")) notes.push(numbers.get(row, "note"));
  const title = (NAMES[name] ?? name) + (hasParts && part ? ` · ${part}` : "");
  return etq.card(title, show(numbers.get(row, "value")), notes.join(" · "), { meaning: MEANINGS[name], name });
}

function bare(value, unit) {
  return unit === "percent" ? etq.percent(value).replace("\u00a0%", "") : etq.digits(value);
}

// How many nodes delegates run, and how many they don't.
const covered = (rows) => ["delegated", "not_delegated"].map((name) => rows.list(name).reduce((all, each) => all + (each ?? 0), 0));

function coveredCard(coverage) {
  const [taken, left] = covered(coverage);
  if (taken + left === 0) return [];
  const text = `${etq.number(taken)} of ${etq.number(taken + left)}`;
  return [etq.card("ops in delegates", text, "nodes of the program's graph", { meaning: "Nodes that delegates run, of all", name: "delegate coverage" })];
}

etq.section("coverage", (parent, { delegate_coverage: rows }) => {
  if (!rows) return;
  const [taken, left] = covered(rows);
  const bar = etq.element("div", { class: "split", role: "img", "aria-label": `${taken} nodes in delegates, ${left} not` });
  for (const [count, name, text] of [[taken, "delegate", "in delegates"], [left, "kernel", "not in delegates"]]) {
    if (!count) continue;
    const part = etq.element("span", { text: `${etq.number(count)} ${text}` });
    Object.assign(part.style, { flexGrow: count, background: `var(--${name})`, color: "var(--on-span)" });
    bar.append(part);
  }
  parent.append(bar);
});

// Parts of the average step of a trace.
function stepCard(steps, row) {
  const get = (name) => steps.get(row, name);
  const count = `${etq.number(get("steps"))} ${get("steps") === 1 ? "step" : "steps"}`;
  const note = get("category") === "Step" ? `mean of ${count}` : `${etq.percent(get("share_percent"))} of a step`;
  const onDevices = steps.list("category").includes("Kernel");
  const titles = { Step: "average step", Communication: onDevices ? "exposed communication" : "communication of the host" };
  return etq.card(titles[get("category")] ?? get("category"), etq.quantity(get("time"), get("unit")), note, { meaning: "Time of the average step", name: get("category") });
}

function efficiencyCard(efficiency, row) {
  const get = (name) => efficiency.get(row, name);
  const isKnown = get("mfu_percent") !== null;
  const value = isKnown ? `${get("is_least") ? "\u2265\u00a0" : ""}${etq.percent(get("mfu_percent"))}` : "unknown";
  const known = `costs are known of ${etq.percent(get("known_percent"))} of devices' time`;
  const note = isKnown ? [`of the peak of ${get("device")}`, known, get("is_least") ? get("reason") : null, get("assumed") ? `assumed: ${get("assumed")}` : null].filter(Boolean).join(" · ") : get("reason");
  return etq.card("MFU", value, note, { meaning: "Model FLOPs utilization: the time that the operations of steps take at the device's peak, in percent of the steps", name: "mfu" });
}

// How long a device was idle, and the main cause; the section of idle devices has details.
function idleCard(idle, row) {
  const get = (name) => idle.get(row, name);
  const cause = get("cause") === null ? "" : ` · ${etq.percent(get("share_percent"))} ${get("cause").replaceAll("_", " ")}`;
  const note = `${etq.quantity(get("idle"), get("unit"))}${cause}`;
  const title = get("device") === null ? "device idle" : `device ${get("device")} idle`;
  return etq.card(title, etq.percent(get("idle_percent")), note, { meaning: "Part of the time from the device's first event to its last in which it ran nothing", name: "idle" });
}

function described(capture, labels) {
  const get = (name) => capture.get(0, name);
  return etq.facts([
    ["format", get("format")],
    ["runs", etq.number(get("runs"))],
    ["events", etq.number(get("events"))],
    ["profiling level", get("profiling_level")],
    ["clock", get("time_scale") === null ? null : `1 tick = 1 ${get("time_scale")}`],
    ["captured", get("captured_at") === null ? "time unknown" : `${get("captured_at")} UTC`],
    ["file", `${get("uri") ?? "bytes"} (${etq.bytes(get("size_bytes"))})`],
    ["sha256", get("sha256")],
    ...labels.rows().map((row) => [labels.get(row, "key"), labels.get(row, "value")]),
  ]);
}
