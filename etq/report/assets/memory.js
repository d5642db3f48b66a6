// Planned memory: each tensor a box, from its first to its last instruction, at its place in the buffer.

// Steps of an axis of bytes.
const POWERS = Array.from({ length: 45 }, (_, power) => 2 ** power);

etq.section("memory", (parent, { planned_memory: planned }) => {
  if (!planned) return;
  const plans = new Map();
  for (const row of planned.rows()) {
    const key = `${planned.get(row, "method")} · buffer ${planned.get(row, "memory_id")}`;
    if (!plans.has(key)) plans.set(key, []);
    plans.get(key).push(row);
  }
  const select = etq.element("select", { "aria-label": "Method and buffer" });
  for (const key of plans.keys()) select.append(etq.element("option", { value: key, text: key }));
  const summary = etq.element("p", { class: "muted" });
  if (plans.size > 1) parent.append(etq.element("div", { class: "bar" }, select));
  parent.append(summary);
  const draw = etq.plot(parent, () => picture(planned, plans.get(select.value)));
  const update = () => {
    const row = plans.get(select.value)[0];
    const get = (name) => planned.get(row, name);
    summary.textContent = etq.printable(
      `At its peak, at instruction ${get("peak_instruction")} (${get("peak_op") ?? "unknown"}), the method's tensors take ` +
        `${etq.bytes(get("peak_bytes"))} of ${etq.bytes(get("planned_bytes"))} planned.`,
    );
    draw();
  };
  select.addEventListener("change", update);
  update();
  etq.legend(parent, [["accent", "alive at the peak"], ["faint", "others"]]);
});

function picture(planned, rows) {
  const boxes = rows
    .filter((row) => planned.get(row, "first_instruction") !== null && planned.get(row, "size_bytes") !== null)
    .map((row) => ({
      row,
      left: planned.get(row, "first_instruction"),
      right: planned.get(row, "last_instruction") + 1,
      low: planned.get(row, "memory_offset"),
      high: planned.get(row, "memory_offset") + planned.get(row, "size_bytes"),
    }));
  const last = Math.max(1, ...boxes.map((box) => box.right));
  const most = Math.max(1, ...boxes.map((box) => box.high));
  const paint = (plot) => {
    const pen = plot.ctx;
    pen.save();
    pen.beginPath();
    pen.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
    pen.clip();
    const place = (value, scale) => plot.valToPos(value, scale, true);
    for (const box of boxes) {
      const [x, end] = [place(box.left, "x"), place(box.right, "x")];
      const [y, base] = [place(box.high, "y"), place(box.low, "y")];
      pen.fillStyle = etq.colour(planned.get(box.row, "is_live_at_peak") ? "accent" : "faint");
      pen.fillRect(x, y, Math.max(end - x - 1, 1), Math.max(base - y - 1, 1));
    }
    pen.restore();
  };
  const find = (plot, event) => {
    const [x, y] = [plot.posToVal(event.offsetX, "x"), plot.posToVal(event.offsetY, "y")];
    return boxes.find((box) => box.left <= x && x < box.right && box.low <= y && y < box.high);
  };
  const listen = (plot) => {
    plot.over.addEventListener("mousemove", (event) => {
      const box = find(plot, event);
      if (box) etq.showTip(event, `value ${planned.get(box.row, "value_index")}`, about(planned, box.row));
      else etq.hideTip();
    });
    plot.over.addEventListener("mouseleave", () => etq.hideTip());
  };
  return [
    {
      legend: { show: false },
      cursor: { points: { show: false }, x: false, y: false },
      scales: { x: { time: false, range: () => [0, last] }, y: { range: () => [0, most] } },
      axes: [etq.axis("instruction", etq.number, { size: 34, incrs: etq.countSteps }), etq.axis("place in the buffer", etq.bytes, { size: 78, incrs: POWERS })],
      series: [{}, { label: "bytes", paths: () => null, points: { show: false } }],
      hooks: { draw: [paint], ready: [listen] },
    },
    [[0, last], [0, most]],
  ];
}

function about(planned, row) {
  const get = (name) => planned.get(row, name);
  return [
    ["tensor", [get("scalar_type"), get("sizes")].filter(Boolean).join(" ")],
    ["size", etq.bytes(get("size_bytes"))],
    ["offset", etq.number(get("memory_offset"))],
    ["alive", `instructions ${get("first_instruction")} to ${get("last_instruction")}`],
    ["role", [get("is_input") ? "input" : "", get("is_output") ? "output" : ""].filter(Boolean).join(", ")],
  ];
}

// A trace's memory: what was allocated on each device as time went on.
etq.section("memory_timeline", (parent, { rows }) => {
  const unit = rows.get(0, "unit");
  const devices = [...new Set(rows.list("device"))];
  for (const device of devices) {
    const mine = rows.rows().filter((row) => rows.get(row, "device") === device);
    const column = (name) => mine.map((row) => rows.get(row, name));
    parent.append(etq.element("h3", { text: `${device}` }));
    const step = (label, colour) => etq.line(label, colour, etq.bytes, { width: 1.5, paths: uPlot.paths.stepped({ align: 1 }) });
    etq.plot(parent, () => [
      {
        scales: { x: { time: false } },
        axes: [etq.axis(`time, ${etq.unit(unit)}`, etq.number, { size: 34 }), etq.axis("memory", etq.bytes, { size: 78, incrs: POWERS })],
        series: [{ label: "time", value: etq.legendOf((each) => etq.quantity(each, unit)) }, step("allocated", "accent"), step("reserved", "muted")],
      },
      [column("time"), column("allocated_bytes"), column("reserved_bytes")],
    ])();
  }
});
