// A fleet: each value of a label against all others, as a point with its interval, and its change in each of the ops
// that take most.

// Beyond this number, the values at the top are drawn: those that differ most.
const MOST_VALUES = 200;
const MOST_OPS = 5;

etq.section("fleet", (parent, { outliers_total: totals, outliers_op: ops }, facts) => {
  parent.append(etq.element("p", { class: "told", text: etq.sentence(facts.sentence) }));
  const shown = totals.rows().filter((row) => totals.get(row, "change_percent") !== null).slice(0, MOST_VALUES);
  if (!shown.length) return;
  const changes = shown.map((row) => etq.changeOf(totals, row));
  const scale = etq.changeScale(changes);
  const hasMethods = new Set(totals.list("method")).size > 1;
  const cells = new Map(ops.rows().map((row) => [keyOf(ops, row, ops.get(row, "op")), row]));
  const columns = costly(ops);
  const body = etq.element("tbody", {}, ...shown.map((row, at) => {
    const get = (name) => totals.get(row, name);
    const named = hasMethods ? `${get("value")}, ${get("method")}` : get("value");
    return etq.element("tr", { "data-verdict": get("verdict"),
      onpointermove: (event) => etq.showTip(event, named, [...etq.changePairs(changes[at]), ["all others", etq.quantity(get("base"), get("unit"))], ["it", etq.quantity(get("new"), get("unit"))], ["note", get("note")]]),
      onpointerleave: () => etq.hideTip() },
    etq.element("th", { scope: "row" }, valueOf(named, get("value"), facts)),
    etq.element("td", {}, etq.verdict(get("verdict"))),
    etq.element("td", { class: "number", text: etq.change(get("change_percent")) }),
    etq.element("td", { class: "change-place" }, etq.changeTrack(changes[at], scale)),
    etq.element("td", { class: "number", text: etq.quantity(get("new"), get("unit")) }),
    etq.element("td", { text: get("in_ops") ?? "" }),
    etq.element("td", { class: "number", text: get("common_percent") === null ? "unknown" : etq.change(get("common_percent")) }),
    ...columns.map((op) => cellOf(ops, cells.get(keyOf(totals, row, op)))));
  }));
  const heading = (text, more = {}) => etq.element("th", { scope: "col", ...more }, ...(typeof text === "string" ? [text] : text));
  const head = etq.element("tr", {}, heading(facts.by), heading("verdict"), heading("total", { class: "number" }), heading([etq.changeTicks(scale)], { class: "change-place", "aria-label": "change and interval" }),
    heading("time", { class: "number" }), heading("in ops"), heading("common shift", { class: "number" }), ...columns.map((op) => heading([...etq.broken(etq.short(op, 40))], { class: "number" })));
  parent.append(
    etq.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Each ${facts.by} against all others` }, etq.element("table", { class: "fleet" }, etq.element("thead", {}, head), body)),
    etq.element("p", { class: "muted", text: `Each ${facts.by} against all others. Ops, of which those that take most have a column, are without the common shift. A point is filled if its change counts; an op is filled if all its instances are slower or faster, and framed if some are.${totals.length > MOST_VALUES ? ` ${MOST_VALUES} of ${etq.number(totals.length)} are drawn.` : ""}` }));
});

const keyOf = (table, row, op) => JSON.stringify([table.get(row, "value"), table.get(row, "method"), op]);

// The ops that take most, by the longest time among values.
function costly(ops) {
  const times = new Map();
  for (const row of ops.rows()) times.set(ops.get(row, "op"), Math.max(times.get(ops.get(row, "op")) ?? 0, ops.get(row, "base") ?? 0));
  return [...times.keys()].sort((one, other) => times.get(other) - times.get(one)).slice(0, MOST_OPS);
}

// Where the page is served, a value leads to its comparison with all others.
function valueOf(named, value, { by, selector }) {
  if (!etq.compareLink) return etq.printable(named);
  const of = etq.selectorOf([[by, value]]);
  const [base, newer] = [of.replace("=", "!="), of].map((part) => [selector, part].filter(Boolean).join(","));
  return etq.element("a", { href: etq.compareLink(base, newer), text: etq.printable(named) });
}

function cellOf(ops, row) {
  if (row === undefined) return etq.element("td");
  const change = etq.changeOf(ops, row);
  const [slower, all] = [ops.get(row, "slower_instances"), ops.get(row, "instances")];
  const text = slower && slower < all ? `${etq.change(change.change)} ${slower}/${all}` : etq.change(change.change);
  const kind = etq.counts(change.verdict) ? etq.verdictClass(change.verdict) : "";
  return etq.element("td", { class: "number" }, kind ? etq.element("span", { class: `verdict ${slower && slower < all ? "some" : kind}`, text }) : text);
}
