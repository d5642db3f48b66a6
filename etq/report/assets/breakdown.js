// Where the time went: an icicle from the model through its modules to ops; widths are times. Time outside ops is grey,
// on the right. A trace without modules has nested events instead. A trace with devices has a second icicle, of the
// device time that ops launched.

etq.section("breakdown", (parent, { leaves, nested }, facts) => {
  const onDevices = tree(leaves, facts.separator, "self_device_time");
  const onHost = nested?.length ? nestedTree(nested, leaves.get(0, "executes")) : tree(leaves, facts.separator, "self_time");
  const ofHost = nested?.length ? { ...facts, leaves: "ops, calls and annotations" } : facts;
  const hasDevices = facts.has_devices && onDevices[0].total > 0;
  if (hasDevices) parent.append(etq.element("h3", { text: "On the host" }));
  etq.icicle = icicle(parent, onHost, leaves, ofHost);
  if (!hasDevices) return;
  parent.append(etq.element("h3", { text: "On devices, by the op that launched it" }));
  etq.deviceIcicle = icicle(parent, onDevices, leaves, { ...facts, what: "device time", apart: "launched by no op" });
});

// Draws the icicle of one time, and returns it.
function icicle(parent, nodes, leaves, facts) {
  const unit = leaves.get(0, "unit");
  const whole = nodes[0].total;
  if (!whole) {
    parent.append(etq.element("p", { class: "muted", text: "No event took any time." }));
    return null;
  }
  const time = (sum, executes) => executes ? `${etq.quantity(sum / executes, unit)} per ${facts.per}` : etq.quantity(sum, unit);
  // Events of a trace outside steps count, too.
  const calls = (node) => (!node.calls ? "" : node.executes && facts.per !== "step" ? `${etq.number(node.calls / node.executes)} per ${facts.per}, ${etq.number(node.calls)} in all` : etq.number(node.calls));
  const { spans, show } = etq.flame(parent, {
    title: `Icicle of ${facts.what} by module and op`,
    colour: (id) => nodes[id].colour,
    text: (node) => `${node.name}\n${node.path}`,
    describe: (node) => [
      ["time", `${time(node.total, node.executes)} (${etq.percent((100 * node.total) / whole)})`],
      ["self time", node.isLeaf ? "" : time(node.own, node.executes)],
      ["in all", node.executes ? `${etq.quantity(node.total, unit)} in ${etq.number(node.executes)} ${facts.per}s` : ""],
      ["calls", calls(node)],
      ["module", node.path],
      ["kind", node.kind],
    ],
    over: (id) => etq.markGraph?.(id < 0 ? null : nodes[id].path),
    summarize: (ids) => {
      const marked = new Set(ids);
      const sum = ids.filter((id) => !hasMarked(nodes, id, marked)).reduce((total, id) => total + nodes[id].total, 0);
      return `${etq.number(ids.length)} found, ${time(sum, nodes[0].executes)} (${etq.percent((100 * sum) / whole)})`;
    },
  });
  let isMarked = false;
  // Marks the module that is under the pointer elsewhere on the page, unless a search has marked other modules.
  etq.markIcicle = (path) => {
    if (spans.hits && !isMarked) return;
    isMarked = Boolean(path);
    spans.mark(path ? (id) => nodes[id].path === path || nodes[id].path.startsWith(`${path}.`) : null);
  };
  show(nodes);
  etq.legend(parent, [
    ["module", "modules"],
    ["kernel", facts.leaves],
    ["delegate", "within delegates"],
    ["call", "calls of delegates, without their children"],
    ["framework", facts.apart ?? "framework, and what no event covers"],
  ].filter(([colour]) => nodes.some((node, id) => id > 0 && node.colour === colour)));
  return spans;
}

function hasMarked(nodes, id, marked) {
  for (let at = nodes[id].parent; at >= 0; at = nodes[at].parent) if (marked.has(at)) return true;
  return false;
}

const placed = (root) => etq.placedNodes(root, (node) => node.own, (node) => node.colour === "framework");

// Nodes with their places: the root, then the parts of each module, the largest first; parts in parentheses are last.
function tree(leaves, separator, time) {
  const root = etq.flameNode("(all)", { colour: "module" });
  const hasMethods = leaves.columns.has("method") && new Set(leaves.list("method")).size > 1;
  if (!hasMethods && leaves.length) root.executes = leaves.get(0, "executes");
  for (const row of leaves.rows()) {
    const path = leaves.get(row, "module_path") ?? "";
    const [op, kind] = [leaves.get(row, "op"), leaves.get(row, "kind")];
    const isApart = path.startsWith("(");
    let at = hasMethods ? child(root, leaves.get(row, "method"), "", "module", "method") : root;
    if (hasMethods) at.executes = leaves.get(row, "executes");
    const parts = path === "" ? [] : isApart ? [path] : path.split(separator);
    parts.forEach((part, level) => {
      at = child(at, part, isApart ? "" : parts.slice(0, level + 1).join(separator), isApart ? "framework" : "module");
    });
    if (!isApart || op !== path) at = child(at, op, path, isApart || kind === "framework" ? "framework" : colourOf(kind), kind);
    at.calls += leaves.get(row, "calls") ?? 0;
    at.isLeaf = true;
    at.own += Math.max(leaves.get(row, time) ?? 0, 0);
  }
  return placed(root);
}

// Nodes with their places, for nested events: each row is a node.
function nestedTree(rows, executes) {
  const root = etq.flameNode("(all)", { colour: "module", executes });
  for (const row of rows.rows()) {
    let at = root;
    for (const part of rows.get(row, "path").split("\u001f")) at = child(at, part, "", "kernel");
    at.calls += rows.get(row, "calls") ?? 0;
    at.own += rows.get(row, "self_time") ?? 0;
  }
  return placed(root);
}

function colourOf(kind) {
  return { delegate: "delegate", delegate_call: "call", framework: "framework" }[kind] ?? "kernel";
}

function child(parent, name, path, colour, kind = "") {
  return etq.childOf(parent, `${kind}\n${name}`, () => etq.flameNode(name, { path, colour, kind, executes: parent.executes }));
}
