// A fleet: each value of a label against all others, as a point with its interval, and its change in each of the
// longest ops.

// The most rows that are drawn. The first rows differ most.
const MOST_DRAWN = 200;

etq.section("fleet", (parent, { outliers_total: totals, cells }, facts) => {
  parent.append(etq.element("p", { class: "told", text: etq.sentence(facts.sentence) }));
  const shown = totals.rows().filter((row) => totals.get(row, "change_percent") !== null).slice(0, MOST_DRAWN);
  if (!shown.length) return;
  const changes = shown.map((row) => etq.changeOf(totals, row));
  const scale = etq.changeScale(changes);
  const hasMethods = new Set(totals.list("method")).size > 1;
  const places = new Map(cells.rows().map((row) => [keyOf(cells, row, cells.get(row, "op")), row]));
  const body = etq.element("tbody", {}, ...shown.map((row, at) => {
    const get = (name) => totals.get(row, name);
    const named = hasMethods ? `${get("value")}, ${get("method")}` : get("value");
    const pairs = [...etq.changePairs(changes[at]), ["in ops", get("in_ops")], ["all others", etq.quantity(get("base"), get("unit"))], ["it", etq.quantity(get("new"), get("unit"))], ["note", get("note")]];
    return etq.element("tr", { "data-verdict": get("verdict"), onpointermove: (event) => etq.showTip(event, named, pairs), onpointerleave: () => etq.hideTip() },
      etq.element("th", { scope: "row" }, valueOf(etq.short(named, 60), get("value"), facts)),
      etq.element("td", {}, etq.verdict(get("verdict"))),
      etq.element("td", { class: "number", text: etq.change(get("change_percent")) }),
      etq.element("td", { class: "change-place" }, etq.changeTrack(changes[at], scale)),
      etq.element("td", { class: "number", text: etq.quantity(get("new"), get("unit")) }),
      etq.element("td", { text: etq.short(get("in_ops") ?? "", 60) }),
      etq.element("td", { class: "number", text: get("common_percent") === null ? "unknown" : etq.change(get("common_percent")) }),
      ...facts.ops.map((op) => cellOf(cells, places.get(keyOf(totals, row, op)))));
  }));
  const heading = (text, more = {}) => etq.element("th", { scope: "col", ...more }, ...(typeof text === "string" ? etq.broken(etq.short(text, 40)) : [text]));
  const head = etq.element("tr", {}, heading(facts.by), heading("verdict"), heading("total", { class: "number" }), heading(etq.changeTicks(scale), { class: "change-place", "aria-label": "change and interval" }),
    heading("time", { class: "number" }), heading("in ops"), heading("common shift", { class: "number" }), ...facts.ops.map((op) => heading(op, { class: "number" })));
  const left = shown.length < totals.length ? ` ${etq.number(shown.length)} of ${etq.number(totals.length)} rows are drawn: the first ones whose change is known.` : "";
  const about = `Each ${etq.short(facts.by, 80)} against all others. Ops are without the common shift; those that take most have a column. A point or an op is filled if its change counts; an op is framed if only some of its instances are slower.${left}`;
  parent.append(
    etq.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Changes and ops" }, etq.element("table", { class: "fleet" }, etq.element("thead", {}, head), body)),
    etq.element("p", { class: "muted", text: about }));
});

const keyOf = (table, row, op) => JSON.stringify([table.get(row, "value"), table.get(row, "method"), op]);

// On a server, a value links to its comparison with all others.
function valueOf(named, value, { by, selector, options }) {
  if (!etq.compareLink) return etq.printable(named);
  const of = etq.selectorOf([[by, value]]);
  const [base, newer] = [of.replace("=", "!="), of].map((part) => [selector, part].filter(Boolean).join(","));
  const given = new URLSearchParams(Object.entries(options).filter(([name, each]) => each !== null && name !== "by"));
  const href = [etq.compareLink(base, newer), given.toString()].filter(Boolean).join("&");
  return etq.element("a", { href, text: named, title: "Compare it with all others, with those that differ among them" });
}

function cellOf(cells, row) {
  if (row === undefined) return etq.element("td");
  const { change, verdict } = etq.changeOf(cells, row);
  const [slower, all] = [cells.get(row, "slower_instances"), cells.get(row, "instances")];
  const isPart = verdict === etq.verdicts.slower && slower < all;
  const text = isPart ? `${etq.change(change)} ${slower}/${all}` : etq.change(change);
  const kind = isPart ? "some" : etq.counts(verdict) ? etq.verdictClass(verdict) : "";
  return etq.element("td", { class: "number" }, kind ? etq.element("span", { class: `verdict ${kind}`, text }) : text);
}
