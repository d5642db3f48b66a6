// The key figures, and the properties of the capture.

etq.section("headline", (parent, tables, facts) => {
  const cards = etq.element("div", { class: "cards" });
  const { numbers, capture, labels, metrics, findings, coverage } = tables;
  const names = numbers?.list("number") ?? [];
  for (const row of names.keys()) cards.append(card(numbers, row, names.filter((name) => name === names[row]).length > 1, facts));
  if (coverage) coveredCard(cards, coverage);
  if (tables.steps) for (const row of tables.steps.rows()) cards.append(stepCard(tables.steps, row));
  if (tables.idle) for (const row of tables.idle.rows()) cards.append(idleCard(tables.idle, row));
  if (!cards.children.length) {
    cards.append(
      etq.element("p", {
        class: "muted whole",
        text: facts.is_trace
          ? "A trace of PyTorch's profiler: its ops and calls are below."
          : "Nothing was executed in this capture, so it has no execute, load or framework tax.",
      }),
    );
  }
  parent.append(cards);
  if (tables.top_ops || tables.top_kernels) parent.append(topTables(tables));
  parent.append(described(capture, labels));
  if (tables.devices?.length) {
    parent.append(etq.element("h3", { text: "Devices" }));
    const percent = (name, title) => ({ name, title, numeric: true, as: etq.percent });
    etq.table(parent, tables.devices, [
      { name: "device" },
      { name: "kernels", numeric: true },
      percent("utilization_percent", "time with a kernel"),
      percent("sm_efficiency_percent", "SM efficiency"),
      percent("occupancy_percent", "occupancy"),
      percent("tensor_cores_percent", "tensor cores"),
    ], { name: "devices" });
  }
  if (metrics.length) {
    parent.append(etq.element("h3", { text: "Metrics" }));
    etq.table(parent, metrics, [
      { name: "name", title: "metric" },
      { name: "value", numeric: true },
      { name: "unit" },
      { name: "run_index", title: "run", numeric: true },
      { name: "meaning" },
    ], { name: "metrics" });
  }
  if (findings.length) {
    parent.append(etq.element("h3", { text: "Findings about the file" }));
    parent.append(
      etq.element("ul", { class: "findings" }, ...findings.rows().map((row) =>
        etq.element("li", {}, etq.element("strong", { text: findings.get(row, "rule") }), etq.element("span", { text: `: ${findings.get(row, "detail")}` })),
      )),
    );
  }
});

// The ops and the device events that take most time, next to each other.
function topTables({ top_ops: ops, top_kernels: kernels }) {
  const pair = etq.element("div", { class: "pair" });
  // Times are those of a step, or of the whole trace if it has no steps.
  const column = (rows, whole, inStep, title, isFirst) => {
    const name = rows.list(inStep).some((time) => time !== null) ? inStep : whole;
    const most = Math.max(...rows.list(name));
    return { name, title: name === inStep ? `${title} per step` : title, unit: rows.get(0, "unit"), numeric: true, ...(isFirst ? { share: true, full: most } : {}) };
  };
  const box = (title, rows, columns, name) => {
    const made = etq.element("div", {}, etq.element("h3", { text: title }));
    pair.append(made);
    etq.table(made, rows, columns, { name, search: false });
  };
  const calls = { name: "calls", numeric: true };
  if (ops) {
    const host = column(ops, "self_cpu_time", "self_cpu_per_step", kernels ? "self, host" : "self", !kernels);
    const columns = kernels ? [column(ops, "self_device_time", "self_device_per_step", "self, device", true), host] : [host];
    box(kernels ? "Top ops, by device time" : "Top ops, by host time", ops, [{ name: "name", title: "op", as: etq.clamped }, ...columns, calls], "top_ops");
  }
  if (kernels) box("Top kernels and copies", kernels, [{ name: "event", title: "kernel or copy", as: etq.clamped }, column(kernels, "total", "per_step", "time", true), calls], "top_kernels");
  return pair;
}

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
  return made(title, show(numbers.get(row, "value")), notes.join(" · "), MEANINGS[name], name);
}

function bare(value, unit) {
  return unit === "percent" ? etq.percent(value).replace("\u00a0%", "") : etq.digits(value);
}

function coveredCard(cards, coverage) {
  const [taken, left] = [coverage.get(0, "delegated"), coverage.get(0, "not_delegated")];
  if (taken === null || taken + left === 0) return;
  const text = `${etq.number(taken)} of ${etq.number(taken + left)}`;
  cards.append(made("ops in delegates", text, "nodes of the program's graph", "Nodes that delegates run, of all", "delegate coverage"));
}

// Parts of the average step of a trace.
function stepCard(steps, row) {
  const get = (name) => steps.get(row, name);
  const count = `${etq.number(get("steps"))} ${get("steps") === 1 ? "step" : "steps"}`;
  const note = get("category") === "Step" ? `mean of ${count}` : `${etq.percent(get("share_percent"))} of a step`;
  const onDevices = steps.list("category").includes("Kernel");
  const titles = { Step: "average step", Communication: onDevices ? "exposed communication" : "communication of the host" };
  return made(titles[get("category")] ?? get("category"), etq.quantity(get("time"), get("unit")), note, "Time of the average step", get("category"));
}

// How long a device was idle, and mostly why: the section of idle devices has more.
function idleCard(idle, row) {
  const get = (name) => idle.get(row, name);
  const cause = get("cause") === null ? "" : ` · ${etq.percent(get("share_percent"))} of it ${get("cause").replaceAll("_", " ")}`;
  const note = `${etq.quantity(get("idle"), get("unit"))}${cause}`;
  return made(get("device") === null ? "device idle" : `device ${get("device")} idle`, etq.percent(get("idle_percent")), note, "Part of the time from the device's first event to its last in which it ran nothing", "idle");
}

function made(title, value, note, meaning, name) {
  return etq.element(
    "div",
    { class: "card", title: meaning, "data-number": name },
    etq.element("div", { class: "name", text: title }),
    etq.element("div", { class: "value", text: value }),
    etq.element("div", { class: "muted", text: note }),
  );
}

function described(capture, labels) {
  const get = (name) => capture.get(0, name);
  const list = etq.element("dl", { class: "facts" });
  const add = (name, value) => {
    if (value === null || value === "") return;
    list.append(etq.element("div", {}, etq.element("dt", { text: etq.short(name) }), etq.element("dd", { text: etq.short(value) })));
  };
  add("format", get("format"));
  add("runs", etq.number(get("runs")));
  add("events", etq.number(get("events")));
  add("profiling level", get("profiling_level"));
  add("clock", get("time_scale") === null ? null : `1 tick = 1 ${get("time_scale")}`);
  add("captured", get("captured_at") === null ? "time unknown" : `${get("captured_at")} UTC`);
  add("file", `${get("uri") ?? "bytes"} (${etq.bytes(get("size_bytes"))})`);
  add("sha256", get("sha256"));
  for (const row of labels.rows()) add(labels.get(row, "key"), labels.get(row, "value"));
  return list;
}
