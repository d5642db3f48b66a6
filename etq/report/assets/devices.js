// Devices in a PyTorch trace: causes of idle time, the critical path, computation and communication, launches,
// collectives, the distance of ops from the peak; and the memory held at its peak.

const WAITED_FOR = {
  host: "the host, which launched nothing",
  synchronization: "the host, which had waited for the device",
  allocation: "the host, which allocated memory",
  free: "the host, which freed memory",
  pinned_memory: "the host, which allocated or freed pinned memory",
  module_load: "the host, which loaded kernels",
  graph_instantiation: "the host, which captured or instantiated graphs",
  creation: "the host, which created streams, events or contexts",
  call: "the host, which was in a call of no known kind",
  data_loading: "input data",
  communication: "other processes",
  dependency: "events of other streams",
  launch_delay: "launched kernels to start",
  unknown_wait: "something that the trace doesn't show: launched long before",
  unknown: "unknown: without a recorded launch",
};

const percent = (name, title, meaning) => ({ name, title, numeric: true, as: etq.percent, meaning });
const bar = (name, title, meaning) => ({ ...percent(name, title, meaning), share: true });
const unitOf = (rows) => rows.list("unit").find((unit) => unit !== null) ?? null;
const named = (device) => (device === null ? "The device" : `Device ${device}`);
// The device, where rows are of several.
const deviceOf = (rows) => (new Set(rows.list("device")).size > 1 ? [{ name: "device" }] : []);
const muted = (parent, text) => parent.append(etq.element("p", { class: "muted", text }));

etq.section("idle", (parent, { devices, causes, gaps }) => {
  for (const row of devices.rows()) {
    const get = (name) => devices.get(row, name);
    if (!get("idle")) continue;
    const quantity = (name) => etq.quantity(get(name), get("unit"));
    const text = `${named(get("device"))} ran nothing for ${quantity("idle")} of the ${quantity("total")} from its first event to its last: ${etq.percent(get("idle_percent"))}.`;
    parent.append(etq.element("p", { text }));
  }
  const unit = unitOf(causes);
  etq.table(parent, causes, [
    { name: "cause" },
    ...deviceOf(causes),
    { name: "total", unit, numeric: true },
    bar("share_percent", "of the idle time"),
    { name: "gaps", numeric: true },
    { name: "mean", unit, numeric: true },
    { name: "max", title: "longest", unit, numeric: true },
    { name: "meaning", title: "the device waited for", always: true, as: (_, row) => WAITED_FOR[causes.get(row, "cause")] },
    { name: "host_op", title: "host mostly in", class: "wrapped", as: etq.clamped },
    { name: "call", title: "mostly in the call", class: "wrapped", as: etq.clamped },
  ], { name: "causes", search: false });
  parent.append(etq.element("h3", { text: "The longest gaps" }));
  etq.table(parent, gaps, [
    { name: "cause" },
    ...deviceOf(gaps),
    { name: "duration", unit, numeric: true },
    bar("share_percent", "of the idle time"),
    { name: "step", numeric: true },
    { name: "start", unit, numeric: true, meaning: "from the start of the recording" },
    { name: "host_op", title: "host in", class: "wrapped", as: etq.clamped },
    { name: "call", title: "in the call", class: "wrapped", as: etq.clamped },
    { name: "next_event", title: "next event", class: "wrapped", as: etq.clamped },
    { name: "waited_for", title: "waited for", class: "wrapped", as: etq.clamped },
  ], { sort: ["duration"], name: "gaps" });
});

etq.section("critical_path", (parent, { ops, parts }) => {
  muted(parent, "The chain of events that the end of the recording waited for. A faster op shortens the recording by at most its time here.");
  const unit = unitOf(ops);
  etq.table(parent, ops, [
    { name: "op", class: "wrapped", always: true, as: (value) => value ?? "(no op)" },
    { name: "total", unit, numeric: true },
    bar("share_percent", "of the path"),
    { name: "host", unit, numeric: true },
    { name: "device", unit, numeric: true },
    { name: "delay", title: "delays, waits", unit, numeric: true },
    { name: "call", title: "mostly the call", class: "wrapped", as: etq.clamped },
    { name: "kernel", title: "mostly the kernel", class: "wrapped", as: etq.clamped },
  ], { sort: ["total"], name: "critical_ops" });
  parent.append(etq.element("h3", { text: "The longest parts" }));
  etq.table(parent, parts, [
    { name: "kind" },
    { name: "name", class: "wrapped", as: etq.clamped },
    { name: "op", class: "wrapped", as: etq.clamped },
    { name: "duration", unit, numeric: true },
    bar("share_percent", "of the path"),
    { name: "start", unit, numeric: true, meaning: "from the start of the recording" },
  ], { sort: ["duration"], name: "critical_parts" });
});

etq.section("passes", (parent, { passes, modules, ops }) => {
  const unit = unitOf(passes);
  const onDevices = passes.list("device_time").some((time) => time > 0);
  etq.table(parent, passes, [
    { name: "pass" },
    { name: "host_time", title: "host", unit, numeric: true },
    bar("host_percent", "of the steps"),
    ...(onDevices
      ? [{ name: "device_time", title: "device", unit, numeric: true }, bar("device_percent", "of the device time"), { name: "device_events", title: "kernels, copies", numeric: true }]
      : []),
  ], { name: "passes", search: false });
  for (const [rows, name, title] of [[modules, "module_path", "Modules"], [ops, "op", "Ops"]]) {
    if (!rows) continue;
    parent.append(etq.element("h3", { text: `${title} in the backward pass` }));
    const device = (which) => ({ name: `${which}_device_time`, title: `${which}, device`, unit, numeric: true });
    const host = (which) => ({ name: `${which}_host_time`, title: `${which}, host`, unit, numeric: true });
    const what = name === "op" ? "op" : "module";
    // Older traces don't link functions of autograd to ops.
    const isLinked = rows.has(name);
    etq.table(parent, rows, [
      { name: "backward", title: "function" },
      ...(isLinked ? [{ name, title: what, always: true, as: (value) => value ?? `(no ${what})` }] : []),
      ...(isLinked && onDevices ? [device("forward")] : []),
      ...(onDevices ? [device("backward")] : []),
      ...(isLinked ? [host("forward")] : []),
      host("backward"),
      { name: "backward_calls", title: "calls", numeric: true },
    ], { sort: [onDevices ? "backward_device_time" : "backward_host_time"], name: `backward_${name}` });
  }
});

etq.section("work", (parent, { devices, steps }) => {
  workTable(parent, devices, "device_time", []);
  if (!steps) return;
  parent.append(etq.element("h3", { text: "By step" }));
  workTable(parent, steps, "step_device_time", [{ name: "step", numeric: true }]);
});

function workTable(parent, rows, name, step) {
  const unit = unitOf(rows);
  const communicates = rows.list("communication").some((time) => time > 0);
  const communication = [
    { name: "communication", unit, numeric: true, meaning: "time in which a kernel of communication ran" },
    { name: "exposed", unit, numeric: true, meaning: "communication in which no kernel of computation ran" },
    percent("overlap_percent", "overlapped", "communication in which a kernel of computation ran, too, of all communication"),
  ];
  etq.table(parent, rows, [
    ...step,
    ...(step.length ? deviceOf(rows) : [{ name: "device", always: true, as: (device) => device ?? "" }]),
    { name: "total", unit, numeric: true, meaning: step.length ? "length of the step" : "from the first event to the last" },
    bar("idle_percent", "idle"),
    bar("compute_percent", "computation"),
    bar("non_compute_percent", communicates ? "only copies, communication" : "only copies"),
    ...(communicates ? communication : []),
  ], { name });
}

etq.section("launches", (parent, { rows, queues }) => {
  const unit = unitOf(rows);
  muted(parent, "The delay is the time from the end of the call until the device starts what it launched.");
  etq.table(parent, rows, [
    { name: "call" },
    { name: "calls", numeric: true },
    { name: "call_time", title: "time in calls", unit, numeric: true },
    { name: "per_call", title: "per call", unit, numeric: true },
    { name: "events", numeric: true, meaning: "device events that the calls launched" },
    { name: "device_time", title: "device time", unit, numeric: true },
    { name: "short_events", title: "shorter than launch", numeric: true, meaning: "events that take less time than their launch" },
    { name: "p50_delay", title: "median delay", unit, numeric: true },
    { name: "max_delay", title: "longest delay", unit, numeric: true },
  ], { sort: ["call_time"], name: "launches", search: false });
  if (!queues.length) return;
  parent.append(etq.element("h3", { text: "Queues of streams" }));
  muted(parent, "How many events were launched and had not started. If none waits, a stream is idle as soon as its last event ends.");
  etq.table(parent, queues, [
    { name: "stream", always: true, as: (stream) => stream ?? "" },
    ...deviceOf(queues),
    { name: "launches", numeric: true },
    bar("empty_percent", "time with none waiting"),
    { name: "time_mean", title: "mean length", numeric: true },
    { name: "max", title: "greatest length", numeric: true },
  ], { name: "queues" });
});

etq.section("collectives", (parent, { rows }) => {
  const unit = unitOf(rows);
  const bandwidth = (name, title, meaning) => ({ name, title: `${title}, GB/s`, numeric: true, meaning });
  muted(parent, "The kernel of a collective also waits for the other processes, so bandwidths are lower bounds.");
  etq.table(parent, rows, [
    { name: "collective" },
    { name: "process_group", title: "group" },
    { name: "group_description", title: "description" },
    { name: "group_size", title: "processes", numeric: true },
    { name: "message_bytes", title: "message", numeric: true, as: etq.bytes },
    { name: "calls", numeric: true },
    { name: "total", unit, numeric: true },
    bar("share_percent", "share"),
    { name: "per_call", title: "per call", unit, numeric: true },
    bandwidth("bus_bandwidth_gb_per_s", "bus bandwidth", "bytes on the busiest link by the time, as in nccl-tests"),
    bandwidth("best_bus_bandwidth_gb_per_s", "best", "bus bandwidth of the shortest kernel"),
    percent("link_percent", "of the link", "best in percent of what the device's links carry; empty where unknown, and if the group may span machines"),
  ], { sort: ["total"], name: "collectives" });
});

etq.section("peak_memory", (parent, { rows }) => {
  const peaks = new Map(rows.rows().map((row) => [rows.get(row, "device"), row]));
  for (const [device, row] of peaks) {
    const time = etq.quantity(rows.get(row, "peak_time"), rows.get(row, "unit"));
    parent.append(etq.element("p", { text: `${device}: at most ${etq.bytes(rows.get(row, "peak_bytes"))} in use, first at ${time}.` }));
  }
  etq.table(parent, rows, [
    { name: "op", title: "allocated by", always: true, as: (op) => op ?? "(no op)" },
    ...deviceOf(rows),
    { name: "held_bytes", title: "held", numeric: true, as: etq.bytes },
    bar("share_percent", "share"),
    { name: "allocations", numeric: true },
    { name: "step", numeric: true },
  ], { sort: ["held_bytes"], name: "peak" });
});

etq.section("serving", (parent, { phases, steps }) => {
  const told = (phase) => phase ?? "(unknown)";
  const rates = (unit) => [
    { name: "tokens_per_second", title: "tokens/s", numeric: true, as: (rate) => (rate === null ? "" : etq.number(rate)) },
    { name: "time_per_output_token", title: "per output token", unit, numeric: true },
  ];
  const tokens = [
    { name: "tokens_in", title: "prompt tokens", numeric: true },
    { name: "tokens_out", title: "output tokens", numeric: true },
  ];
  const times = (unit) => [
    { name: "time", unit, numeric: true },
    { name: "host_time", title: "on the host", unit, numeric: true },
    { name: "device_time", title: "on devices", unit, numeric: true },
  ];
  let unit = unitOf(phases);
  muted(parent, "By the annotations of vLLM and SGLang. The time of a step is the longer of that on the host and on devices.");
  etq.table(parent, phases, [
    { name: "phase", always: true, as: told },
    { name: "steps", numeric: true },
    ...rates(unit),
    { name: "per_step", title: "mean step", unit, numeric: true },
    bar("share_percent", "of the time"),
    ...times(unit),
    { name: "sequences", title: "mean sequences", numeric: true },
    ...tokens,
  ], { search: false, name: "serving_phases" });
  parent.append(etq.element("h3", { text: "Steps" }));
  unit = unitOf(steps);
  etq.table(parent, steps, [
    { name: "step", numeric: true, always: true },
    { name: "phase", always: true, as: told },
    ...times(unit),
    ...rates(unit),
    { name: "sequences", numeric: true },
    ...tokens,
    { name: "events", title: "launched", numeric: true },
    { name: "name", class: "wrapped wide", as: etq.clamped },
  ], { sort: ["time"], name: "serving_steps" });
});

etq.section("efficiency", (parent, { families, ops, shapes }, { device, bandwidth }) => {
  const unit = unitOf(families);
  muted(parent, device === null
    ? "The peaks of the device are not known: rates alone are shown."
    : `Against the peaks of ${etq.printable(device)}. An op can save at most its time above the roof.`);
  roofline(parent, shapes, bandwidth);
  const rates = [
    { name: "flops_per_second", title: "TFLOP/s", numeric: true, as: (rate) => (rate === null ? "" : etq.number(rate / 1e12)) },
    { name: "bytes_per_second", title: "TB/s", numeric: true, as: (rate) => (rate === null ? "" : etq.number(rate / 1e12)) },
  ];
  const roof = [
    percent("roof_percent", "of the roof", "smallest possible time at the peaks, in percent of its time"),
    { name: "above_roof", title: "above the roof", unit, numeric: true },
    bar("above_roof_percent", "to save"),
  ];
  const times = [{ name: "per_step", title: "in a step", unit, numeric: true }, bar("share_percent", "of the time"), { name: "total", unit, numeric: true }, { name: "calls", numeric: true }];
  const known = percent("known_percent", "known", "share of its time in calls whose costs are known");
  etq.table(parent, families, [{ name: "family", always: true, as: (family) => family ?? "(unknown)" }, ...times, ...roof, ...rates, known], { search: false, name: "efficiency_families" });
  parent.append(etq.element("h3", { text: "By op" }));
  etq.table(parent, ops, [{ name: "op", always: true, class: "wrapped", as: (op) => op ?? "(no op)" }, { name: "family" }, ...times, ...roof, ...rates, known, { name: "reason", class: "wrapped", as: etq.clamped }], { name: "efficiency_ops" });
  parent.append(etq.element("h3", { text: "By shape" }));
  etq.table(parent, shapes, [
    { name: "op", always: true, class: "wrapped", as: (op) => op ?? "(no op)" },
    { name: "inputs", class: "wrapped", as: etq.clamped },
    ...times,
    ...roof,
    { name: "bound" },
    ...rates,
    { name: "top_event", title: "mostly the kernel", class: "wrapped", as: etq.clamped },
    { name: "reason", class: "wrapped", as: etq.clamped },
  ], { name: "efficiency_shapes" });
});

// Operations per second over operations per byte, both logarithmic: a point for each op and shape, and the roofs.
function roofline(parent, shapes, bandwidth) {
  const value = (row, name) => shapes.get(row, name);
  const rows = shapes.rows().filter((row) => value(row, "intensity") > 0 && value(row, "flops_per_second") > 0);
  if (!rows.length || !(bandwidth > 0)) return;
  const peaks = [...new Set(rows.map((row) => value(row, "peak_flops")).filter((peak) => peak > 0))].sort((a, b) => b - a);
  const corners = peaks.map((peak) => peak / bandwidth);
  const places = rows.map((row) => value(row, "intensity"));
  const low = Math.min(...places, ...corners) / 2;
  const high = Math.max(...places, ...corners) * 2;
  const points = [...rows.map((row) => ({ at: value(row, "intensity"), row })), ...[low, ...corners, high].map((at) => ({ at, row: null }))].sort((a, b) => a.at - b.at);
  const families = [...new Set(rows.map((row) => value(row, "family")))].slice(0, 5);
  const colours = ["accent", "good", "warm", "bad", "muted"];
  const show = (rate) => `${etq.number(rate / 1e12)}\u00a0TFLOP/s`;
  const line = (label, rate) => [{ label, stroke: etq.colour("muted"), width: 1, points: { show: false }, value: (_, each) => (each === null ? "–" : show(each)) }, points.map(({ at }) => rate(at))];
  const roofs = () => peaks.slice(0, 3).map((peak) => line(`roof ${show(peak)}`, (at) => Math.min(peak, at * bandwidth)));
  const dots = () => families.map((family, place) => [
    etq.points(family ?? "(unknown)", colours[place], 7, show),
    points.map(({ row }) => (row !== null && value(row, "family") === family ? value(row, "flops_per_second") : null)),
  ]);
  etq.plot(parent, () => {
    const series = [...roofs(), ...dots()];
    return [
      {
        scales: { x: { time: false, distr: 3, range: [low, high] }, y: { distr: 3 } },
        axes: [etq.axis("operations per byte", etq.number, { size: 34 }), etq.axis("TFLOP/s", (rate) => etq.number(rate / 1e12))],
        series: [{ label: "op", value: (_, at, __, place) => (place === null || points[place].row === null ? "–" : `${etq.printable(value(points[place].row, "op") ?? "(no op)")} ${etq.printable(value(points[place].row, "inputs") ?? "")}`) }, ...series.map(([options]) => options)],
      },
      [points.map(({ at }) => at), ...series.map(([, rates]) => rates)],
    ];
  });
}
