// A flame graph: a tree whose nodes are as wide as their time. A node's time includes that of the nodes below it.

// A node of a tree: `own` is its self time, `total` its time with the nodes below. `executes` is the number of
// executes, or of steps of a trace, to which the time belongs; null if several methods ran, or if unknown.
etq.flameNode = (name, more) => ({ name, path: "", own: 0, total: 0, calls: 0, executes: null, kind: "", children: new Map(), ...more });

etq.childOf = (parent, key, make) => {
  if (!parent.children.has(key)) parent.children.set(key, make());
  return parent.children.get(key);
};

// All nodes below a root with their places, larger nodes first. Nodes for which `isLast` is true come last. own(node)
// is a node's self time.
etq.placedNodes = (root, own, isLast) => {
  const nodes = [];
  const size = (at) => {
    at.total = own(at);
    for (const each of at.children.values()) at.total += size(each);
    return at.total;
  };
  const place = (at, start, depth, parent) => {
    const id = nodes.push(Object.assign(at, { start, depth, parent })) - 1;
    const children = [...at.children.values()].filter((each) => each.total > 0);
    children.sort((one, other) => isLast(one) - isLast(other) || other.total - one.total);
    let next = start;
    for (const each of children) {
      place(each, next, depth + 1, id);
      next += each.total;
    }
  };
  size(root);
  place(root, 0, 0, -1);
  return nodes;
};

// Draws nodes, with a search. Returns the spans and show(nodes). The `text` of nodes is searched; summarize(ids)
// describes the matches; `tools` are shown before the search; other options are those of `etq.Spans`.
etq.flame = (parent, { text, describe, summarize, tools = [], ...options }) => {
  let nodes = [];
  const chosen = etq.element("div", { class: "detail" });
  const top = etq.element("div");
  parent.append(top);
  const spans = new etq.Spans(parent, {
    label: (id) => nodes[id].name,
    describe: (id) => describe(nodes[id]),
    room: 0,
    choose: (id) => {
      if (id < 0) return;
      spans.move(nodes[id].start, nodes[id].start + nodes[id].total);
      chosen.replaceChildren(...etq.details(nodes[id].name, describe(nodes[id])));
    },
    ...options,
  });
  const found = etq.spanTools(top, spans, (id) => text(nodes[id]).toLowerCase(), summarize, ...tools);
  parent.append(chosen);
  const show = (placed) => {
    nodes = placed;
    const rows = [];
    nodes.forEach((node, id) => (rows[node.depth] ??= []).push(id));
    spans.show(rows.map((ids) => ({
      ids: Int32Array.from(ids),
      starts: Float64Array.from(ids, (id) => nodes[id].start),
      ends: Float64Array.from(ids, (id) => nodes[id].start + nodes[id].total),
    })), [0, nodes[0].total]);
    chosen.replaceChildren();
    found.search();
  };
  return { spans, show };
};
