// Sections that are a table: the columns of each, with titles and units.

const share = (name = "share_percent") => ({ name, title: "share", numeric: true, share: true, as: etq.percent });
const times = (unit, ...names) => names.map(([name, title, meaning]) => ({ name, title: title ?? name, unit, numeric: true, meaning }));
// The method, where rows are of several.
const methodOf = (rows) => (new Set(rows.list("method")).size > 1 ? [{ name: "method" }] : []);
etq.methodOf = methodOf;
// Whether rows of a trace have times per step.
const hasSteps = (rows) => rows.list("steps").some((steps) => steps);
const unitOf = (rows) => rows.list("unit").find((unit) => unit !== null) ?? null;

etq.section("ops", (parent, { rows, instances }) => {
  const columns = (table, ...more) => [
    { name: "op" },
    ...methodOf(table),
    ...more,
    ...times(unitOf(table), ["per_execute", "mean per execute", "self time in an execute"], ["per_call", "per call"]),
    share(),
    { name: "calls", numeric: true },
    ...times(unitOf(table), ["min"], ["max"], ["total", "all executes", "self time over the runs"]),
    { name: "kind" },
  ];
  etq.table(parent, rows, columns(rows), { sort: ["total"], name: "ops" });
  parent.append(etq.element("h3", { text: "Op by op" }));
  const instruction = { name: "instruction_id", title: "instruction", numeric: true };
  etq.table(parent, instances, columns(instances, instruction), { sort: ["total"], name: "instances" });
});

etq.section("calls", (parent, { rows }) => {
  const unit = unitOf(rows);
  const onDevice = rows.list("self_device_time").some((time) => time > 0);
  const isPerStep = hasSteps(rows);
  const [self, all, selfDevice, allDevice] = isPerStep
    ? ["self_cpu_per_step", "cpu_per_step", "self_device_per_step", "device_per_step"]
    : ["self_cpu_time", "cpu_time_total", "self_device_time", "device_time_total"];
  const per = isPerStep ? " per step" : "";
  const device = onDevice
    ? times(unit, [selfDevice, `self, device${per}`], [allDevice, `total, device${per}`], ...outside(rows, "device_outside_steps", "device, outside steps"))
    : [];
  etq.table(parent, rows, [
    { name: "name" },
    ...device,
    ...times(unit, [self, `self, host${per}`, "the sum over all threads"]),
    share("self_cpu_percent"),
    { name: "shapes", class: "code" },
    { name: "calls", numeric: true },
    ...times(unit, [all, `total, host${per}`], ["cpu_time_avg", "total, host per call"], ...outside(rows, "cpu_outside_steps", "self, host outside steps")),
    { name: "self_cpu_memory", title: "self memory", numeric: true, as: etq.bytes },
  ], { sort: [onDevice ? selfDevice : self], name: "calls" });
});

const tensorCores = {
  name: "tensor_cores_used", title: "tensor cores", meaning: "whether it uses tensor cores, or matrix cores of AMD, by its name",
  as: (used) => (used === null ? "unknown" : used ? "yes" : "no"),
};

const familyColumn = { name: "family", always: true, as: (family) => family ?? "unknown" };

const inAStep = (rows) => times(unitOf(rows), ...(hasSteps(rows) ? [["per_step", "per step", IN_STEPS]] : []), ["total", "all calls"], ...outside(rows, "outside_steps"));
const IN_STEPS = "mean over the steps, of what they launched";
// The columns of time outside of steps, if there is any.
const outside = (rows, name, title = "outside steps") => (rows.list(name).some((time) => time > 0) ? [[name, title, "launched or begun outside of steps, or without a launch in the trace"]] : []);

etq.section("kernels", (parent, { rows, copies, families, chains, tensor_cores: ops }) => {
  if (families) {
    etq.table(parent, families, [
      familyColumn,
      ...inAStep(families),
      share(),
      { name: "calls", numeric: true },
      { name: "tensor_percent", title: "on tensor cores", numeric: true, as: etq.percent },
      { name: "top_event", title: "most time in", as: etq.clamped },
    ], { sort: ["total"], name: "families", search: false });
  }
  if (chains) drawChains(parent, chains);
  if (rows) {
    parent.append(etq.element("h3", { text: "Kernels" }));
    etq.table(parent, rows, [
      { name: "kernel", as: etq.clamped },
      familyColumn,
      ...inAStep(rows),
      ...times(unitOf(rows), ["per_call", "per call"]),
      { name: "calls", numeric: true },
      ...times(unitOf(rows), ["min"], ["max"]),
      ...(rows.list("tensor_cores_used").some((used) => used !== false) ? [tensorCores] : []),
      { name: "blocks_per_sm", title: "blocks per SM", numeric: true },
      { name: "occupancy_percent", title: "occupancy", numeric: true, as: etq.percent },
    ], { sort: ["total"], name: "kernels" });
  }
  if (ops) drawTensorCores(parent, ops);
  if (!copies) return;
  parent.append(etq.element("h3", { text: "Copies and fills" }));
  etq.table(parent, copies, [
    { name: "event", as: etq.clamped },
    ...times(unitOf(copies), ["total"]),
    { name: "calls", numeric: true },
    ...times(unitOf(copies), ["per_call", "per call"], ["min"], ["max"]),
  ], { sort: ["total"], name: "copies", search: false });
});

// Chains of ops whose kernels torch.compile would fuse.
function drawChains(parent, chains) {
  parent.append(etq.element("h3", { text: "Chains of ops that torch.compile would fuse" }));
  etq.table(parent, chains, [
    { name: "sequence", title: "ops", class: "wrapped", as: etq.clamped },
    ...times(unitOf(chains), ["saves_at_most", "saves at most", "the time of the chain's kernels, less the longest"]),
    share(),
    ...times(unitOf(chains), ["total"]),
    { name: "kernels", numeric: true, meaning: "kernels of one chain" },
    { name: "calls", numeric: true },
  ], { sort: ["saves_at_most"], name: "chains" });
}

// Which ops use tensor cores, and which could: by the names of their kernels, and their own.
function drawTensorCores(parent, ops) {
  const unit = unitOf(ops);
  parent.append(etq.element("h3", { text: "Ops that tensor cores could run" }));
  etq.table(parent, ops, [
    { name: "op", always: true, as: (op) => op ?? "(no op)" },
    ...times(unit, ["kernel_time", "kernels"], ["tensor_time", "with tensor cores"]),
    share("tensor_percent"),
    ...times(unit, ["missed_time", "without"], ["unknown_time", "unknown", "kernels of unknown names"]),
  ], { sort: ["missed_time"], name: "tensor_cores" });
}

etq.section("modules", (parent, { rows }) => {
  const unit = unitOf(rows);
  etq.table(parent, rows, [
    ...methodOf(rows),
    { name: "module_path", title: "module", always: true, as: (value) => value || "(the model)" },
    ...times(unit, ["per_execute", "mean per execute", "with modules within"]),
    share(),
    ...times(unit, ["self_per_execute", "self, per execute"]),
    { name: "calls", numeric: true },
    { name: "module_class", title: "class" },
    { name: "mapping" },
    ...times(unit, ["total", "all executes", "with modules within"]),
  ], { sort: ["total"], name: "modules" });
});

etq.section("module_calls", (parent, { rows }) => {
  const unit = unitOf(rows);
  etq.table(parent, rows, [
    { name: "module_path", title: "module" },
    ...(hasSteps(rows)
      ? times(unit, ["host_per_step", "total, host per step"], ["host_self_per_step", "self, host per step"], ["device_per_step", "total, device per step"], ["device_self_per_step", "self, device per step"])
      : times(unit, ["host_total_time", "total, host"], ["host_self_time", "self, host"], ["device_total_time", "total, device"], ["device_self_time", "self, device"])),
    ...times(unit, ["per_call", "per call"]),
    { name: "calls", numeric: true },
    { name: "operators", title: "ops", numeric: true },
  ], { sort: ["host_total_time"], name: "module_calls" });
});

// Rows of a view as `view_section` describes them. Numbers with a fraction are in the rows' unit, but for shares; the
// unit, and by how many executes or steps a time was divided, aren't columns.
etq.viewTable = (name) => (parent, { rows }, { columns, sort }) => {
  const unit = unitOf(rows);
  const drawn = (column) => {
    if (column.name === "method") return methodOf(rows);
    if (column.name.endsWith("_percent")) return [{ ...share(column.name), title: titled(column.name), meaning: column.text }];
    if (["unit", "executes", "steps"].includes(column.name)) return [];
    return [{ name: column.name, title: titled(column.name), unit: column.has_unit ? unit : null, numeric: column.is_number, meaning: column.text }];
  };
  etq.table(parent, rows, columns.flatMap(drawn), { sort: sort ? [sort] : null, name });
};
const titled = (name) => name.replace(/_percent$/, "").replaceAll("_", " ");

etq.section("coverage", (parent, { rows, calls }) => {
  if (rows) drawCoverage(parent, rows);
  if (!calls) return;
  parent.append(etq.element("h3", { text: "Calls of delegates" }));
  const unit = unitOf(calls);
  etq.table(parent, calls, [
    { name: "backend" },
    ...methodOf(calls),
    { name: "instruction_id", title: "instruction", numeric: true },
    ...times(unit, ["per_execute", "per execute"], ["per_call", "per call"]),
    share(),
    ...times(unit, ["ops", "ops within", "in an execute"], ["copies", null, "in an execute"], ["layout", null, "in an execute"], ["unaccounted", null, "in an execute"]),
    { name: "calls", numeric: true },
    { name: "block_index", title: "block", numeric: true, meaning: "runs of one name that logged the same events" },
  ], { name: "delegates" });
});

function drawCoverage(parent, rows) {
  const sum = (name) => rows.list(name).reduce((all, each) => all + (each ?? 0), 0);
  const [taken, left] = [sum("delegated"), sum("not_delegated")];
  const bar = etq.element("div", { class: "split", role: "img", "aria-label": `${taken} nodes in delegates, ${left} not` });
  for (const [count, name, text] of [[taken, "delegate", "in delegates"], [left, "kernel", "not in delegates"]]) {
    if (!count) continue;
    const part = etq.element("span", { text: `${etq.number(count)} ${text}` });
    part.style.flexGrow = count;
    part.style.background = `var(--${name})`;
    part.style.color = `var(--on-span)`;
    bar.append(part);
  }
  parent.append(bar);
  etq.table(parent, rows, [
    { name: "op_type", title: "op" },
    { name: "delegated", title: "nodes in delegates", numeric: true },
    { name: "not_delegated", title: "nodes left", numeric: true },
    ...times(unitOf(rows), ["total", "time of these"]),
    share(),
    { name: "calls", title: "kernels run", numeric: true },
    { name: "worst_source", title: "mostly from line" },
    { name: "worst_module", title: "mostly in module" },
    { name: "basis", title: "nodes known by", meaning: "where the nodes that delegates run are from: the record's maps alone, which ops kernels run, the lowered graph, or a guess by debug handles" },
  ], { sort: ["total"], name: "coverage" });
}

// The time of each step by category, without categories that no step has.
etq.section("steps", (parent, { steps }) => {
  const unit = unitOf(steps);
  const categories = [
    ["kernel", "Kernel"], ["memcpy", "Memcpy"], ["memset", "Memset"],
    steps.list("kernel").some((time) => time > 0)
      ? ["communication", "exposed communication", "on devices: a kernel of communication runs, and none of computation"]
      : ["communication", "communication of the host"],
    ["runtime", "Runtime"], ["data_loader", "DataLoader"], ["cpu_exec", "CPU Exec"], ["other", "Other"],
  ].filter(([name]) => steps.list(name).some((time) => time > 0));
  const most = Math.max(...steps.list("total"));
  if (steps.length > 1) etq.stepStrip(parent, steps, unit);
  etq.table(parent, steps, [
    { name: "step", numeric: true },
    { name: "total", unit, numeric: true, share: true, full: most, meaning: "with the work that it launched" },
    ...times(unit, ["host", "on the host", "from the start of its annotation to its end, as in the file"], ...categories),
  ], { name: "steps" });
});
