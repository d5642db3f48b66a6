// The things that are slower, the most costly first; then all series, with the reason if a series isn't judged. It is a
// file, or the first page of a server, which adds links.

const WIDE = 220;
const TIMES_AT = 90;

// Points on a line: the times of a cause's series on all devices, with the slow device marked.
function strip(cause, table) {
  const found = table.rows().map((row) => ({ of: etq.partsOf(table.get(row, "series")), value: table.get(row, "value"), unit: table.get(row, "unit") }))
    .filter(({ of, value, unit }) => value !== null && unit === cause.unit && of.filter((part) => !part.startsWith("device=")).join() === cause.series);
  if (found.length < 2) return "";
  const values = found.map(({ value }) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (value) => 5 + ((WIDE - 10) * (value - low)) / (high - low || 1);
  const isSlow = ({ of }) => of.includes(etq.selectorOf([["device", cause.value]]));
  return etq.element("figure", {},
    etq.svg("svg", { class: "spark strip", width: WIDE, height: 14, viewBox: `0 0 ${WIDE} 14`, role: "img", "aria-label": `times of ${found.length} series` },
      ...[...found].sort((one, other) => isSlow(one) - isSlow(other)).map((each) => etq.svg("circle", { cx: x(each.value), cy: 7, r: isSlow(each) ? 4 : 2.4, class: isSlow(each) ? "slower" : "dot" }))),
    etq.element("figcaption", {}, etq.element("span", { text: etq.quantity(low, cause.unit) }), etq.element("span", { text: etq.quantity(high, cause.unit) })));
}

const isOfSeries = (cause) => cause.kind === "change" || cause.kind === "creep";

function picture(cause, series, table) {
  if (cause.kind === "device") return table ? strip(cause, table) : "";
  const points = series?.all.get(etq.seriesName(cause.series, cause.unit));
  if (!isOfSeries(cause) || !points) return "";
  return etq.element("figure", {}, etq.spark(series, points.at(-1).capture, WIDE, TIMES_AT), etq.element("figcaption", { text: `last ${Math.min(points.length, TIMES_AT)} captures` }));
}

function links(cause) {
  const made = [];
  if (!etq.compareLink) return made;
  const link = (text, href) => made.push(etq.element("a", { href, text }));
  if (isOfSeries(cause)) link("trend", `/trends?${new URLSearchParams({ selector: cause.series })}`);
  if (cause.kind === "device") link("fleet", `/fleet?${new URLSearchParams(cause.series ? { selector: cause.series } : {})}`);
  const isOfJob = cause.finding !== null;
  if (isOfJob) link("job", `/jobs?${new URLSearchParams({ selector: cause.series })}`);
  if (isOfJob && cause.captures === 1) link("capture", etq.captureLink(cause.new));
  if (cause.base && cause.new) link("compare", etq.compareLink(cause.base, cause.new));
  return made;
}

// The command that accepts a change. It is shown because pages can't write.
function accepting(cause, source) {
  if (!isOfSeries(cause) || cause.is_accepted) return "";
  const op = cause.cause === "all ops" ? "" : ` --op ${quoted(cause.cause)}`;
  const command = `etq comment ${quoted(cause.first_bad)} ${quoted(cause.series)}${op} --accept "why" --db ${quoted(source)}`;
  return etq.element("details", {}, etq.element("summary", { text: "accept" }), etq.element("pre", { text: etq.printable(command) }));
}

const quoted = (text) => (/^[\w=,./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function item(cause, series, table, source) {
  const [to, ...rest] = links(cause);
  const title = to ? etq.element("a", { href: to.getAttribute("href"), text: etq.printable(cause.title) }) : etq.element("span", { text: etq.printable(cause.title) });
  return etq.element("li", {},
    etq.element("div", { class: "size" }, etq.element("b", { text: cause.share_percent === null ? "" : etq.change(cause.share_percent) }), etq.element("span", { text: cause.cost === null ? "" : etq.quantity(cause.cost, cause.unit) })),
    etq.element("div", {}, etq.element("h2", {}, title, etq.element("span", { class: "tag", text: cause.kind })), etq.element("p", { text: etq.sentence(etq.printable(cause.detail)) }),
      cause.comment ? etq.element("p", { class: "muted", text: etq.printable(`${cause.author ?? ""}: ${cause.comment}`.replace(/^: /, "")) }) : ""),
    etq.element("div", {}, picture(cause, series, table)),
    etq.element("div", { class: "go" }, ...(to ? [to] : []), ...rest), accepting(cause, source));
}

// The label since which a series has its level; of growth in small steps, its first and last label.
function sinceOf(table, row, label) {
  const name = (text) => etq.short(text ?? "", 12);
  return table.get(row, "kind") === "creep" ? `${name(table.get(row, "last_good"))} to ${name(label)}` : name(label);
}

etq.seriesTable = (parent, table, series) => {
  const trend = (selector, row) => {
    const name = etq.seriesOf(table, row);
    const isOrdered = table.get(row, "captures_unordered") < table.get(row, "captures");
    return etq.compareLink && isOrdered ? etq.element("a", { href: `/trends?${new URLSearchParams({ ...(selector ? { selector } : {}), series: name })}` }, ...etq.broken(name)) : name;
  };
  etq.table(parent, table, [
    { name: "series", always: true, as: trend },
    { name: "verdict", always: true, early: 2, as: etq.verdict },
    { name: "capture", title: "captures in order", always: true, as: (capture) => etq.spark(series, capture ?? "", 120, 60) },
    { name: "change_percent", title: "change", numeric: true, early: 2, as: etq.change },
    { name: "first_bad", title: "since", as: (label, row) => sinceOf(table, row, label) },
    { name: "value", title: "last", numeric: true, as: (value, row) => (value === null ? "" : etq.quantity(value, table.get(row, "unit"))) },
    { name: "noise_percent", title: "noise", numeric: true, as: etq.percent },
    { name: "shown_percent", title: "shown by 5 builds", numeric: true, as: etq.percent },
    { name: "captures", numeric: true },
    { name: "reason", title: "note", always: true, class: "why", as: (reason, row) => reason ?? table.get(row, "condition") ?? "" },
  ], { name: "series", first: 30 });
};

// The number of findings that nobody has accepted.
etq.findingsText = (causes) => {
  const open = causes.filter((cause) => !cause.is_accepted).length;
  return open === 1 ? "1 finding" : `${open || "No"} findings`;
};

const KINDS = { "": "all", change: "since a build", creep: "in small steps", device: "device", rank: "rank", link: "link", clock: "clock", accepted: "accepted" };

// Draws the findings of a kind, and a button for each kind, which calls choose(kind).
etq.slower = ({ list, chips, causes, kind, series, table, source, choose }) => {
  const open = causes.filter((cause) => !cause.is_accepted);
  const of = (name) => (name === "accepted" ? causes.filter((each) => each.is_accepted) : open.filter((each) => name === "" || each.kind === name));
  chips.replaceChildren(...Object.entries(KINDS).map(([name, title]) => etq.element("button", { type: "button", "aria-pressed": String(name === kind), onclick: () => choose(name) }, `${title} `, etq.element("b", { text: of(name).length }))));
  const found = of(kind in KINDS ? kind : "");
  const none = kind === "" ? "Nothing is found to be slower." : "None of this kind.";
  list.replaceChildren(found.length ? etq.element("ul", { class: "found" }, ...found.map((cause) => item(cause, series, table, source))) : etq.element("p", { text: none }));
};

// Draws the page in a file, without a server.
etq.section("slower", (parent, { series, points }, { causes, overview, source }) => {
  const [list, chips] = [etq.element("div"), etq.element("nav", { class: "chips", "aria-label": "Kinds of findings" })];
  const choose = (kind) => etq.slower({ list, chips, causes, kind, series: new etq.Series({ rows: points }), table: series, source, choose });
  parent.append(etq.element("p", { class: "muted", text: overview }), chips, list);
  choose("");
});

etq.section("all_series", (parent, { series, points }, { judged }) => {
  parent.append(etq.element("p", { class: "muted", text: judged }));
  etq.seriesTable(parent, series, new etq.Series({ rows: points }));
});
