// Where the time went: an icicle from the model through its modules to ops, as wide as they took; what belongs to no op
// stands apart, grey, on the right. A trace without modules has events within events instead. A trace with devices has a
// second one, of the device time that ops launched.

etq.section("breakdown", (parent, tables, facts) => {
  const { leaves } = tables;
  const onDevices = tree(leaves, facts.separator, "self_device_time");
  const onHost = tables.nested?.length ? nestedTree(tables.nested, leaves.get(0, "executes")) : tree(leaves, facts.separator, "self_time");
  const ofHost = tables.nested?.length ? { ...facts, leaves: "ops, calls and annotations" } : facts;
  if (!facts.has_devices || !onDevices[0].total) {
    etq.icicle = icicle(parent, onHost, leaves, ofHost);
  } else {
    parent.append(etq.element("h3", { text: "On the host" }));
    etq.icicle = icicle(parent, onHost, leaves, ofHost);
    parent.append(etq.element("h3", { text: "On devices, by the op that launched it" }));
    etq.deviceIcicle = icicle(parent, onDevices, leaves, { ...facts, what: "device time", apart: "launched by no op" });
  }
  if (tables.parts?.length) drawParts(parent, tables.parts, leaves.get(0, "unit"));
});

// Draws the icicle of one time, and returns it.
function icicle(parent, nodes, leaves, facts) {
  const unit = leaves.get(0, "unit");
  const whole = nodes[0]?.total ?? 0;
  if (!whole) {
    parent.append(etq.element("p", { class: "muted", text: "No event took any time." }));
    return null;
  }
  const chosen = etq.element("div", { class: "detail" });
  const time = (sum, executes) => executes ? `${etq.quantity(sum / executes, unit)} per ${facts.per}` : etq.quantity(sum, unit);
  // Those of a trace also count outside of steps.
  const calls = (node) => (!node.calls ? "" : node.executes && facts.per !== "step" ? `${etq.number(node.calls / node.executes)} per ${facts.per}, ${etq.number(node.calls)} in all` : etq.number(node.calls));
  const describe = (id) => [
    ["time", `${time(nodes[id].total, nodes[id].executes)} (${etq.percent((100 * nodes[id].total) / whole)})`],
    ["self time", nodes[id].isLeaf ? "" : time(nodes[id].own, nodes[id].executes)],
    ["in all", nodes[id].executes ? `${etq.quantity(nodes[id].total, unit)} in ${etq.number(nodes[id].executes)} ${facts.per}s` : ""],
    ["calls", calls(nodes[id])],
    ["module", nodes[id].path],
    ["kind", nodes[id].kind],
  ];
  const top = etq.element("div");
  parent.append(top);
  const spans = new etq.Spans(parent, {
    title: `Icicle of ${facts.what} by module and op`,
    colour: (id) => nodes[id].colour,
    label: (id) => nodes[id].name,
    describe,
    room: 0,
    over: (id) => etq.markGraph?.(id < 0 ? null : nodes[id].path),
    choose: (id) => {
      if (id < 0) return;
      spans.move(nodes[id].start, nodes[id].start + nodes[id].total);
      chosen.replaceChildren(...etq.details(nodes[id].name, describe(id)));
    },
  });
  const summarize = (ids) => {
    const outer = ids.filter((id) => !hasMarked(nodes, id, new Set(ids)));
    const sum = outer.reduce((total, id) => total + nodes[id].total, 0);
    return `${etq.number(ids.length)} found, ${time(sum, nodes[0].executes)} (${etq.percent((100 * sum) / whole)})`;
  };
  let isMarked = false;
  // Marks a module that is pointed at elsewhere, unless a search has marked others.
  etq.markIcicle = (path) => {
    if (spans.hits && !isMarked) return;
    isMarked = Boolean(path);
    spans.mark(path ? (id) => nodes[id].path === path || nodes[id].path.startsWith(`${path}.`) : null);
  };
  etq.spanTools(top, spans, (id) => `${nodes[id].name}\n${nodes[id].path}`.toLowerCase(), summarize);
  const byStart = nodes.map((_, id) => id).sort((one, other) => nodes[one].start - nodes[other].start || nodes[one].depth - nodes[other].depth);
  const rows = etq.spanRows(
    byStart.length,
    (at) => nodes[byStart[at]].start,
    (at) => nodes[byStart[at]].start + nodes[byStart[at]].total,
    (at) => nodes[byStart[at]].depth,
  );
  for (const row of rows) row.ids = row.ids.map((at) => byStart[at]);
  spans.show(rows, [nodes[0].start, nodes[0].start + whole]);
  parent.append(chosen);
  etq.legend(parent, [
    ["module", "modules"],
    ["kernel", facts.leaves],
    ["delegate", "within delegates"],
    ["call", "calls of delegates, without their children"],
    ["framework", facts.apart ?? "framework, and what no event covers"],
  ].filter(([colour]) => nodes.some((node, id) => id > 0 && node.colour === colour)));
  return spans;
}

function drawParts(parent, parts, unit) {
  parent.append(etq.element("h3", { text: "What an execute is made of" }));
  etq.table(parent, parts, [
    { name: "component" },
    ...etq.methodOf(parts),
    { name: "per_execute", title: "mean per execute", unit, numeric: true },
    { name: "share_percent", title: "share", numeric: true, share: true, as: etq.percent },
    { name: "calls", numeric: true },
    { name: "total", title: "all executes", unit, numeric: true },
    { name: "instruction_id", title: "instruction", numeric: true },
  ], { name: "parts", search: false });
}

function hasMarked(nodes, id, marked) {
  for (let at = nodes[id].parent; at >= 0; at = nodes[at].parent) if (marked.has(at)) return true;
  return false;
}

// Nodes with their place: the root first, then each module's parts, the largest first, what is in parentheses last.
function tree(leaves, separator, time) {
  const root = node("all", "", "", 0);
  const hasMethods = leaves.columns.has("method") && new Set(leaves.list("method")).size > 1;
  if (!hasMethods && leaves.length) root.executes = leaves.get(0, "executes");
  for (const row of leaves.rows()) {
    const own = Math.max(leaves.get(row, time) ?? 0, 0);
    const path = leaves.get(row, "module_path") ?? "";
    const [op, kind] = [leaves.get(row, "op"), leaves.get(row, "kind")];
    const isApart = path.startsWith("(");
    let at = hasMethods ? child(root, leaves.get(row, "method"), "", "module", "method") : root;
    if (hasMethods) at.executes = leaves.get(row, "executes");
    const parts = path === "" ? [] : isApart ? [path] : path.split(separator);
    parts.forEach((part, level) => {
      at = child(at, part, isApart ? "" : parts.slice(0, level + 1).join(separator), isApart ? "framework" : "module");
    });
    if (isApart && op === path) {
      at.calls += leaves.get(row, "calls") ?? 0;
      at.isLeaf = true;
      at.own += own;
    } else {
      at = child(at, op, path, isApart || kind === "framework" ? "framework" : colourOf(kind), kind);
      at.calls += leaves.get(row, "calls") ?? 0;
      at.isLeaf = true;
      at.own += own;
    }
  }
  root.name = "(all)";
  root.colour = "module";
  const nodes = [];
  place(root, 0, 0, -1, nodes);
  return nodes;
}

// Nodes with their place, of events within events: each row is a node.
function nestedTree(rows, steps) {
  const root = Object.assign(node("(all)", "", "module", 0), { executes: steps });
  for (const row of rows.rows()) {
    let at = root;
    for (const part of rows.get(row, "path").split("\u001f")) at = child(at, part, "", "kernel");
    at.calls += rows.get(row, "calls") ?? 0;
    at.own += rows.get(row, "self_time") ?? 0;
  }
  const nodes = [];
  place(root, 0, 0, -1, nodes);
  return nodes;
}

function colourOf(kind) {
  return { delegate: "delegate", delegate_call: "call", framework: "framework" }[kind] ?? "kernel";
}

// `executes` is how many executes, or steps of a trace, a node's time is of; null where several methods ran, or unknown.
function node(name, path, colour, depth) {
  return { name, path, colour, depth, own: 0, total: 0, calls: 0, executes: null, kind: "", isLeaf: false, children: new Map() };
}

function child(parent, name, path, colour, kind = "") {
  const key = `${kind}\n${name}`;
  if (!parent.children.has(key)) parent.children.set(key, Object.assign(node(name, path, colour, parent.depth + 1), { kind, executes: parent.executes }));
  return parent.children.get(key);
}

function total(at) {
  at.total = at.own;
  for (const each of at.children.values()) at.total += total(each);
  return at.total;
}

function place(at, start, depth, parent, nodes) {
  if (parent < 0) total(at);
  const id = nodes.length;
  nodes.push(Object.assign(at, { start, depth, parent }));
  const children = [...at.children.values()].filter((each) => each.total > 0);
  children.sort((one, other) => (one.colour === "framework") - (other.colour === "framework") || other.total - one.total);
  let next = start;
  for (const each of children) {
    place(each, next, depth + 1, id, nodes);
    next += each.total;
  }
}

etq.legend = (parent, entries) => {
  const list = etq.element("p", { class: "legend" });
  for (const [colour, text] of entries) {
    const swatch = etq.element("i");
    swatch.style.background = `var(--${colour})`;
    list.append(etq.element("span", {}, swatch, etq.printable(text)));
  }
  parent.append(list);
};
